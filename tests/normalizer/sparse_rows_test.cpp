// The bits of a row of a sparse normaliser depend neither on other rows of its tile nor on the
// layout of values, however many keys have a weight.
#include <gtest/gtest.h>

#include "rapt/mask/boolean.h"
#include "support/call.h"

namespace laws {
namespace {

constexpr const char* kNormalizers[] = {"sparsemax", "entmax15", "entmax(1.25)",
                                        "top_k_softmax(8)"};
// Factors of the scores: from rows with nearly all weights positive to rows with a few.
constexpr double kSpreads[] = {0.01, 0.05, 0.3, 1};
constexpr int64_t kKeys = 600, kDims = 8;

struct SparseRows : testing::TestWithParam<DType> {
  Random random{20261123};
  Tensor query = random_normal(random, GetParam(), {2, kDims});
  Tensor key = random_normal(random, GetParam(), {kKeys, kDims});
  Tensor value = random_normal(random, GetParam(), {kKeys, 70});

  // Calls visit(options) for normalisers and spreads.
  template <class Visit>
  void for_each_call(const Visit& visit) {
    for (const char* text : kNormalizers)
      for (const double spread : kSpreads) {
        SCOPED_TRACE(testing::Message() << text << ", spread " << spread);
        const rapt::MadeNormalizer made = rapt::make_normalizer(text);
        AttentionOptions options;
        options.normalizer = made.ref;
        options.scale = spread / std::sqrt(static_cast<double>(kDims));
        visit(options);
      }
  }
};

TEST_P(SparseRows, DoNotDependOnWhatOthersSee) {
  for_each_call([&](AttentionOptions& options) {
    for (int64_t seen = 20; seen <= kKeys; seen += 7) {
      Tensor allowed = filled(DType::boolean, {2, kKeys}, 1);
      for (int64_t j = seen; j < kKeys; ++j) set(allowed, Dims{0, j}, 0);
      const TensorView every = allowed.view();
      const rapt::Boolean both(every);
      options.masks = {&both};
      const AttentionResult together = scaled_dot_product_attention(query, key, value, options);
      const TensorView first = every.slice(-2, 0, 1);
      const rapt::Boolean own(first);
      options.masks = {&own};
      const AttentionResult alone =
          scaled_dot_product_attention(query.view().slice(-2, 0, 1), key, value, options);
      EXPECT_TRUE(same_bits(together.output.view().slice(-2, 0, 1), alone.output)) << seen;
      EXPECT_TRUE(same_bits(together.statistic.view().slice(-1, 0, 1), alone.statistic)) << seen;
    }
  });
}

TEST_P(SparseRows, DoNotDependOnTheLayoutOfValues) {
  Tensor turned(GetParam(), {70, kKeys});
  for_each_index(value.dims(), [&](auto at) { set(turned, Dims{at[1], at[0]}, get(value, at)); });
  for_each_call([&](AttentionOptions& options) {
    const AttentionResult dense = scaled_dot_product_attention(query, key, value, options);
    EXPECT_TRUE(same_bits(
        scaled_dot_product_attention(query, key, turned.view().transposed(), options).output,
        dense.output));
  });
}

INSTANTIATE_TEST_SUITE_P(Computed, SparseRows, testing::Values(DType::f32, DType::f64));

}  // namespace
}  // namespace laws
