// ONNX Attention, opsets 23 to 25: the dialect "onnx" of rapt/dialect.h.
//
// In addition, one ONNX node has
//   3-D inputs            [batch, length, heads * dim]: the same memory seen as 4-D, nothing copied
//   attn_mask             keys beyond its end are excluded
//   past_key, past_value  put before key and value by write_to_cache
//   qk_matmul_output      0, 1: the scores of a call without mask, and without softcap for 0;
//                         2: those of the whole call; 3: the weights
// Computed in f32 (f64 for f64), unless softmax_precision requests a wider type.
#include <algorithm>
#include <limits>
#include <utility>

#include "operators.h"
#include "rapt/attention.h"
#include "rapt/cache.h"
#include "rapt/dialect.h"
#include "rapt/rotary.h"

namespace rapt::conformance {
namespace {

enum Input { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };
enum Output { kY, kPresentKey, kPresentValue, kScores };

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, message); }

// [batch, heads, length, dim] of a 4-D tensor, or of [batch, length, heads * dim].
TensorView by_heads(const TensorView& x, int64_t heads) {
  if (x.rank == 3) return split_heads(x, heads);
  if (x.rank != 4)
    fail(ErrorCode::shape, "Attention: " + to_string(x.dims()) + "; expected 3-D or 4-D");
  return x;
}

// past and then `now`, as one tensor.
Tensor joined(const TensorView& past, const TensorView& now) {
  if (!past.defined()) return Tensor::copy_of(now);
  if (past.rank != 4)
    fail(ErrorCode::shape, "Attention: a past " + to_string(past.dims()) + "; expected 4-D");
  const int64_t batch = now.shape[0], length = past.shape[2];
  const int64_t dims[] = {batch, now.shape[1], length + now.shape[2], now.shape[3]};
  Tensor all(now.dtype, dims), starts(DType::i64, {batch});
  std::fill_n(starts.values<int64_t>().begin(), batch, length);
  write_to_cache(all, past);
  write_to_cache(all, now, starts);
  return all;
}

void fill(Tensor& tensor, double value) {
  const auto all = [value](auto elements) {
    using T = typename decltype(elements)::value_type;
    for (T& x : elements) {
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
        x = T::from(value);
      else
        x = static_cast<T>(value);
    }
  };
  switch (tensor.dtype()) {
    case DType::f32:
      return all(tensor.values<float>());
    case DType::f64:
      return all(tensor.values<double>());
    case DType::f16:
      return all(tensor.values<Float16>());
    case DType::bf16:
      return all(tensor.values<BFloat16>());
    case DType::boolean:
      return all(tensor.values<bool>());
    default:
      fail(ErrorCode::dtype, std::string("Attention: ") + name_of(tensor.dtype()));
  }
}

// The mask with at least two dimensions and all keys; keys beyond its end are masked out.
Tensor whole_mask(const TensorView& given, int64_t k_len) {
  if (!given.defined()) return {};
  std::vector<int64_t> dims(given.dims().begin(), given.dims().end());
  if (dims.empty()) fail(ErrorCode::shape, "Attention: attn_mask is a scalar");
  if (dims.size() == 1) dims.insert(dims.begin(), 1);
  const TensorView mask(given.data, given.dtype, dims, true);
  const int64_t reach = dims.back();
  if (reach == 1 || reach >= k_len) return Tensor::copy_of(mask);
  dims.back() = k_len;
  Tensor all(given.dtype, dims);
  fill(all, given.dtype == DType::boolean ? 0 : -std::numeric_limits<double>::infinity());
  write_to_cache(all.view().slice(-1, 0, reach), mask);  // all of its rows
  return all;
}

// f32 rounded to the dtype of ONNX's output.
Tensor rounded(Tensor from, DType dtype) {
  if (from.dtype() == dtype) return from;
  Tensor to(dtype, from.dims());
  const auto source = std::as_const(from).values<float>();
  for (size_t i = 0; i < source.size(); ++i) {
    if (dtype == DType::f16)
      to.values<Float16>()[i] = Float16::from(source[i]);
    else
      to.values<BFloat16>()[i] = BFloat16::from(source[i]);
  }
  return to;
}

struct Inputs {
  TensorView query, key, value;  // [batch, heads, length, dim]
};

AttentionResult attend(const Inputs& in, const DialectArguments& words,
                       std::optional<WeightsRequest> weights = {}) {
  const DialectOptions call(dialect("onnx"), words);
  AttentionOptions options = call.options();
  options.weights = weights;
  return scaled_dot_product_attention(in.query, in.key, in.value, options);
}

// The scores or weights of qk_matmul_output for `mode`.
Tensor matmul_output(const Inputs& in, DialectArguments words, int64_t mode) {
  if (mode < 2) words = {.scale = words.scale, .softcap = words.softcap};
  if (mode == 0) words.softcap.reset();
  return attend(in, words,
                WeightsRequest{.stage = mode == 3 ? WeightsStage::weights : WeightsStage::scores})
      .weights;
}

}  // namespace

Outputs run_attention(const NodeTest& test) {
  const Node& node = test.node;
  require_known(node, {"is_causal", "kv_num_heads", "left_window_size", "q_num_heads",
                       "qk_matmul_output_mode", "right_window_size", "scale", "softcap",
                       "softmax_precision"});
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) fail(ErrorCode::unsupported, "Attention: qk_matmul_output_mode");
  const int64_t kv_heads = node.integer("kv_num_heads", 0);

  Inputs in;
  in.query = by_heads(test.input(kQuery), node.integer("q_num_heads", 0));
  const Tensor keys = joined(test.input(kPastKey), by_heads(test.input(kKey), kv_heads));
  const Tensor values = joined(test.input(kPastValue), by_heads(test.input(kValue), kv_heads));
  in.key = keys, in.value = values;

  DialectArguments words;
  if (node.has("scale")) words.scale = node.real("scale", 1);
  if (node.real("softcap", 0) > 0) words.softcap = node.real("softcap", 0);
  words.causal = node.integer("is_causal", 0) != 0;
  const int64_t left = node.integer("left_window_size", -1);
  const int64_t right = node.integer("right_window_size", -1);
  if (left >= 0) words.window_left = left;
  if (right >= 0) words.window_right = right;
  const Tensor mask = whole_mask(test.input(kMask), in.key.shape[2]);
  if (mask.defined()) (mask.dtype() == DType::boolean ? words.mask : words.bias) = mask;
  words.lengths = test.input(kLengths);
  if (test.input(kPastKey).defined()) words.past = test.input(kPastKey).shape[2];

  Outputs outputs(test.outputs.size());
  AttentionResult result = attend(in, words);
  if (test.input(kQuery).rank == 3) {  // [batch, length, heads * dim], as the inputs
    const Tensor& y = result.output;
    outputs[kY] = Tensor(y.dtype(), {y.dim(0), y.dim(2), y.dim(1) * y.dim(3)});
    write_to_cache(by_heads(outputs[kY], y.dim(1)), y);
  } else {
    outputs[kY] = std::move(result.output);
  }
  if (test.wants(kPresentKey)) outputs[kPresentKey] = Tensor::copy_of(keys);
  if (test.wants(kPresentValue)) outputs[kPresentValue] = Tensor::copy_of(values);
  if (test.wants(kScores))
    outputs[kScores] = rounded(matmul_output(in, words, mode), in.query.dtype);
  return outputs;
}

}  // namespace rapt::conformance
