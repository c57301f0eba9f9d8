#pragma once
// Results of checks as GoogleTest assertions.
#include <gtest/gtest.h>

#include <span>

#include "check/tensors/arrays.h"
#include "check/tolerance/tolerance.h"

namespace laws {

// Whether shape, dtype and every bit are equal. NaN is compared by its bits too.
inline testing::AssertionResult same_bits(const rapt::TensorView& got,
                                          const rapt::TensorView& expected) {
  const auto difference = check::difference_of_bits(got, expected);
  return difference ? testing::AssertionFailure() << *difference : testing::AssertionSuccess();
}

inline testing::AssertionResult as_assertion(const check::Verdict& verdict) {
  return verdict.ok ? testing::AssertionSuccess() : testing::AssertionFailure() << verdict.message;
}

// Whether `got` is within `factor` budgets of the expected values. The message names the worst
// element.
inline testing::AssertionResult met_by(const check::Expectation& expected,
                                       std::span<const double> got, const char* what,
                                       double factor = 1) {
  return as_assertion(expected.verdict(got, what, factor));
}

}  // namespace laws
