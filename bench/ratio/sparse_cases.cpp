#include "ratio/sparse_cases.h"

#include <cmath>
#include <memory>

#include "goals.h"
#include "rapt/catalogue.h"
#include "ratio/option_call.h"

namespace bench {
namespace {

// The forward pass, and the backward pass if wanted.
class Problem {
 public:
  Problem(const std::string& normalizer, int64_t n, double spread, bool with_backward)
      : normalizer_(rapt::make_normalizer(normalizer)),
        call_(options(spread), n > 8192 ? 1 : 2, n, with_backward) {}

  void call() { call_.call(); }

 private:
  rapt::AttentionOptions options(double spread) const {
    rapt::AttentionOptions options;
    options.normalizer = normalizer_.ref;
    // Products of two normal vectors have a standard deviation of sqrt(kHeadDim).
    options.scale = spread / std::sqrt(static_cast<double>(OptionCall::kHeadDim));
    return options;
  }

  rapt::MadeNormalizer normalizer_;
  OptionCall call_;
};

std::function<Call()> call_of(const std::string& normalizer, int64_t n, double spread,
                              bool backward) {
  return [=]() -> Call {
    const auto problem = std::make_shared<Problem>(normalizer, n, spread, backward);
    return [problem] { problem->call(); };
  };
}

}  // namespace

std::vector<RatioCase> sparse_cases(std::initializer_list<int64_t> lengths) {
  struct Row {
    const char* normalizer;
    const char* spread;
    bool backward;
    Goal goal;
  };
  constexpr Row kRows[] = {
      {"sparsemax", "1", false, {1.2, 1.2}},   {"sparsemax", "4", false, {0.9, 0.9}},
      {"entmax15", "1", false, {1.2, 1.2}},    {"entmax15", "4", false, {0.9, 0.9}},
      {"entmax15", "0.1", false, {4, 4}},      {"entmax(1.25)", "1", false, {1.8, 1.8}},
      {"entmax(1.5)", "1", false, {1.8, 1.8}}, {"entmax(2)", "1", false, {1.8, 1.8}},
      {"sparsemax", "1", true, {1.1, 1.1}},    {"sparsemax", "4", true, {0.8, 0.8}},
      {"entmax15", "1", true, {1.1, 1.1}},     {"entmax15", "4", true, {0.8, 0.8}},
      {"entmax15", "0.1", true, {}},           {"top_k_softmax(32)", "1", false, {}},
      {"top_k_softmax(32)", "1", true, {}},    {"top_k_softmax(256)", "1", false, {}},
      {"top_k_softmax(256)", "1", true, {}},
  };
  std::vector<RatioCase> cases;
  for (const int64_t n : lengths)
    for (const Row& row : kRows) {
      const double spread = std::stod(row.spread);
      cases.push_back({std::string(row.normalizer) + (row.backward ? ", both ways" : "") +
                           ", spread " + row.spread + " n=" + std::to_string(n),
                       call_of("softmax", n, spread, row.backward),
                       call_of(row.normalizer, n, spread, row.backward), on_this_core(row.goal)});
    }
  return cases;
}

}  // namespace bench
