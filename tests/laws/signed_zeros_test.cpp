// The sign of a zero is a bit, too: where values or weights underflow it must not depend on masked
// keys or other rows. Outputs that are zero are +0.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "rapt/mask/boolean.h"
#include "support/call.h"

namespace laws {
namespace {

double random_nothing(Random& random, DType dtype) {
  const double smallest = dtype == DType::f64 ? DBL_TRUE_MIN : FLT_TRUE_MIN;
  return random.pick({0.0, -0.0, smallest, -smallest, 7 * smallest, -7 * smallest});
}

// Values that products with a weight below 1 take to a zero of either sign.
Tensor random_nothings(Random& random, DType dtype, const Dims& dims) {
  return mapped(filled(dtype, dims, 0),
                [&](double, auto) { return random_nothing(random, dtype); });
}

struct Zeros {  // of an output
  int positive = 0, negative = 0;
};

Zeros zeros_of(const TensorView& view) {
  Zeros zeros;
  for_each_index(view.dims(), [&](auto i) {
    const double x = get(view, i);
    if (x == 0) ++(std::signbit(x) ? zeros.negative : zeros.positive);
  });
  return zeros;
}

class SignedZeros : public testing::TestWithParam<DType> {};

TEST_P(SignedZeros, OfOneRowAloneAndAmongOthers) {
  const DType dtype = GetParam();
  Random random(base_seed());
  int zeros_seen = 0;
  for (int n = 0; n < problem_count(40) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(2, 70), k_len = random.between(1, 200);
    const int64_t value_dim = random.between(1, 20);
    SCOPED_TRACE(std::to_string(n) + ": " + std::to_string(q_len) + " queries, " +
                 std::to_string(k_len) + " keys, value_dim " + std::to_string(value_dim));
    const Tensor query = random_normal(random, dtype, {q_len, 3}, 10);
    const Tensor key = random_normal(random, dtype, {k_len, 3}, 3);  // weights down to e^-100
    const Tensor value = random_nothings(random, dtype, {k_len, value_dim});
    Tensor allowed(DType::boolean, {q_len, k_len});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.6)); });

    const rapt::Boolean mask(allowed);
    AttentionOptions options;
    options.invariant = true;
    options.masks = {&mask};
    const AttentionResult all = scaled_dot_product_attention(query, key, value, options);
    const Zeros zeros = zeros_of(all.output);
    EXPECT_EQ(zeros.negative, 0);
    zeros_seen += zeros.positive;

    // The row alone; then with other numbers and infinities in the keys that are masked for it.
    const int64_t i = random.between(0, q_len - 1);
    const rapt::Boolean mask_of_row(allowed.view().slice(0, i, i + 1));
    options.masks = {&mask_of_row};
    const auto hidden = [&](auto index) { return get(allowed, Dims{i, index[0]}) == 0; };
    for (const bool infinite : {false, true}) {
      const Tensor other_key = mapped(
          key, [&](double x, auto index) { return hidden(index) ? 10 * random.normal() : x; });
      const Tensor other_value = mapped(value, [&](double x, auto index) {
        if (!hidden(index)) return x;
        return infinite ? -HUGE_VAL : random_nothing(random, dtype);
      });
      const AttentionResult alone = scaled_dot_product_attention(query.view().slice(0, i, i + 1),
                                                                 other_key, other_value, options);
      EXPECT_TRUE(same_bits(alone.output, taken(all.output, 0, Dims{i}))) << "row " << i;
    }
  }
  EXPECT_GT(zeros_seen, 100);  // else this test looks at nothing
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SignedZeros, testing::Values(DType::f32, DType::f64),
                         [](const auto& dtype) { return rapt::name_of(dtype.param); });

}  // namespace
}  // namespace laws
