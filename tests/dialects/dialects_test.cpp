// Compares every dialect with the numbers that its project computes (recorded_dialects.h, written
// by record_dialects.py). Projects that need a GPU are compared with the pairs in their
// documentation.
#include "rapt/dialect.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "rapt/attention.h"
#include "recorded_dialects.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using laws::expect_error;

constexpr int64_t kQueries = 3, kKeys = 4, kDim = 4;

struct Results {
  std::vector<float> output;  // [3, 4]; value is the identity, so output = weights
  std::vector<float> lse;     // [3]
};

// Runs the recorded problem with the arguments of a dialect and returns results in its convention.
Results results(const char* name, const DialectArguments& words) {
  const Dialect& d = dialect(name);
  const DialectOptions call(d, words);
  AttentionResult result = scaled_dot_product_attention(
      TensorView(recorded::query, {1, kQueries, kDim}), TensorView(recorded::key, {1, kKeys, kDim}),
      TensorView(recorded::value, {1, kKeys, kDim}), call.options());
  translate_results(d, result.state(), TensorView(recorded::value, {1, kKeys, kDim}));
  const auto output = result.output.values<float>(), lse = result.statistic.values<float>();
  return {{output.begin(), output.end()}, {lse.begin(), lse.end()}};
}

// Both sides round; 2e-6 is a few units in the last place of weights up to 1.
void expect_weights(const char* name, const DialectArguments& words, const float* expected) {
  const Results got = results(name, words);
  for (size_t i = 0; i < kQueries * kKeys; ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(got.output[i])) << name << " " << i;
    else
      EXPECT_NEAR(got.output[i], expected[i], 2e-6) << name << " " << i;
  }
}

const TensorView kMask(recorded::allowed, {kQueries, kKeys});
const TensorView kBias(recorded::bias, {kQueries, kKeys});
const int64_t kThree[] = {3};
const TensorView kLengths(kThree, {1});

TEST(Dialects, PyTorch) {
  expect_weights("pytorch", {.causal = true}, recorded::pytorch_causal);
  expect_weights("pytorch", {.mask = kMask}, recorded::pytorch_mask);
  expect_weights("pytorch", {.scale = 0.25, .bias = kBias}, recorded::pytorch_bias);
}

TEST(Dialects, PyTorchMultiheadAttention) {
  bool masked[kQueries * kKeys];
  for (size_t i = 0; i < kQueries * kKeys; ++i) masked[i] = !recorded::allowed[i];
  const bool padding[] = {false, true, false, true};
  expect_weights("pytorch-mha", {.causal = true}, recorded::mha_causal);
  expect_weights("pytorch-mha", {.mask = TensorView(masked, {kQueries, kKeys})},
                 recorded::mha_mask);
  expect_weights("pytorch-mha", {.mask = TensorView(padding, {1, kKeys})}, recorded::mha_padding);
}

TEST(Dialects, Jax) {
  expect_weights("jax", {.causal = true}, recorded::jax_causal);
  expect_weights("jax", {.window_left = 1, .window_right = 0}, recorded::jax_window);
  expect_weights("jax", {.mask = kMask}, recorded::jax_mask);
  expect_weights("jax", {.bias = kBias}, recorded::jax_bias);
  expect_weights("jax", {.lengths = kLengths}, recorded::jax_lengths);
}

TEST(Dialects, Onnx) {
  expect_weights("onnx", {.causal = true}, recorded::onnx_causal);
  expect_weights("onnx", {.causal = true, .past = 1}, recorded::onnx_past);
  expect_weights("onnx", {.mask = kMask}, recorded::onnx_mask);
  expect_weights("onnx", {.causal = true, .window_left = 1, .past = 1}, recorded::onnx_window);
  expect_weights("onnx", {.lengths = kLengths}, recorded::onnx_lengths);
  expect_weights("onnx", {.causal = true, .lengths = kLengths}, recorded::onnx_causal_lengths);
  // As recorded: the bias, and -inf where the mask forbids a pair. All pairs of row 1 are allowed.
  float bias[kQueries * kKeys];
  for (size_t i = 0; i < kQueries * kKeys; ++i)
    bias[i] = recorded::allowed[i] || i / kKeys == 1 ? recorded::bias[i] : -INFINITY;
  expect_weights("onnx", {.bias = TensorView(bias, {kQueries, kKeys}), .softcap = recorded::cap},
                 recorded::onnx_softcap);
}

TEST(Dialects, HuggingFace) {
  expect_weights("huggingface", {.causal = true, .past = 1}, recorded::hf_causal);
  expect_weights("huggingface", {.causal = true, .window_left = 2, .past = 1}, recorded::hf_window);
  expect_weights("huggingface", {.causal = true, .softcap = recorded::cap, .past = 1},
                 recorded::hf_softcap);
  expect_weights("huggingface", {.mask = kMask}, recorded::hf_mask);
}

// Which pairs attend, as rows of 0 and 1.
std::string pairs(const char* name, const DialectArguments& words, int64_t q_len, int64_t k_len) {
  const DialectOptions call(dialect(name), words);
  const float one = 1;
  const TensorView query(&one, {1, q_len, 1}, {0, 0, 0}), key(&one, {1, k_len, 1}, {0, 0, 0});
  AttentionOptions options = call.options();
  options.weights.emplace();
  const AttentionResult result = scaled_dot_product_attention(query, key, key, options);
  std::string text;
  for (int64_t i = 0; i < q_len; ++i, text += ' ')
    for (int64_t j = 0; j < k_len; ++j)
      text += result.weights.values<float>()[static_cast<size_t>(i * k_len + j)] > 0 ? '1' : '0';
  return text;
}

// The examples of flash_attn_func's docstring. With its window, query i attends to the keys [i +
// seqlen_k - seqlen_q - left, i + seqlen_k - seqlen_q + right].
TEST(Dialects, FlashAttention) {
  EXPECT_EQ(pairs("flash-attn", {.causal = true}, 2, 5), "11110 11111 ");
  EXPECT_EQ(pairs("flash-attn", {.causal = true}, 5, 2), "00 00 00 10 11 ");
  EXPECT_EQ(pairs("flash-attn", {.window_left = 1, .window_right = 0}, 2, 5), "00110 00011 ");
  EXPECT_EQ(pairs("flash-attn", {.window_left = 0, .window_right = 1}, 3, 4), "0110 0011 0001 ");
  EXPECT_EQ(pairs("flash-attn", {.causal = true, .window_left = 2}, 2, 5), "01110 00111 ");
  // The softcap is applied before masks, so masked keys stay masked.
  EXPECT_EQ(pairs("flash-attn", {.causal = true, .softcap = 2}, 2, 3), "110 111 ");
  EXPECT_EQ(pairs("flash-attn", {.lengths = kLengths}, 1, 5), "11100 ");
  // flash_attn_with_kvcache: causal and window end at cache_seqlens.
  EXPECT_EQ(pairs("flash-attn", {.causal = true, .lengths = kLengths}, 2, 5), "11000 11100 ");
  EXPECT_EQ(pairs("flash-attn", {.window_left = 1, .window_right = 1, .lengths = kLengths}, 2, 5),
            "11100 01100 ");
}

// "If the row of the mask is all zero, the output will be zero"; the lse of that row is +inf.
TEST(Dialects, RowsWithoutKeys) {
  const auto of_empty_row = [](const char* name) {
    const Dialect& d = dialect(name);
    const float one = 1, value[] = {1, 2, 4, 6};  // two heads of two keys
    const bool none[] = {false, false};
    const Boolean nothing(TensorView(none, {1, 2}));
    AttentionOptions options{.masks = {&nothing}};
    // Four query heads share two value heads; the batch size is 1.
    AttentionResult result = scaled_dot_product_attention(
        TensorView(&one, {1, 4, 1, 1}, {0, 0, 0, 0}), TensorView(&one, {1, 2, 2, 1}, {0, 0, 0, 0}),
        TensorView(value, {1, 2, 2, 1}), options);
    translate_results(d, result.state(), TensorView(value, {1, 2, 2, 1}));
    const auto output = result.output.values<float>();
    EXPECT_EQ(output.size(), 4u);
    return std::array<float, 3>{output[0], output[3], result.statistic.values<float>()[3]};
  };
  using Row = std::array<float, 3>;
  EXPECT_EQ(of_empty_row("flash-attn"), (Row{0, 0, INFINITY}));
  EXPECT_EQ(of_empty_row("flashinfer"), (Row{0, 0, -INFINITY}));
  EXPECT_EQ(of_empty_row("jax"), (Row{1.5f, 5, -2.38197633e38f}));
  EXPECT_EQ(of_empty_row("huggingface"), (Row{1.5f, 5, -INFINITY}));
  EXPECT_EQ(of_empty_row("cudnn"), (Row{0, 0, -INFINITY}));
  const Row mha = of_empty_row("pytorch-mha");
  EXPECT_TRUE(std::isnan(mha[0]) && std::isnan(mha[1]));
}

// cuDNN's diagonal_alignment. Its left bound counts the diagonal itself: left_bound 1 with
// right_bound 0 allows only the diagonal.
TEST(Dialects, Cudnn) {
  const auto top = Anchor::top_left, bottom = Anchor::bottom_right;
  EXPECT_EQ(pairs("cudnn", {.window_right = 0}, 2, 4), "1000 1100 ");
  EXPECT_EQ(pairs("cudnn", {.causal = true, .anchor = bottom}, 2, 4), "1110 1111 ");
  EXPECT_EQ(pairs("cudnn", {.window_left = 1, .window_right = 0, .anchor = top}, 2, 4),
            "1000 0100 ");
  EXPECT_EQ(pairs("cudnn", {.window_left = 2, .window_right = 1, .anchor = bottom}, 2, 4),
            "0111 0011 ");
  EXPECT_EQ(pairs("cudnn", {.causal = true, .lengths = kLengths}, 4, 4), "1000 1100 1110 1110 ");
  EXPECT_EQ(pairs("cudnn", {.causal = true, .lengths = kLengths, .anchor = bottom}, 2, 4),
            "1100 1110 ");
  // attn_scale defaults to 1.
  EXPECT_EQ(DialectOptions(dialect("cudnn"), {}).options().scale, 1);
  EXPECT_FALSE(DialectOptions(dialect("pytorch"), {}).options().scale.has_value());
}

// Order of x-transformers' Attend.forward: bias, then softclamp, then masks. create_causal_mask(i,
// j) is triu(j - i + 1), and a row whose keys are all masked is filled with 0.
TEST(Dialects, XTransformers) {
  float expected[kQueries * kKeys] = {};
  for (size_t i = 0; i < kQueries; ++i) {
    double sum = 0;
    for (size_t j = 0; j < kKeys; ++j) {
      if (!recorded::allowed[i * kKeys + j]) continue;
      double score = 0;
      for (size_t d = 0; d < kDim; ++d)
        score += 0.5 * recorded::query[i * kDim + d] * recorded::key[j * kDim + d];
      score = recorded::cap * std::tanh((score + recorded::bias[i * kKeys + j]) / recorded::cap);
      expected[i * kKeys + j] = static_cast<float>(std::exp(score));
      sum += std::exp(score);
    }
    for (size_t j = 0; sum > 0 && j < kKeys; ++j)
      expected[i * kKeys + j] = static_cast<float>(expected[i * kKeys + j] / sum);
  }
  expect_weights("x-transformers", {.mask = kMask, .bias = kBias, .softcap = recorded::cap},
                 expected);
  expect_weights("x-transformers", {.mask = kMask}, recorded::onnx_mask);
  EXPECT_EQ(pairs("x-transformers", {.causal = true}, 2, 5), "11110 11111 ");
}

// FlashInfer's lse has base 2. window_left counts neighbours on the left, anchored at the
// bottom-right corner.
TEST(Dialects, FlashInfer) {
  EXPECT_EQ(pairs("flashinfer", {.causal = true, .window_left = 1}, 2, 4), "0110 0011 ");
  const Results two = results("flashinfer", {.mask = kMask}), e = results("jax", {.mask = kMask});
  for (const size_t i : {0u, 2u})
    EXPECT_NEAR(two.lse[i], e.lse[i] / std::log(2.0), 1e-6 * std::abs(two.lse[i]));
  EXPECT_EQ(two.lse[1], -INFINITY);
}

TEST(Dialects, LayoutsAreViewed) {
  const float x[24] = {};
  const TensorView view(x, {1, 2, 3, 4});  // [B, n, H, d]
  EXPECT_EQ(to_string(heads_first(dialect("flash-attn"), view).dims()), "[1, 3, 2, 4]");
  EXPECT_EQ(to_string(heads_first(dialect("pytorch"), view).dims()), "[1, 2, 3, 4]");
  expect_error(ErrorCode::shape, {"three"}, [&] {
    heads_first(dialect("jax"), TensorView(x, {6, 4}));
  });
}

// Keys in pages of flash-attention's layout: page 2 then page 0, of which three keys are in use.
TEST(Dialects, BlockTableNamesPagesOfACache) {
  const int32_t lengths[] = {3}, table[] = {2, 0};
  DialectArguments words{.causal = true, .lengths = {lengths, {1}}, .block_table = {table, {1, 2}}};
  const DialectOptions call(dialect("flash-attn"), words);
  const float query[] = {1, 1};            // [B, n, H, d] = [1, 2, 1, 1]
  const float key[] = {8, 0, 0, 0, 2, 4};  // [pages, page_keys, H, d] = [3, 2, 1, 1]
  const float value[] = {100, -1, -1, -1, 1, 10};
  const auto rows = [](const float* data, std::initializer_list<int64_t> shape) {
    return heads_first(dialect("flash-attn"), TensorView(data, shape));
  };
  const AttentionResult paged =
      scaled_dot_product_attention(rows(query, {1, 2, 1, 1}), rows(key, {3, 2, 1, 1}),
                                   rows(value, {3, 2, 1, 1}), call.options());
  const float plain_key[] = {2, 4, 8}, plain_value[] = {1, 10, 100};
  const Causal causal{Anchor::bottom_right};
  const AttentionResult plain = scaled_dot_product_attention(
      TensorView(query, {1, 1, 2, 1}), TensorView(plain_key, {1, 1, 3, 1}),
      TensorView(plain_value, {1, 1, 3, 1}), {.masks = {&causal}});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(paged.output.values<float>()[i], plain.output.values<float>()[i]);
}

// Results in f16, bf16 and f64 keep their type.
TEST(Dialects, RowsWithoutKeysOfOtherTypes) {
  const bool none[] = {false};
  const Boolean nothing(TensorView(none, {1, 1}));
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const uint64_t zeros = 0;
    const int64_t dims[] = {2, 1};
    const TensorView x(const_cast<uint64_t*>(&zeros), dtype, dims, std::vector<int64_t>{0, 0},
                       true);
    AttentionOptions options{.masks = {&nothing}};
    AttentionResult result = scaled_dot_product_attention(x, x, x, options);
    translate_results(dialect("pytorch-mha"), result.state(), {});
    const void* first = result.output.data();
    const double got = dtype == DType::f64    ? *static_cast<const double*>(first)
                       : dtype == DType::bf16 ? *static_cast<const BFloat16*>(first)
                                              : *static_cast<const Float16*>(first);
    EXPECT_TRUE(std::isnan(got)) << name_of(dtype);
  }
}

TEST(Dialects, RefuseWhatTheProjectDoesNotHave) {
  const auto refused = [](const char* name, const DialectArguments& words, const char* what,
                          ErrorCode code = ErrorCode::unsupported) {
    expect_error(code, {name, what}, [&] { DialectOptions(dialect(name), words); });
  };
  refused("flash-attn", {.mask = kMask}, "boolean mask");
  refused("flash-attn", {.bias = kBias}, "bias");
  refused("flashinfer", {.causal = true, .mask = kMask}, "a mask beside causal");
  refused("pytorch", {.window_left = 1}, "window");
  refused("huggingface", {.window_right = 1}, "right bound");
  refused("jax", {.softcap = 30}, "softcap");
  refused("pytorch", {.lengths = kLengths}, "lengths");
  refused("jax", {.lengths = kLengths, .block_table = kLengths}, "block table");
  refused("flash-attn", {.block_table = kLengths}, "without lengths", ErrorCode::argument);
  refused("flash-attn", {.past = 1}, "past");
  refused("jax", {.anchor = Anchor::bottom_right}, "anchor");
  refused("onnx", {.lengths = kLengths, .past = 1}, "one of them", ErrorCode::argument);
  refused("onnx", {.past = -1}, "past is -1", ErrorCode::argument);
  refused("huggingface", {.window_left = 0}, "1 or more", ErrorCode::argument);
  // Sums of these would overflow int64.
  constexpr int64_t kHuge = INT64_MAX;
  refused("onnx", {.window_right = 1, .past = kHuge}, "past is 9", ErrorCode::argument);
  refused("onnx", {.window_right = kHuge, .past = 1}, "window_right is 9", ErrorCode::argument);
  refused("flash-attn", {.window_left = kHuge}, "window_left is 9", ErrorCode::argument);
  refused("jax", {.window_left = -1}, "absent for no bound", ErrorCode::argument);
  refused("jax", {.window_right = -1}, "absent for no bound", ErrorCode::argument);
  expect_error(ErrorCode::unknown_name, {"did you mean flash-attn", "Known: pytorch"},
               [] { dialect("flash_attn"); });
  expect_error(ErrorCode::argument, {"statistic"},
               [] { translate_results(dialect("jax"), {}, {}); });
}

}  // namespace
