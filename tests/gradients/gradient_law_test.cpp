// Every gradient of every kind of call against the reference: every mask x dtype x heads x dropout,
// and within a cell of that product layouts, sizes, biases, softcap, scale, packed sequences,
// changed rows, gradients of lse and of weights, passes and dtypes as they are drawn.
//
// RAPT_GRADIENT_LAW_COUNT is how many problems a cell gets.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

#include "gradients/gradient_problems.h"

namespace laws {
namespace {

// Under sanitizers and without optimisation only a share of the cells has a problem.
struct Effort {
  int per_cell = 1, of_cells = 1;
};
Effort effort() {
  constexpr int kStandard = 4;
  if (const char* chosen = std::getenv("RAPT_GRADIENT_LAW_COUNT")) return {std::atoi(chosen), 1};
  const int percent = problem_count(100);
  if (percent * kStandard >= 100) return {kStandard * percent / 100, 1};
  return {1, std::max(1, 100 / (percent * kStandard))};
}

TEST(GradientLaw, AgreesWithTheReference) {
  uint64_t seed = base_seed() + 6;
  const char* set = std::getenv("RAPT_ISA");
  for (const char* c = set ? set : ""; *c; ++c)
    seed = seed * 1099511628211u + static_cast<uint8_t>(*c);
  Random random(seed);
  const Effort wanted = effort();
  const std::clock_t start = std::clock();
  std::map<std::string, int64_t> drawn;
  AxisTally tally;
  int failures = 0;
  int64_t cells = 0, problems = 0;
  const auto compare_one = [&](const Cell& cell) {
    const Descriptor descriptor = gradient_problem(cell, random, &tally, InputKinds::any);
    const std::string line = to_string(descriptor);
    ++problems;
    drawn["d_lse"] += descriptor.backward.d_lse;
    drawn["two passes"] += descriptor.backward.two_passes;
    drawn["gradients in f32"] += descriptor.backward.f32;
    drawn["d_weights"] += descriptor.captures.weights.has_value();
    try {
      const Case c(descriptor);
      const GradientCase g(c);
      const Comparison comparison = compare(g, run_backward(g));
      if (comparison.ok()) return;
      ADD_FAILURE() << "rapt check '" << line << "'\n" << comparison.failures();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rapt check '" << line << "'\n" << error.what();
    }
    ++failures;
  };
  for (size_t mask = 0; mask < kAxes[kMaskAxis].values.size(); ++mask)
    for (size_t dtype = 0; dtype < kDTypes; ++dtype)
      for (size_t heads = 0; heads < std::size(axis_values::kHeads); ++heads)
        for (size_t dropout = 0; dropout < std::size(kDropouts); ++dropout) {
          if (cells++ % wanted.of_cells != 0) continue;
          for (int n = 0; n < wanted.per_cell && failures < 5; ++n)
            compare_one({static_cast<uint8_t>(mask), static_cast<uint8_t>(dtype),
                         static_cast<uint8_t>(heads), static_cast<uint8_t>(dropout)});
        }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%s%lld cells, %lld problems, %.3f ms of CPU time a problem\n", tally.table().c_str(),
              static_cast<long long>(cells), static_cast<long long>(problems),
              1e3 * seconds / static_cast<double>(problems));
  for (const auto& [what, count] : drawn)
    std::printf("  %s: %lld\n", what.c_str(), static_cast<long long>(count));
  if (failures > 0 || wanted.of_cells > 1) return;
  for (const size_t axis :
       {kScoreAxis, kNormalizerAxis, kRelativeAxis, kRowsAxis, kInputsAxis, kMethodAxis})
    for (size_t value = 0; value < kAxes[axis].values.size(); ++value)
      EXPECT_TRUE(!built(axis, value) || tally.of(axis, value) > 0)
          << "never drawn: " << kAxes[axis].name << "=" << kAxes[axis].values[value];
}

}  // namespace
}  // namespace laws
