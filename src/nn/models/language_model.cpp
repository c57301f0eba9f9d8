#include "rapt/nn/language_model.h"

#include <string>
#include <utility>

#include "nn/leading.h"
#include "rapt/nn/linear_cross_entropy.h"

namespace rapt::nn {
namespace {

template <class Model>
auto& head_of(Model& model) {
  return model.head.defined() ? model.head : model.embedding.weight;
}

// More logits than these are computed twice, which makes a third more products of the head.
constexpr double kMostKeptLogits = 64 << 20;

// The gradient of the loss by kept logits, which are overwritten by their gradients.
void kept_logits_gradient(LanguageModel& model, const TensorView& targets,
                          const LanguageModel::State& state, const TensorView& d_x, const Run& run,
                          const CrossEntropyOptions& options) {
  Parameter& head = head_of(model);
  const TensorView weight = head.value.view();
  const TensorView logits = as_matrix(state.logits);
  cross_entropy_gradient(state.logits, targets, state.lse, state.logits, run, options);
  if (run.counts())
    return run.scratch.need(product_workspace_bytes(logits.shape[0], weight.shape[1],
                                                    weight.shape[0], weight.dtype, run.context));
  if (head.learns())
    add_weight_gradient(logits, as_matrix(state.normed), head.gradient.view(), {}, run.context,
                        run.scratch.rest());
  multiply_gradient(logits, weight, as_matrix(d_x), false, run.context, run.scratch.rest());
}

// The embedding of tokens and positions, into state.x[0].
void embed_tokens(const LanguageModel& model, const TensorView& tokens,
                  const LanguageModel::State& state, const Run& run) {
  forward(model.embedding, tokens, state.x[0], run);
  if (state.positions.defined()) {
    const int64_t length = state.positions.shape[1], count = state.positions.count();
    for (int64_t i = 0; !run.counts() && i < count; ++i)
      static_cast<int64_t*>(state.positions.data)[i] = i % length;
    forward(model.positions, state.positions, state.x[0], run, true);
  }
  forward(model.dropout, state.x[0], state.x[0], run);
}

}  // namespace

double kept_logits_bytes(const LanguageModelSpec& spec, DType dtype, double tokens) {
  const double bytes =
      tokens * static_cast<double>(spec.vocabulary) * static_cast<double>(size_of(dtype));
  return bytes <= kMostKeptLogits ? bytes : 0;
}

LanguageModel::State make_state(const LanguageModel& model, int64_t batch, int64_t length,
                                Arena& arena) {
  if (length > model.spec.context)
    throw Error(ErrorCode::shape, std::to_string(length) + " tokens; the model has " +
                                      std::to_string(model.spec.context) + " positions");
  const DType dtype = model.dtype();
  const int64_t shape[] = {batch, length, model.features()};
  LanguageModel::State state;
  for (const EncoderLayer& layer : model.layers) {
    state.x.push_back(arena.take(dtype, shape));
    state.layers.push_back(make_state(layer, shape, arena));
  }
  state.x.push_back(arena.take(dtype, shape));
  state.normed = arena.take(dtype, shape);
  state.norm = make_state(model.norm, shape, dtype, arena);
  if (model.positions.weight.defined()) state.positions = arena.take(DType::i64, {batch, length});
  const double tokens = static_cast<double>(batch) * static_cast<double>(length);
  const bool keeps_logits = kept_logits_bytes(model.spec, dtype, tokens) > 0;
  if (keeps_logits) state.logits = arena.take(dtype, {batch, length, model.spec.vocabulary});
  state.lse = arena.take(keeps_logits ? DType::f64 : computed_type(dtype), {batch, length});
  return state;
}

void forward(const LanguageModel& model, const TensorView& tokens,
             const LanguageModel::State& state, const Run& run, const MultiHeadCall& call) {
  embed_tokens(model, tokens, state, run);
  for (size_t i = 0; i < model.layers.size(); ++i)
    forward(model.layers[i], state.x[i], state.x[i + 1], state.layers[i], run, call);
  forward(model.norm, state.x.back(), state.normed, state.norm, run);
}

void compute_logits(const LanguageModel& model, const TensorView& normed, const TensorView& logits,
                    const Run& run) {
  const TensorView weight = head_of(model).value.view();
  if (run.counts())
    return run.scratch.need(product_workspace_bytes(as_matrix(normed).shape[0], weight.shape[1],
                                                    weight.shape[0], weight.dtype, run.context));
  multiply(as_matrix(normed), weight, as_matrix(logits), {}, run.context, run.scratch.rest());
}

double target_loss(const LanguageModel& model, const TensorView& targets,
                   const LanguageModel::State& state, const Run& run,
                   const CrossEntropyOptions& options) {
  if (state.logits.defined()) {
    compute_logits(model, state.normed, state.logits, run);
    return cross_entropy(state.logits, targets, state.lse, run, options);
  }
  return linear_cross_entropy(state.normed, head_of(model), targets, state.lse, run, options);
}

void backward(LanguageModel& model, const TensorView& tokens, const TensorView& targets,
              const LanguageModel::State& state, const Run& run, const CrossEntropyOptions& options,
              const MultiHeadCall& call) {
  const Arena::Frame frame(run.scratch);
  const TensorView d_after = run.scratch.take(state.normed.dtype, state.normed.dims());
  const TensorView d_before = run.scratch.take(state.normed.dtype, state.normed.dims());
  TensorView d_x = d_after, d_next = d_before;
  if (state.logits.defined())
    kept_logits_gradient(model, targets, state, d_x, run, options);
  else
    linear_cross_entropy_gradient(state.normed, head_of(model), targets, state.lse, d_x, run,
                                  options);
  backward(model.norm, state.x.back(), d_x, state.norm, d_next, run);
  for (size_t i = model.layers.size(); i-- > 0;) {
    std::swap(d_x, d_next);
    backward(model.layers[i], state.x[i], d_x, state.layers[i], d_next, run, call);
  }
  backward(model.dropout, d_next, d_next, run);
  backward(model.embedding, tokens, d_next, run);
  if (state.positions.defined()) backward(model.positions, state.positions, d_next, run);
}

}  // namespace rapt::nn
