#include "rapt/nn/gpt.h"

#include <cmath>
#include <string>

#include "nn/blocks/residual.h"
#include "rapt/nn/init.h"

namespace rapt::nn {
namespace {

void check_gpt_spec(const GptSpec& spec) {
  const struct {
    const char* name;
    int64_t value;
  } sizes[] = {{"vocabulary", spec.vocabulary},
               {"context", spec.context},
               {"layers", spec.layers},
               {"heads", spec.heads},
               {"features", spec.features}};
  for (const auto& [name, value] : sizes)
    if (value < 1)
      throw Error(ErrorCode::argument, std::string("GptSpec: ") + name + " is " +
                                           std::to_string(value) + "; expected 1 or more");
}

// Sequence b of a tensor [batch, length, features], as [length, features].
TensorView sequence_of(const TensorView& x, int64_t b) {
  TensorView rows = x.slice(0, b, b + 1);
  rows.rank = 2;
  rows.shape[0] = rows.shape[1], rows.strides[0] = rows.strides[1];
  rows.shape[1] = x.shape[2], rows.strides[1] = x.strides[2];
  return rows;
}

// The embedding of tokens and positions, into state.x[0].
void embed(const Gpt& model, const TensorView& tokens, const Gpt::State& state, const Run& run) {
  forward(model.wte, tokens, state.x[0], run);
  if (model.wpe.weight.defined()) {
    const int64_t batch = tokens.shape[0];
    for (int64_t length = tokens.shape[1], i = 0; !run.counts() && i < length; ++i)
      static_cast<int64_t*>(state.positions.data)[i] = i;
    for (int64_t b = 0; b < batch; ++b)
      forward(model.wpe, state.positions, sequence_of(state.x[0], b), run, true);
  }
  forward(model.dropout, state.x[0], state.x[0], run);
}

}  // namespace

Gpt make_gpt(const GptSpec& spec, DType dtype) {
  check_gpt_spec(spec);
  EncoderLayerSpec block{.activation = spec.activation,
                         .norm_first = true,
                         .dropout = spec.dropout,
                         .attention = spec.attention};
  block.attention.mask =
      spec.attention.mask.empty() ? "causal" : "causal & (" + spec.attention.mask + ")";
  const bool table =
      spec.positions && spec.attention.rotary.empty() && spec.attention.relative.empty();
  Gpt model;
  model.wte = make_embedding(spec.vocabulary, spec.features, dtype);
  if (table) model.wpe = make_embedding(spec.context, spec.features, dtype);
  for (int64_t i = 0; i < spec.layers; ++i) {
    block.dropout_stream = static_cast<uint64_t>(8 * i + 1);
    model.h.push_back(make_encoder_layer(spec.features, spec.heads, block, dtype));
  }
  model.ln_f = make_layer_norm(spec.features, {}, dtype);
  model.dropout = {spec.dropout, 0};
  model.context = spec.context;
  return model;
}

void initialize_gpt(Gpt& model, uint64_t seed) {
  const auto narrow = 0.02 / std::sqrt(2 * static_cast<double>(model.h.size()));
  visit(model, [&](const std::string& name, Parameter& p) {
    if (p.value.rank() < 2) {
      p.init = Init::keep();
      return;
    }
    const bool back = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    p.init = Init::normal(back ? narrow : 0.02);
  });
  initialize(model, seed);
}

Gpt::State make_state(const Gpt& model, int64_t batch, int64_t length, Arena& arena) {
  const DType dtype = model.wte.weight.value.dtype();
  if (length > model.context)
    throw Error(ErrorCode::shape, std::to_string(length) + " tokens; the model has " +
                                      std::to_string(model.context) + " positions");
  const int64_t shape[] = {batch, length, model.features()};
  Gpt::State state;
  for (const EncoderLayer& block : model.h) {
    state.x.push_back(arena.take(dtype, shape));
    state.blocks.push_back(make_state(block, shape, arena));
  }
  state.x.push_back(arena.take(dtype, shape));
  state.normed = arena.take(dtype, shape);
  state.ln_f = make_state(model.ln_f, shape, dtype, arena);
  state.positions = arena.take(DType::i64, {length});
  return state;
}

void forward(const Gpt& model, const TensorView& tokens, const TensorView& logits,
             const Gpt::State& state, const Run& run, const MultiHeadCall& call) {
  embed(model, tokens, state, run);
  for (size_t i = 0; i < model.h.size(); ++i)
    forward(model.h[i], state.x[i], state.x[i + 1], state.blocks[i], run, call);
  forward(model.ln_f, state.x.back(), state.normed, state.ln_f, run);
  if (run.counts())
    return run.scratch.need(product_workspace_bytes(as_matrix(state.normed).shape[0],
                                                    model.features(), model.wte.count(),
                                                    model.wte.weight.value.dtype(), run.context));
  multiply(as_matrix(state.normed), model.wte.weight.value.view(), as_matrix(logits), {},
           run.context, run.scratch.rest());
}

void backward(Gpt& model, const TensorView& tokens, const TensorView& d_logits,
              const Gpt::State& state, const Run& run, const MultiHeadCall& call) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_after = run.scratch.take(state.normed.dtype, state.normed.dims());
  const TensorView d_before = run.scratch.take(state.normed.dtype, state.normed.dims());
  TensorView d_x = d_after, d_next = d_before;
  if (run.counts()) {
    run.scratch.need(product_workspace_bytes(as_matrix(state.normed).shape[0], model.features(),
                                             model.wte.count(), model.wte.weight.value.dtype(),
                                             run.context));
  } else {
    const TensorView d_out = as_matrix(d_logits), normed = as_matrix(state.normed);
    if (model.wte.weight.learns())
      add_weight_gradient(d_out, normed, model.wte.weight.gradient.view(), {}, run.context,
                          run.scratch.rest());
    multiply_gradient(d_out, model.wte.weight.value.view(), as_matrix(d_x), false, run.context,
                      run.scratch.rest());
  }
  backward(model.ln_f, state.x.back(), d_x, state.ln_f, d_next, run);
  for (size_t i = model.h.size(); i-- > 0;) {
    std::swap(d_x, d_next);
    backward(model.h[i], state.x[i], d_x, state.blocks[i], d_next, run, call);
  }
  backward(model.dropout, d_next, d_next, run);
  backward(model.wte, tokens, d_next, run);
  if (!model.wpe.weight.defined()) return;
  for (int64_t b = 0; b < tokens.shape[0]; ++b)
    backward(model.wpe, state.positions, sequence_of(d_next, b), run);
}

}  // namespace rapt::nn
