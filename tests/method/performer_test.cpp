// favor with a given projection has the features and sums of performer-pytorch, as
// record_performer.py recorded them. The package divides features by their largest one and adds an
// epsilon to each,
//
//   phi'(q) = phi(q) / max phi(q) + eps     phi'(k) = phi(k) / max over all keys + eps
//
// where both largest ones leave out e^(-|x|^2 / 2). The test does the same to the features and the
// sums that favor returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "rapt/attention.h"
#include "rapt/method/favor.h"
#include "recorded_performer.h"
#include "support/call.h"

namespace laws {
namespace {

using namespace recorded_performer;

const TensorView kProjection(projection, {kRows, kDim});

// The sums of features times values, and of features behind them: [kRows][value_dim + 1].
std::vector<double> sums_over(const TensorView& keys, const TensorView& values) {
  const int64_t columns = values.shape[1] + 1;
  Tensor state(DType::f32, {kRows + 1, columns});
  rapt::Favor favor;
  favor.features = kRows, favor.projection = kProjection, favor.final_state = state.view();
  (void)scaled_dot_product_attention(keys, keys, values, {.method = &favor});
  const auto all = state.values<float>();
  const double factor = std::exp2(all[static_cast<size_t>(kRows * columns)]);
  std::vector<double> sums;
  for (int64_t i = 0; i < kRows * columns; ++i)
    sums.push_back(factor * all[static_cast<size_t>(i)]);
  return sums;
}

// The largest w . x of rows x.
double largest_projection(const float* x, int rows) {
  double most = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < rows; ++i)
    for (int r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int d = 0; d < kDim; ++d) sum += double{projection[r * kDim + d]} * x[i * kDim + d];
      most = std::max(most, sum / std::sqrt(std::sqrt(kDim)));
    }
  return most;
}

TEST(Performer, FeaturesAndSumsAreTheirs) {
  constexpr size_t kColumns = kValueDim + 1;
  const std::vector<double> sums =
      sums_over(TensorView(key, {kKeys, kDim}), TensorView(value, {kKeys, kValueDim}));
  std::array<double, kColumns> plain = {};  // of values and of ones, which epsilon multiplies
  for (int j = 0; j < kKeys; ++j) {
    for (size_t c = 0; c < kValueDim; ++c)
      plain[c] += value[static_cast<size_t>(j) * kValueDim + c];
    plain[kValueDim] += 1;
  }
  const double of_keys = std::exp(-largest_projection(key, kKeys));
  const float one = 1;
  for (int i = 0; i < kQueries; ++i) {
    const float* const x = query + i * kDim;
    const std::vector<double> phi =
        sums_over(TensorView(x, {1, kDim}), TensorView(&one, {1, 1}));  // beside a copy of it
    const double of_query = std::exp(-largest_projection(x, 1));
    std::array<double, kColumns> total = {};
    for (size_t r = 0; r < kRows; ++r)
      for (size_t c = 0; c < kColumns; ++c)
        total[c] += (of_query * phi[2 * r + 1] + kEpsilon) *
                    (of_keys * sums[r * kColumns + c] + kEpsilon * plain[c]);
    for (size_t c = 0; c < kValueDim; ++c)
      EXPECT_NEAR(total[c] / total[kValueDim], output[static_cast<size_t>(i) * kValueDim + c], 1e-5)
          << i << " " << c;
  }
}

}  // namespace
}  // namespace laws
