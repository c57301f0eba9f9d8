#include "rapt/nn/encoder_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "nn/blocks/scale_dense.h"
#include "nn/dense.h"
#include "nn/rowwise/token_rows.h"
#include "rapt/mask/lengths.h"

namespace rapt::nn {
namespace {

using Model = EncoderDecoder;

// The embedding of the tokens of one side, and its gradient. `Rows`: Embedding, or const in a
// forward call.
template <class Rows>
struct TokenSide {
  Rows& table;
  Rows& positions;
  const Dropout& dropout;
  double scale;

  // x = dropout(scale table[tokens] + positions); writes the indices of the positions.
  void embed(const TensorView& tokens, const TensorView& indices, const TensorView& x,
             const Run& run) const {
    forward(table, tokens, x, run);
    if (scale != 1) scale_dense(x, scale, x, run);
    if (positions.weight.defined()) {
      auto* const index = static_cast<int64_t*>(indices.data);
      for (int64_t i = 0; !run.counts() && i < indices.count(); ++i)
        index[i] = i % indices.shape[1];
      forward(positions, indices, x, run, true);
    }
    forward(dropout, x, x, run);
  }
  // Adds to the gradients of both tables; overwrites d_x.
  void add_gradients(const TensorView& tokens, const TensorView& indices, const TensorView& d_x,
                     const Run& run) const {
    backward(dropout, d_x, d_x, run);
    if (positions.weight.learns()) backward(positions, indices, d_x, run);
    if (scale != 1) scale_dense(d_x, scale, d_x, run);
    backward(table, tokens, d_x, run);
  }
};

template <class M>  // Model, or const Model
auto source_side(M& model) {
  auto& table =
      model.source_embedding.weight.defined() ? model.source_embedding : model.target_embedding;
  return TokenSide<std::remove_reference_t<decltype(table)>>{
      table, model.source_positions, model.source_dropout, model.embedding_scale};
}
template <class M>
auto target_side(M& model) {
  auto& table = model.target_embedding;
  return TokenSide<std::remove_reference_t<decltype(table)>>{
      table, model.target_positions, model.target_dropout, model.embedding_scale};
}

// Checks the tokens of a side and the tensors of its state.
template <class Stack, class Rows>
void check_side(const char* name, const Stack& stack, const TokenSide<Rows>& side,
                const TensorView& tokens, const typename Stack::State& state) {
  const size_t layers = stack.layers.size();
  if (state.x.size() != layers + 1 || state.blocks.size() != layers)
    throw Error(ErrorCode::argument, std::string("the state for ") + name + " has " +
                                         std::to_string(state.blocks.size()) +
                                         " blocks; the model has " + std::to_string(layers) +
                                         ". Make it by make_state()");
  const int64_t rows[] = {state.x[0].shape[0], state.x[0].shape[1], side.table.features()};
  check_tokens(name, tokens, Shape(rows).first(2), side.table.count());
  for (const TensorView& x : state.x)
    check_output("state.x", x, rows, side.table.weight.value.dtype());
  check_output("state.positions", state.positions, Shape(rows).first(2), DType::i64);
}

// Checks [batch] lengths of sources, if there are any.
void check_lengths(const EncoderDecoderCalls& calls, int64_t batch, int64_t length) {
  const int64_t shape[] = {batch};
  if (calls.source_lengths.defined())
    check_tokens("source_lengths", calls.source_lengths, shape, length + 1);
}

void check_encoder(const Model& model, const TensorView& source, const TensorView& memory,
                   const Model::EncoderState& state, const EncoderDecoderCalls& calls) {
  check_side("source", model.encoder, source_side(model), source, state);
  check_lengths(calls, source.shape[0], source.shape[1]);
  check_output("memory", memory, state.x[0].dims(), model.dtype());
}

// Checks the shape of the memory, which a counting call reads, too.
void check_memory_shape(const Model& model, const TensorView& memory,
                        const Model::DecoderState& state) {
  if (!memory.defined()) throw Error(ErrorCode::argument, "memory is missing");
  if (state.stack.x.empty())
    throw Error(ErrorCode::argument, "the state is empty; make_state() makes it");
  const int64_t rows[] = {state.stack.x[0].shape[0], state.memory_length, model.features()};
  if (!std::equal(memory.dims().begin(), memory.dims().end(), rows, rows + 3))
    throw Error(ErrorCode::shape,
                "memory " + to_string(memory.dims()) + "; expected " + to_string(rows));
}

void check_decoder(const Model& model, const TensorView& memory, const TensorView& target,
                   const Model::DecoderState& state, const EncoderDecoderCalls& calls) {
  check_side("target", model.decoder, target_side(model), target, state.stack);
  const int64_t rows[] = {target.shape[0], state.memory_length, model.features()};
  check_input("memory", memory, rows, model.dtype());
  check_lengths(calls, rows[0], rows[1]);
  check_output("state.normed", state.normed, state.stack.x[0].dims(), model.dtype());
}

void check_decoded(const Model& model, const TensorView& target, const TensorView& logits) {
  const int64_t shape[] = {target.shape[0], target.shape[1], model.target_embedding.count()};
  check_output("logits", logits, shape, model.dtype());
  check_apart("logits", logits, "target", target);
}

// The mask of padding, added to calls whose keys are source positions.
class PaddingOf {
 public:
  explicit PaddingOf(const EncoderDecoderCalls& calls) : calls_(calls) {
    if (calls.source_lengths.defined()) lengths_.lengths = calls.source_lengths;
  }
  PaddingOf(const PaddingOf&) = delete;  // calls refer to lengths_
  PaddingOf& operator=(const PaddingOf&) = delete;

  MultiHeadCall encoder() const { return with_padding(calls_.encoder); }
  DecoderCalls decoder() const {
    return {calls_.decoder.self_attention, with_padding(calls_.decoder.cross_attention)};
  }

 private:
  MultiHeadCall with_padding(MultiHeadCall call) const {
    if (!calls_.source_lengths.defined()) return call;
    const Mask* all[MaskList::kMost + 1];
    const Mask** const end = std::copy(call.options.masks.begin(), call.options.masks.end(), all);
    *end = &lengths_;
    call.options.masks = std::span<const Mask* const>(all, end + 1);
    return call;
  }

  const EncoderDecoderCalls& calls_;
  Lengths lengths_;
};

void run_encoder(const Model& model, const TensorView& source, const TensorView& memory,
                 const Model::EncoderState& state, const Run& run, const MultiHeadCall& call) {
  source_side(model).embed(source, state.positions, state.x[0], run);
  const auto& layers = model.encoder.layers;
  for (size_t i = 0; i < layers.size(); ++i)
    forward(layers[i], state.x[i], state.x[i + 1], state.blocks[i], run, call);
  forward(model.encoder.norm, state.x.back(), memory, state.norm, run);
}

void run_decoder(const Model& model, const TensorView& memory, const TensorView& target,
                 const TensorView& logits, const Model::DecoderState& state, const Run& run,
                 const DecoderCalls& calls) {
  const auto& [blocks, x, norm, positions] = state.stack;
  target_side(model).embed(target, positions, x[0], run);
  const auto& layers = model.decoder.layers;
  for (size_t i = 0; i < layers.size(); ++i)
    forward(layers[i], x[i], memory, x[i + 1], blocks[i], run, calls);
  forward(model.decoder.norm, x.back(), state.normed, norm, run);
  if (model.head.weight.defined()) return forward(model.head, state.normed, logits, run);
  const TensorView normed = as_matrix(state.normed);
  if (run.counts())
    return run.scratch.need(product_workspace_bytes(normed.shape[0], normed.shape[1],
                                                    model.target_embedding.count(), normed.dtype,
                                                    run.context));
  multiply(normed, model.target_embedding.weight.value.view(), as_matrix(logits), {}, run.context,
           run.scratch.rest());
}

// d_normed = the gradient of the head's input; adds to that of its parameters.
void head_backward(Model& model, const TensorView& normed, const TensorView& d_logits,
                   const TensorView& d_normed, const Run& run) {
  if (model.head.weight.defined()) return backward(model.head, normed, d_logits, d_normed, run);
  Parameter& table = model.target_embedding.weight;
  const TensorView rows = as_matrix(normed);
  if (run.counts())
    return run.scratch.need(product_workspace_bytes(rows.shape[0], rows.shape[1],
                                                    table.value.dim(0), rows.dtype, run.context));
  if (table.learns())
    add_weight_gradient(as_matrix(d_logits), rows, table.gradient.view(), {}, run.context,
                        run.scratch.rest());
  multiply_gradient(as_matrix(d_logits), table.value.view(), as_matrix(d_normed), false,
                    run.context, run.scratch.rest());
}

// Adds to d_memory.
void decoder_backward(Model& model, const TensorView& target, const TensorView& d_logits,
                      const Model::State& state, const TensorView& d_memory, const Run& run,
                      const DecoderCalls& calls) {
  const Arena::Frame frame(run.scratch);
  const TensorView& normed = state.decoder.normed;
  const auto& [blocks, x, norm, positions] = state.decoder.stack;
  TensorView d_x = run.scratch.take(normed.dtype, normed.dims());
  TensorView d_next = run.scratch.take(normed.dtype, normed.dims());
  head_backward(model, normed, d_logits, d_x, run);
  backward(model.decoder.norm, x.back(), d_x, norm, d_next, run);
  for (size_t i = model.decoder.layers.size(); i-- > 0;) {
    std::swap(d_x, d_next);
    backward(model.decoder.layers[i], x[i], state.memory, d_x, blocks[i], d_next, d_memory, run,
             calls);
  }
  target_side(model).add_gradients(target, positions, d_next, run);
}

void encoder_backward(Model& model, const TensorView& source, const TensorView& d_memory,
                      const Model::EncoderState& state, const Run& run, const MultiHeadCall& call) {
  const Arena::Frame frame(run.scratch);
  TensorView d_x = run.scratch.take(d_memory.dtype, d_memory.dims());
  TensorView d_next = run.scratch.take(d_memory.dtype, d_memory.dims());
  backward(model.encoder.norm, state.x.back(), d_memory, state.norm, d_next, run);
  for (size_t i = model.encoder.layers.size(); i-- > 0;) {
    std::swap(d_x, d_next);
    backward(model.encoder.layers[i], state.x[i], d_x, state.blocks[i], d_next, run, call);
  }
  source_side(model).add_gradients(source, state.positions, d_next, run);
}

void check_context(const char* name, int64_t length, int64_t context) {
  if (length > context)
    throw Error(ErrorCode::shape, std::to_string(length) + " " + name + " tokens; the model has " +
                                      std::to_string(context) + " positions for them");
}

// Takes the members that the states of encoder and decoder both have.
template <class Stack>
void take_stack(const Stack& stack, Shape x, DType dtype, Arena& arena,
                typename Stack::State& state) {
  for (size_t i = 0; i <= stack.layers.size(); ++i) state.x.push_back(arena.take(dtype, x));
  state.norm = make_state(stack.norm, x, dtype, arena);
  state.positions = arena.take(DType::i64, x.first(2));
}

}  // namespace

Model::EncoderState make_encoder_state(const Model& model, int64_t batch, int64_t length,
                                       Arena& arena) {
  check_context("source", length, model.source_context);
  const int64_t x[] = {batch, length, model.features()};
  Model::EncoderState state;
  take_stack(model.encoder, x, model.dtype(), arena, state);
  for (const EncoderLayer& layer : model.encoder.layers)
    state.blocks.push_back(make_state(layer, x, arena));
  return state;
}

Model::DecoderState make_decoder_state(const Model& model, int64_t batch, int64_t length,
                                       int64_t memory_length, Arena& arena) {
  check_context("target", length, model.target_context);
  check_context("source", memory_length, model.source_context);
  const int64_t x[] = {batch, length, model.features()};
  const int64_t memory[] = {batch, memory_length, model.features()};
  Model::DecoderState state;
  take_stack(model.decoder, x, model.dtype(), arena, state.stack);
  for (const DecoderLayer& layer : model.decoder.layers)
    state.stack.blocks.push_back(make_state(layer, x, memory, arena));
  state.normed = arena.take(model.dtype(), x);
  state.memory_length = memory_length;
  return state;
}

Model::State make_state(const Model& model, int64_t batch, int64_t source_length,
                        int64_t target_length, Arena& arena) {
  Model::State state;
  state.encoder = make_encoder_state(model, batch, source_length, arena);
  state.decoder = make_decoder_state(model, batch, target_length, source_length, arena);
  state.memory = arena.take(model.dtype(), {batch, source_length, model.features()});
  return state;
}

void encode(const Model& model, const TensorView& source, const TensorView& memory,
            const Model::EncoderState& state, const Run& run, const EncoderDecoderCalls& calls) {
  if (!run.counts()) check_encoder(model, source, memory, state, calls);
  run_encoder(model, source, memory, state, run, PaddingOf(calls).encoder());
}

void decode(const Model& model, const TensorView& memory, const TensorView& target,
            const TensorView& logits, const Model::DecoderState& state, const Run& run,
            const EncoderDecoderCalls& calls) {
  check_memory_shape(model, memory, state);
  if (!run.counts()) {
    check_decoder(model, memory, target, state, calls);
    check_decoded(model, target, logits);
  }
  run_decoder(model, memory, target, logits, state, run, PaddingOf(calls).decoder());
}

void forward(const Model& model, const TensorView& source, const TensorView& target,
             const TensorView& logits, const Model::State& state, const Run& run,
             const EncoderDecoderCalls& calls) {
  if (!run.counts()) {
    check_encoder(model, source, state.memory, state.encoder, calls);
    check_decoder(model, state.memory, target, state.decoder, calls);
    check_decoded(model, target, logits);
    check_apart("logits", logits, "source", source);
  }
  const PaddingOf padding(calls);
  run_encoder(model, source, state.memory, state.encoder, run, padding.encoder());
  run_decoder(model, state.memory, target, logits, state.decoder, run, padding.decoder());
}

void backward(Model& model, const TensorView& source, const TensorView& target,
              const TensorView& d_logits, const Model::State& state, const Run& run,
              const EncoderDecoderCalls& calls) {
  if (!run.counts()) {
    check_encoder(model, source, state.memory, state.encoder, calls);
    check_decoder(model, state.memory, target, state.decoder, calls);
    const int64_t shape[] = {target.shape[0], target.shape[1], model.target_embedding.count()};
    check_input("d_logits", d_logits, shape, model.dtype());
  }
  const Arena::Frame frame(run.scratch);
  const PaddingOf padding(calls);
  const TensorView d_memory = run.scratch.take(state.memory.dtype, state.memory.dims());
  if (!run.counts() && !d_memory.empty())
    std::memset(d_memory.data, 0, static_cast<size_t>(d_memory.count() * size_of(d_memory.dtype)));
  decoder_backward(model, target, d_logits, state, d_memory, run, padding.decoder());
  encoder_backward(model, source, d_memory, state.encoder, run, padding.encoder());
}

}  // namespace rapt::nn
