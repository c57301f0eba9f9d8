// ONNX Attention, opsets 23 and 24.
//
// What ONNX calls otherwise, or takes in one node:
//   3-D inputs            [batch, length, heads * dim]: the same memory seen as 4-D, nothing copied
//   attn_mask, boolean    rapt's Boolean; keys beyond its end are excluded
//   attn_mask, numbers    rapt's bias; keys beyond its end get -inf
//   past_key, past_value  put before key and value by write_to_cache
//   is_causal             query i sees the keys up to i + past length
//   nonpad_kv_seqlen      every sequence is a call of its own, over its keys alone; causal is then
//                         anchored at their end
//   qk_matmul_output      0, 1: the scores of a call without mask, and without softcap for 0;
//                         2: those of the whole call; 3: the weights
// Computed in f32 (f64 for f64), whatever softmax_precision asks for that is not wider.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "operators.h"
#include "rapt/attention.h"
#include "rapt/cache.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/score/softcap.h"

namespace rapt::conformance {
namespace {

enum Input { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };
enum Output { kY, kPresentKey, kPresentValue, kScores };

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, message); }

// [batch, heads, length, dim] of a 4-D tensor, or of [batch, length, heads * dim].
TensorView by_heads(const TensorView& x, int64_t heads) {
  if (x.rank == 4) return x;
  if (x.rank != 3 || heads < 1 || x.shape[2] % heads != 0)
    fail(ErrorCode::shape, "Attention: " + to_string(x.dims()) + " cannot be cut into " +
                               std::to_string(heads) + " heads");
  const int64_t dims[] = {x.shape[0], x.shape[1], heads, x.shape[2] / heads};
  return TensorView(x.data, x.dtype, dims, x.read_only).transposed(1, 2);
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
        x = T::from(static_cast<float>(value));
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

// The mask with at least two dimensions and all keys: those that it does not reach are excluded.
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

struct Problem {
  TensorView query, key, value;  // [batch, heads, length, dim]
  Tensor mask;                   // boolean or numbers; may be absent
  TensorView lengths;            // [batch] i64; may be absent
  bool causal = false;
  int64_t past = 0;
  AttentionOptions options;  // scale, scores, weights
};

// The part of the mask that sequence `b` and its first `length` keys have.
TensorView mask_of(const Tensor& mask, int64_t b, int64_t length) {
  TensorView view = mask.view();
  if (view.rank == 4)
    view = view.slice(0, view.shape[0] == 1 ? 0 : b, view.shape[0] == 1 ? 1 : b + 1);
  return view.shape[view.rank - 1] == 1 ? view : view.slice(-1, 0, length);
}

// One call over all sequences, or over those [begin, end) with their first `length` keys.
AttentionResult attend(const Problem& p, int64_t begin, int64_t end, int64_t length,
                       const TensorView& mask, const Causal& causal) {
  AttentionOptions options = p.options;
  Boolean allowed(mask.defined() && mask.dtype == DType::boolean ? mask : TensorView());
  std::vector<const Mask*> masks;
  if (allowed.allowed.defined()) masks.push_back(&allowed);
  if (p.causal) masks.push_back(&causal);
  options.masks = masks;
  if (mask.defined() && mask.dtype != DType::boolean) options.bias = mask;
  const auto part = [&](const TensorView& x, bool keys) {
    const TensorView batches = x.slice(0, begin, end);
    return keys ? batches.slice(2, 0, length) : batches;
  };
  return scaled_dot_product_attention(part(p.query, false), part(p.key, true), part(p.value, true),
                                      options);
}

// Output and, if wanted, weights or scores [batch, heads, q_len, k_len] of the problem.
AttentionResult solve(const Problem& p) {
  const int64_t batch = p.query.shape[0], q_len = p.query.shape[2], k_len = p.key.shape[2];
  if (!p.lengths.defined())
    return attend(p, 0, batch, k_len, p.mask.defined() ? p.mask.view() : TensorView(),
                  Causal(Anchor::top_left, p.past));
  AttentionResult all;
  const int64_t dims[] = {batch, p.query.shape[1], q_len, p.value.shape[3]};
  all.output = Tensor(p.query.dtype, dims);
  if (p.options.weights) {
    const int64_t pairs[] = {batch, p.query.shape[1], q_len, k_len};
    all.weights = Tensor(p.query.dtype == DType::f64 ? DType::f64 : DType::f32, pairs);
    fill(all.weights, p.options.weights->stage == WeightsStage::weights
                          ? 0
                          : -std::numeric_limits<double>::infinity());
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = static_cast<const int64_t*>(p.lengths.data)[b];
    if (length < 0 || length > k_len)
      fail(ErrorCode::argument, "Attention: nonpad_kv_seqlen of " + std::to_string(length));
    const AttentionResult one =
        attend(p, b, b + 1, length, p.mask.defined() ? mask_of(p.mask, b, length) : TensorView(),
               Causal(Anchor::bottom_right));
    write_to_cache(all.output.view().slice(0, b, b + 1), one.output);
    if (all.weights.defined())
      write_to_cache(all.weights.view().slice(0, b, b + 1).slice(3, 0, length), one.weights);
  }
  return all;
}

// The scores or weights that qk_matmul_output of `mode` is.
Tensor matmul_output(const Problem& whole, int64_t mode, ScoreList softcap) {
  Problem p;
  p.query = whole.query, p.key = whole.key, p.value = whole.value;
  p.options = whole.options;
  p.options.weights = WeightsRequest{.stage = WeightsStage::scores};
  p.options.scores = mode == 0 ? ScoreList() : softcap;
  if (mode < 2) return solve(p).weights;
  if (mode == 3) p.options.weights->stage = WeightsStage::weights;
  p.lengths = whole.lengths, p.causal = whole.causal, p.past = whole.past;
  if (whole.mask.defined()) p.mask = Tensor::copy_of(whole.mask);
  return solve(p).weights;
}

}  // namespace

Outputs run_attention(const NodeTest& test) {
  const Node& node = test.node;
  require_known(node, {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale",
                       "softcap", "softmax_precision"});
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) fail(ErrorCode::unsupported, "Attention: qk_matmul_output_mode");
  const int64_t q_heads = node.integer("q_num_heads", 0),
                kv_heads = node.integer("kv_num_heads", 0);

  Problem p;
  p.query = by_heads(test.input(kQuery), q_heads);
  const Tensor keys = joined(test.input(kPastKey), by_heads(test.input(kKey), kv_heads));
  const Tensor values = joined(test.input(kPastValue), by_heads(test.input(kValue), kv_heads));
  p.key = keys, p.value = values;
  p.mask = whole_mask(test.input(kMask), p.key.shape[2]);
  p.lengths = test.input(kLengths);
  if (p.lengths.defined() && (p.lengths.dtype != DType::i64 || p.lengths.rank != 1 ||
                              p.lengths.shape[0] != p.query.shape[0]))
    fail(ErrorCode::shape, "Attention: nonpad_kv_seqlen is not i64 [batch]");
  p.causal = node.integer("is_causal", 0) != 0;
  p.past = test.input(kPastKey).defined() ? test.input(kPastKey).shape[2] : 0;
  if (node.has("scale")) p.options.scale = node.real("scale", 1);
  const Softcap softcap(node.real("softcap", 0));
  if (softcap.cap > 0) p.options.scores = {softcap};

  Outputs outputs(test.outputs.size());
  AttentionResult result = solve(p);
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
    outputs[kScores] = rounded(matmul_output(p, mode, p.options.scores), p.query.dtype);
  return outputs;
}

}  // namespace rapt::conformance
