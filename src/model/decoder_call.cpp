#include "model/decoder_call.h"

#include <cmath>

#include "nn/models/decoding_call.h"
#include "rapt/float16.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/window.h"
#include "rapt/nn/gated.h"
#include "rapt/product.h"
#include "rapt/score/softcap.h"

namespace rapt::model {
namespace {

template <class T>
void write_table_row(const TensorView& table, int64_t row, float scale, bool add, float* to) {
  const int64_t features = table.shape[1];
  const T* const from = static_cast<const T*>(table.data) + row * features;
  for (int64_t i = 0; i < features; ++i)
    to[i] = (add ? to[i] : 0) + scale * static_cast<float>(from[i]);
}

void write_row_of(const TensorView& table, int64_t row, float scale, bool add, float* to) {
  if (table.dtype == DType::f32) return write_table_row<float>(table, row, scale, add, to);
  if (table.dtype == DType::bf16) return write_table_row<BFloat16>(table, row, scale, add, to);
  write_table_row<Float16>(table, row, scale, add, to);
}

int64_t index_at(const TensorView& view, int64_t i) {
  return static_cast<const int64_t*>(view.data)[i];
}

float* floats_of(const TensorView& view) { return static_cast<float*>(view.data); }

}  // namespace

void DecoderCall::embed(const TensorView& tokens, const TensorView& x) const {
  if (run_.counts()) return;
  const int64_t features = model_.spec.features;
  const auto scale = static_cast<float>(model_.spec.embedding_scale);
  for (int64_t i = 0; i < tokens.count(); ++i) {
    float* const row = floats_of(x) + i * features;
    write_row_of(model_.tokens, index_at(tokens, i), scale, false, row);
    if (model_.places.defined()) write_row_of(model_.places, index_at(positions_, i), 1, true, row);
  }
}

void DecoderCall::run_blocks(const TensorView& x, HeadAttention& attention) const {
  for (int64_t layer = 0; layer < model_.spec.layers; ++layer) {
    const DecoderBlock& block = model_.blocks[static_cast<size_t>(layer)];
    const nn::Arena::Frame frame(run_.scratch);
    const TensorView normed = run_.scratch.take(x.dtype, x.dims());
    normalize(block.attention_norm, x, normed);
    attend(layer, as_multiplied(normed), x, attention);
    normalize(block.network_norm, x, normed);
    run_network(block, as_multiplied(normed), x);
  }
}

void DecoderCall::attend(int64_t layer, const TensorView& normed, const TensorView& x,
                         HeadAttention& attention) const {
  const DecoderSpec& spec = model_.spec;
  const DecoderBlock& block = model_.blocks[static_cast<size_t>(layer)];
  const nn::Arena::Frame frame(run_.scratch);
  const int64_t batch = x.shape[0], n = x.shape[1];
  const auto take = [&](int64_t heads) {
    return run_.scratch.take(DType::f32, {batch, n, heads * spec.head_dim});
  };
  const TensorView query = take(spec.heads), key = take(spec.kv_heads), value = take(spec.kv_heads);
  const TensorView output = take(spec.heads);
  multiply_by(block.query, normed, query);
  multiply_by(block.key, normed, key);
  multiply_by(block.value, normed, value);
  normalize_heads(block.query_norm, query);
  normalize_heads(block.key_norm, key);
  const HeadRows rows = {split_heads(query, spec.heads), split_heads(key, spec.kv_heads),
                         split_heads(value, spec.kv_heads), split_heads(output, spec.heads)};
  if (!spec.is_gpt2()) {
    rotate(rows.query);
    rotate(rows.key);
  }
  const int64_t tokens = spec.windows[static_cast<size_t>(layer)];
  const Causal causal(Anchor::bottom_right);
  const Window window(tokens - 1, 0, Anchor::bottom_right);
  const Softcap cap(spec.score_cap);
  AttentionOptions options;
  options.scale = spec.score_scale;
  if (tokens > 0)
    options.masks = {&window};
  else
    options.masks = {&causal};
  if (spec.score_cap > 0) options.scores = {cap};
  attention.attend(layer, rows, options);
  add_result(block.output, block.attention_norm_behind, output, x);
}

void DecoderCall::run_network(const DecoderBlock& block, const TensorView& normed,
                              const TensorView& x) const {
  const DecoderSpec& spec = model_.spec;
  const nn::Arena::Frame frame(run_.scratch);
  const auto take = [&](DType dtype) {
    return run_.scratch.take(dtype, {x.shape[0], x.shape[1], spec.hidden_features});
  };
  const TensorView hidden = take(spec.is_gpt2() ? model_.computed : DType::f32);
  if (spec.is_gpt2()) {
    multiply_by(block.widen, normed, hidden, {.activation = spec.activation});
  } else {
    const TensorView up = take(DType::f32);
    multiply_by(block.gate, normed, hidden);
    multiply_by(block.widen, normed, up);
    nn::gated_activation(spec.activation, hidden, up, hidden, run_);
  }
  add_result(block.narrow, block.network_norm_behind, hidden, x);
}

void DecoderCall::normalize(const nn::Norm& norm, const TensorView& x, const TensorView& y) const {
  const nn::Arena::Frame frame(run_.scratch);
  forward(norm, x, y, make_state(norm, x.dims(), x.dtype, run_.scratch), run_);
}

void DecoderCall::normalize_heads(const std::optional<nn::Norm>& norm,
                                  const TensorView& rows) const {
  if (!norm) return;
  const int64_t head_dim = model_.spec.head_dim;
  const int64_t shape[] = {rows.shape[0], rows.shape[1], rows.shape[2] / head_dim, head_dim};
  const TensorView heads(rows.data, rows.dtype, shape, false);
  normalize(*norm, heads, heads);
}

void DecoderCall::rotate(const TensorView& heads) const {
  const Rotary& rotary = model_.spec.rotary;
  if (run_.counts()) return run_.scratch.need(rotary_workspace_bytes(heads, rotary));
  rotary_embedding(heads, rotary, {.values = positions_}, heads, run_.scratch.rest());
}

TensorView DecoderCall::as_multiplied(const TensorView& x) const {
  return x.dtype == model_.computed ? x : nn::rounded_rows(x, model_.computed, run_);
}

void DecoderCall::multiply_by(const StoredLinear& linear, const TensorView& x, const TensorView& y,
                              ProductOptions options) const {
  const nn::Arena::Frame frame(run_.scratch);
  const TensorView rows = as_matrix(as_multiplied(x));
  if (run_.counts())
    return run_.scratch.need(product_workspace_bytes(
        rows.shape[0], rows.shape[1], linear.weight.shape[0], DType::f32, run_.context));
  options.bias = linear.bias;
  multiply(rows, linear.weight, as_matrix(y), options, run_.context, run_.scratch.rest());
}

void DecoderCall::add_result(const StoredLinear& linear, const std::optional<nn::Norm>& norm,
                             const TensorView& rows, const TensorView& x) const {
  if (!norm) return multiply_by(linear, rows, x, {.add = true});
  const nn::Arena::Frame frame(run_.scratch);
  const TensorView result = run_.scratch.take(x.dtype, x.dims());
  multiply_by(linear, rows, result);
  normalize(*norm, result, result);
  const int64_t count = run_.counts() ? 0 : x.count();
  for (int64_t i = 0; i < count; ++i) floats_of(x)[i] += floats_of(result)[i];
}

void DecoderCall::compute_logits(const TensorView& rows, const TensorView& logits) const {
  multiply_by({model_.head, {}}, rows, logits);
  const double cap = model_.spec.logit_cap;
  if (run_.counts() || cap == 0) return;
  const auto c = static_cast<float>(cap);
  for (int64_t i = 0; i < logits.count(); ++i)
    floats_of(logits)[i] = c * std::tanh(floats_of(logits)[i] / c);
}

}  // namespace rapt::model
