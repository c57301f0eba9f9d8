// The main() of tests that run once per instruction set, which RAPT_ISA names. Exits with 77
// (skipped) if this machine lacks the set, or, with RAPT_WIDEST_ONLY=1, if it has a better one.
// Fails if the library would use another set.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "rapt/attention.h"
#include "rapt/instruction_sets.h"

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in CMake

// The instruction set that plan() names.
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
  // Tests the bf16 dot products wherever the CPU has them, even if they are slower than FMA. The
  // other sets test widened bf16.
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
