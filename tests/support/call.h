#pragma once
// Short functions that call the library in a test.
#include <functional>
#include <span>

#include "check/draw/random_descriptor.h"
#include "rapt/attention.h"
#include "support/assertions.h"
#include "support/problem_count.h"

namespace laws {

using rapt::AttentionOptions;
using rapt::AttentionResult;
using rapt::Context;
using rapt::scaled_dot_product_attention;

// Attention over the dense tensors of a case.
inline AttentionResult attend(const Case& c, const Context& context = {}) {
  return scaled_dot_product_attention(c.query, c.key, c.value, c.options, context);
}

// Compares both results bit by bit; weights only if both have them.
inline testing::AssertionResult same_results(const AttentionResult& got,
                                             const AttentionResult& expected) {
  if (auto same = same_bits(got.output, expected.output); !same) return same << " (output)";
  if (auto same = same_bits(got.statistic, expected.statistic); !same) return same << " (lse)";
  if (got.weights.defined() && expected.weights.defined())
    if (auto same = same_bits(got.weights, expected.weights); !same) return same << " (weights)";
  return testing::AssertionSuccess();
}

// The same with every capture, of which both have the same ones.
inline testing::AssertionResult same_captures(const AttentionResult& got,
                                              const AttentionResult& expected) {
  if (auto same = same_results(got, expected); !same) return same;
  const struct {
    const char* name;
    Tensor AttentionResult::*tensor;
  } captures[] = {
      {"weights", &AttentionResult::weights},   {"map", &AttentionResult::map},
      {"top_keys", &AttentionResult::top_keys}, {"top_weights", &AttentionResult::top_weights},
      {"entropy", &AttentionResult::entropy},   {"received", &AttentionResult::received}};
  for (const auto& [name, tensor] : captures) {
    if ((got.*tensor).defined() != (expected.*tensor).defined())
      return testing::AssertionFailure() << "only one of both has " << name;
    if ((expected.*tensor).defined())
      if (auto same = same_bits(got.*tensor, expected.*tensor); !same)
        return same << " (" << name << ")";
  }
  return testing::AssertionSuccess();
}

// Draws `count` problems and calls law(case) for each. Stops at the first failure, whose message
// names the problem, because one line is enough to reproduce it.
inline void for_problems(int count, const Wanted& wanted,
                         const std::function<void(const Case&, Random&)>& law) {
  // The test's name enters the seed, so that every test draws its own problems.
  uint64_t seed = base_seed();
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  for (const char* c = info->name(); *c; ++c)
    seed = seed * 1099511628211u + static_cast<uint8_t>(*c);
  Random random(seed);
  for (int n = 0; n < problem_count(count) && !testing::Test::HasFailure(); ++n) {
    const Case c(random_descriptor(random, wanted));
    SCOPED_TRACE(to_string(c.descriptor));
    law(c, random);
  }
}

}  // namespace laws
