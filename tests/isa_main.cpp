// The main() of tests that run once per instruction set: RAPT_ISA names it. Skips (77) where this
// machine lacks it, and, with RAPT_WIDEST_ONLY=1, where it has a better one; refuses to run if
// another set than the forced one would do the work.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "rapt/attention.h"
#include "rapt/instruction_sets.h"

namespace {

constexpr int kSkipped = 77;  // what CMake's SKIP_RETURN_CODE says

// What the library says it would run.
std::string planned(rapt::DType dtype) {
  const rapt::Tensor t(dtype, {1, 4, 8});
  return rapt::plan(t, t, t).isa;
}

std::string widest() {
  std::string best;
  for (const rapt::InstructionSet& set : rapt::instruction_sets())
    if (set.available) best = set.name;
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* forced = std::getenv("RAPT_ISA");
  // The dot products of bf16 are tested wherever there are some, be they slower; widened bf16 is by
  // the other sets.
  if (forced && std::string(forced) == "avx512" && __builtin_cpu_supports("avx512bf16"))
    setenv("RAPT_BF16", "dot", 0);
  try {
    for (const rapt::InstructionSet& set : rapt::instruction_sets()) {
      if (!set.chosen) continue;
      if (forced && *forced && std::string(forced) != set.name) {
        std::fprintf(stderr, "RAPT_ISA=%s, but %s is chosen\n", forced, set.name);
        return 1;
      }
      for (const rapt::DType dtype : {rapt::DType::f32, rapt::DType::f64}) {
        const std::string plan = planned(dtype);
        std::printf("instruction set: %s, plan() says %s for %s\n", set.name, plan.c_str(),
                    rapt::name_of(dtype));
        if (plan != set.name) {
          std::fprintf(stderr, "plan() names another set than the one that is chosen\n");
          return 1;
        }
      }
    }
    if (forced && std::getenv("RAPT_WIDEST_ONLY") && widest() != forced) {
      std::printf("skipped: this machine has %s\n", widest().c_str());
      return kSkipped;
    }
  } catch (const rapt::Error& error) {
    if (error.code() != rapt::ErrorCode::unsupported) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
    std::printf("skipped: %s\n", error.what());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
