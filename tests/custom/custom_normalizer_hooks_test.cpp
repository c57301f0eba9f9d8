// Custom normalisers that are structs with hooks: their results for masked pairs are ignored;
// whole-row normalisers; hooks for one type alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "custom/custom_calls.h"
#include "rapt/mask/causal.h"
#include "rapt/normalizer/custom_normalizer.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

// Gives a weight to every pair, masked ones too; the call must ignore those.
struct Counting {
  static const rapt::Declaration kDeclaration;
  template <class E>
  void begin(rapt::Tile<E>&) const noexcept {}
  template <class E>
  void apply(rapt::Tile<E>& t) const noexcept {
    weights(t);
  }
  template <class E>
  void finish(rapt::Tile<E>& t, const rapt::Finish<E>& out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      out.inverse[i] = 1;
      if (out.statistic) out.statistic[i] = 0;
    }
  }
  template <class E>
  void weights(rapt::Tile<E>& t) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x)
      t.scores[x] = t.scores[x] > -INFINITY ? 1 : std::numeric_limits<E>::quiet_NaN();
  }
  template <class E>
  void backward(rapt::Tile<E>& t, E* d_weights, const E*, const E*) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x) t.scores[x] = 1, d_weights[x] = 7;
  }
};
const rapt::Declaration Counting::kDeclaration = {"counting", "counts keys", "this test", {}};

TEST(CustomNormalizers, ExcludedPairsHaveNoWeightWhateverTheHooksMakeOfThem) {
  const Counting counting;
  const rapt::Causal causal;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    Random random(base_seed());
    const Tensor rows = random_normal(random, dtype, {1, 200, 4}),
                 ones = filled(dtype, {1, 200, 1}, 1);
    AttentionOptions options;
    options.normalizer = counting;
    options.masks = {&causal};
    options.weights.emplace();
    options.received = true;
    options.top_k = 3;
    options.output_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
    AttentionResult r = scaled_dot_product_attention(rows, rows, ones, options);
    const std::vector<double> output = values_of(r.output), weights = values_of(r.weights),
                              received = values_of(r.received), top = values_of(r.top_weights);
    for (size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(output[i], static_cast<double>(i + 1));
      EXPECT_EQ(received[i], static_cast<double>(200 - i));
      for (size_t j = 0; j < 200; ++j) EXPECT_EQ(weights[i * 200 + j], j <= i ? 1 : 0);
      for (size_t k = 0; k < 3; ++k) EXPECT_EQ(top[i * 3 + k], k <= i ? 1 : 0);
    }
    options.weights = {}, options.received = false, options.top_k = 0;
    rapt::BackwardInputs in;
    in.state = r.state();
    const Tensor d_output = filled(*options.output_dtype, {1, 200, 1}, 1);
    in.d_output = d_output;
    rapt::BackwardRequest request;
    request.dtype = options.output_dtype;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(rows, rows, ones, options, in, request);
    const std::vector<double> d_value = values_of(g.d_value);
    for (size_t j = 0; j < 200; ++j) EXPECT_EQ(d_value[j], static_cast<double>(200 - j));
  }
}

// Scores above the mean of their row, in shares: needs the row before the first weight.
struct AboveMean {
  static const rapt::Declaration kDeclaration;
  static constexpr bool kWholeRow = true;
  static constexpr int kStateRows = 4;  // sum, count, mean, sum of the weights
  template <class E>
  void begin(rapt::Tile<E>& t) const noexcept {
    for (int64_t x = 0; x < kStateRows * t.queries; ++x) t.state[x] = 0;
  }
  template <class E>
  void collect(rapt::Tile<E>& t) const noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x)
      if (t.scores[x] > -INFINITY) {
        t.state[x % t.queries] += t.scores[x];
        t.state[t.queries + x % t.queries] += 1;
      }
  }
  template <class E>
  bool solve(rapt::Tile<E>& t) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i)
      t.state[2 * t.queries + i] = t.state[i] / t.state[t.queries + i];
    return false;
  }
  template <class E>
  void apply(rapt::Tile<E>& t) const noexcept {
    above(t);
    for (int64_t x = 0; x < t.keys * t.queries; ++x)
      t.state[3 * t.queries + x % t.queries] += t.scores[x];
  }
  template <class E>
  void finish(rapt::Tile<E>& t, const rapt::Finish<E>& out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      out.inverse[i] = 1 / t.state[3 * t.queries + i];
      if (out.statistic) out.statistic[i] = t.state[2 * t.queries + i];
    }
  }
  template <class E>
  void weights(rapt::Tile<E>& t) const noexcept {
    above(t);
    for (int64_t x = 0; x < t.keys * t.queries; ++x)
      t.scores[x] /= t.state[3 * t.queries + x % t.queries];
  }

 private:
  template <class E>
  static void above(rapt::Tile<E>& t) noexcept {
    for (int64_t x = 0; x < t.keys * t.queries; ++x) {
      const E over = t.scores[x] - t.state[2 * t.queries + x % t.queries];
      t.scores[x] = over > 0 ? over : 0;
    }
  }
};
const rapt::Declaration AboveMean::kDeclaration = {"above_mean", "", "this test", {}};

TEST(CustomNormalizers, WholeRows) {
  Random random(base_seed());
  const Inputs in(random, 2, 40, 500);
  const AboveMean above;
  const rapt::Causal causal(rapt::Anchor::bottom_right, -1);
  AttentionOptions options, scores;
  options.normalizer = scores.normalizer = above;
  options.masks = scores.masks = {&causal};
  options.weights.emplace();
  scores.weights.emplace();
  scores.weights->stage = rapt::WeightsStage::scores;
  const std::vector<double> s = values_of(in.attend(scores).weights),
                            w = values_of(in.attend(options).weights);
  for (size_t row = 0; row < 80; ++row) {
    const double* const at = s.data() + row * 500;
    double sum = 0, count = 0, total = 0;
    for (size_t j = 0; j < 500; ++j)
      if (at[j] > -INFINITY) sum += at[j], ++count;
    for (size_t j = 0; j < 500; ++j) total += std::max(0.0, at[j] - sum / count);
    // Sums of 500 numbers of size 1, and the difference of two such numbers.
    for (size_t j = 0; j < 500; ++j)
      EXPECT_NEAR(w[row * 500 + j], std::max(0.0, at[j] - sum / count) / total, 1e-13);
  }
  expect_error(ErrorCode::unsupported, {"normalizer above_mean", "no backward pass"},
               [&] { in.gradients(options); });
}

// A normaliser that is compiled with the program is not compiled per instruction set. It has the
// hooks for floats only.
struct NormalizesFloatsOnly {
  static const rapt::Declaration kDeclaration;
  void begin(rapt::Tile<float>&) const noexcept {}
  void apply(rapt::Tile<float>&) const noexcept {}
  void finish(rapt::Tile<float>& t, const rapt::Finish<float>& out) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) out.inverse[i] = 1;
  }
  void weights(rapt::Tile<float>&) const noexcept {}
};
const rapt::Declaration NormalizesFloatsOnly::kDeclaration = {"floats_only", "", "", {}};

TEST(CustomNormalizers, MissingHooksAreRefusedByName) {
  Random random(base_seed());
  const Inputs f64(random, 1, 4, 4), f32(random, 1, 4, 4, DType::f32);
  AttentionOptions options;
  const NormalizesFloatsOnly floats;
  options.normalizer = floats;
  EXPECT_NO_THROW(f32.attend(options));
  expect_error(ErrorCode::unsupported, {"normalizer floats_only", "no hooks for double"},
               [&] { f64.attend(options); });
}

}  // namespace
}  // namespace laws
