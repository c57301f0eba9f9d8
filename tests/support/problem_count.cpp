#include "support/problem_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "support/sanitizers.h"

namespace laws {
namespace {

std::unordered_set<std::string>& seen() {
  static std::unordered_set<std::string> descriptors;
  return descriptors;
}

// Prints the seed and the count of problems around the tests of an executable.
class PrintCount : public testing::Environment {
  void SetUp() override {
    std::printf("seed: %llu\n", static_cast<unsigned long long>(base_seed()));
  }
  void TearDown() override { std::printf("distinct problems: %zu\n", distinct_problems()); }
};
[[maybe_unused]] const testing::Environment* const kPrintCount =
    testing::AddGlobalTestEnvironment(new PrintCount);

}  // namespace

Case::Case(Descriptor drawn) : check::Case(std::move(drawn)) {
  seen().insert(to_string(descriptor));
}

int problem_count(int standard) {
#if RAPT_SANITIZED
  constexpr int kPercent = 5;
#elif defined(__OPTIMIZE__)
  constexpr int kPercent = 100;
#else
  constexpr int kPercent = 20;
#endif
  const char* chosen = std::getenv("RAPT_TEST_PERCENT");
  const int percent = chosen ? std::atoi(chosen) : kPercent;
  return std::max(1, standard * percent / 100);
}

uint64_t base_seed() {
  const char* chosen = std::getenv("RAPT_TEST_SEED");
  return chosen ? std::strtoull(chosen, nullptr, 10) : 20240607u;
}

size_t distinct_problems() { return seen().size(); }

}  // namespace laws
