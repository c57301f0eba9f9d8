// favor where its features need care: powers that rise along the sequence, features that are too
// far apart, keys behind a length. Drawn problems are in linear_grid_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gradients/gradient_problems.h"
#include "rapt/mask/lengths.h"
#include "rapt/method/favor.h"
#include "support/call.h"

namespace laws {
namespace {

// Keys grow along the sequence, so that every chunk raises the power of the state.
TEST(LinearResults, PowersThatRise) {
  for (const char* kind : {"positive", "hyperbolic", "trigonometric"})
    for (const char* sizes : {"h2q130k130d7v5", "h2q200k200d7v5"})
      for (const char* mask : {"", ":mask=causal"})
        for (const char* dtype : {":f32", ":f64", ":bf16"}) {
          Case c(parse_descriptor(
              std::string(sizes) + dtype + mask + ":scale=0.3:method=favor(20," + kind + ")" +
              (std::string_view(kind) == "trigonometric" ? "" : ":backward=lse")));
          SCOPED_TRACE(to_string(c.descriptor));
          for (int64_t h = 0; h < 2; ++h)
            for (int64_t j = 0; j < c.descriptor.k_len; ++j)
              for (int64_t d = 0; d < 7; ++d)
                set(c.key, Dims{h, j, d},
                    get(c.key, Dims{h, j, d}) * (0.25 + static_cast<double>(j) / 70));
          c.strided_key = check::Strided(c.key, c.descriptor.key.layout);
          const check::Comparison results = compare(c, run(c));
          EXPECT_TRUE(results.ok()) << results.failures();
          const GradientCase g(c);
          const check::Comparison gradients = compare(g, run_backward(g));
          EXPECT_TRUE(gradients.ok()) << gradients.failures();
        }
}

// The limit of the exponentials (docs/methods/favor.md): the query's large feature meets that of
// the key that is e^-spread as large, which f32 does not hold beyond a spread of 87, nor its
// subnormal numbers, which the scalar set keeps, beyond one of 104.
TEST(LinearResults, FeaturesTooFarApartHaveTheSumZero) {
  Tensor projection(DType::f32, {2, 1});
  projection.values<float>()[0] = 1, projection.values<float>()[1] = -1;
  rapt::Favor favor;
  favor.features = 2, favor.projection = projection.view();
  const auto attend = [&](double spread, DType dtype) {
    const Tensor query = filled(dtype, {1, 1}, spread / 2),
                 key = filled(dtype, {1, 1}, -spread / 2), value = filled(dtype, {1, 1}, 3);
    const AttentionResult got =
        scaled_dot_product_attention(query, key, value, {.scale = 1, .method = &favor});
    return std::pair(get(got.output, Dims{0, 0}), get(got.statistic, Dims{0}));
  };
  const auto near = attend(80, DType::f32), far = attend(110, DType::f32);
  EXPECT_FLOAT_EQ(static_cast<float>(near.first), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(near.second), -1600);  // ln(2 e^-1600 / 2)
  EXPECT_TRUE(std::isnan(far.first));
  EXPECT_EQ(far.second, -std::numeric_limits<double>::infinity());
  const auto wide = attend(100, DType::f64);
  EXPECT_DOUBLE_EQ(wide.first, 3);
  EXPECT_DOUBLE_EQ(wide.second, -2500);
}

// A key that no query attends to, and a query without a key, have gradients of 0, even if the row
// or its value is NaN.
TEST(LinearResults, RowsWithoutPairsHaveNoGradient) {
  for (const char* method : {"favor(3,hyperbolic)", "linear(elu)"})
    for (const char* problem :
         {"h1q0k3d4:backward=lse:set=key[0,0,0]=nan,value[0,1,2]=nan",
          "h1q3k0d4:backward=lse:set=query[0,0,0]=nan",
          "b1h4/"
          "1q33k8d7v4:mask=lengths([1,1]):backward=lse:set=key[0,0,7,0]=nan,value[0,0,7,2]=nan:"
          "seed=4218918628"}) {
      const std::string line = std::string(problem) + ":method=" + method;
      SCOPED_TRACE(line);
      const Case c(parse_descriptor(line));
      const GradientCase g(c);
      const check::Comparison gradients = compare(g, run_backward(g));
      EXPECT_TRUE(gradients.ok()) << gradients.failures();
    }
}

// Lengths: as if the keys behind were not there.
TEST(LinearResults, LengthsAreAsFewerKeys) {
  const Case c(parse_descriptor("h1q150k150d7v5:method=favor(20)"));
  const int64_t length = 70;
  const rapt::Lengths lengths(TensorView(&length, {1}));
  const AttentionResult all = scaled_dot_product_attention(
      c.query, c.key, c.value, {.masks = {&lengths}, .method = c.method.get()});
  const AttentionResult fewer =
      scaled_dot_product_attention(c.query, c.key.view().slice(1, 0, 70),
                                   c.value.view().slice(1, 0, 70), {.method = c.method.get()});
  EXPECT_TRUE(same_results(all, fewer));
}

}  // namespace
}  // namespace laws
