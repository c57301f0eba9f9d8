// The forward pass of an encoder.
#include <algorithm>
#include <string>

#include "model/captured_attention.h"
#include "rapt/float16.h"
#include "rapt/product.h"

namespace rapt::model {
namespace {

[[noreturn]] void reject_tokens(const std::string& what) {
  throw Error(ErrorCode::argument, "tokens: " + what, "tokens");
}

void check_ids(std::span<const int64_t> ids, int64_t count, const char* what) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= count)
      reject_tokens(std::string(what) + " " + std::to_string(ids[i]) + " at " + std::to_string(i) +
                    "; the model has 0 to " + std::to_string(count - 1));
}

void check_batch(const EncoderSpec& spec, const TokenBatch& batch,
                 std::span<const int64_t> starts) {
  const int64_t tokens = std::ssize(batch.ids);
  check_ids(batch.ids, spec.vocabulary, "the id");
  if (!batch.types.empty() && batch.types.size() != batch.ids.size())
    reject_tokens("expected a type for each of the " + std::to_string(tokens) + " ids, got " +
                  std::to_string(batch.types.size()));
  if (spec.types > 0) check_ids(batch.types, spec.types, "the type");
  if (starts.size() < 2 || starts.front() != 0 || starts.back() != tokens)
    reject_tokens("expected starts from 0 to " + std::to_string(tokens));
  for (size_t i = 1; i < starts.size(); ++i) {
    const int64_t length = starts[i] - starts[i - 1];
    if (length < 0) reject_tokens("expected starts that do not decrease");
    if (length > spec.longest())
      reject_tokens("a text has " + std::to_string(length) + "; the model has " +
                    std::to_string(spec.longest()) + " positions");
  }
}

template <class T>
void add_row(const TensorView& table, int64_t row, float* to) {
  const int64_t features = table.shape[1];
  const T* const from = static_cast<const T*>(table.data) + row * features;
  for (int64_t i = 0; i < features; ++i) to[i] += static_cast<float>(from[i]);
}

void add_row_of(const TensorView& table, int64_t row, float* to) {
  if (table.dtype == DType::f32) return add_row<float>(table, row, to);
  if (table.dtype == DType::bf16) return add_row<BFloat16>(table, row, to);
  add_row<Float16>(table, row, to);
}

// The sum of the tables, in transformers' order.
void embed(const EncoderModel& model, const TokenBatch& batch, std::span<const int64_t> starts,
           float* x) {
  const int64_t features = model.spec.features;
  std::fill_n(x, batch.ids.size() * static_cast<size_t>(features), 0.0f);
  // RoBERTa does not count padding, wherever it stands: its place is the one before the first
  // (modeling_roberta.py, create_position_ids_from_input_ids). Other families have no such place.
  const int64_t padding = model.spec.first_position - 1;
  for (size_t text = 0; text + 1 < starts.size(); ++text) {
    int64_t place = model.spec.first_position;
    for (int64_t i = starts[text]; i < starts[text + 1]; ++i) {
      const auto at = static_cast<size_t>(i);
      float* const row = x + i * features;
      add_row_of(model.tokens, batch.ids[at], row);
      if (model.types.defined())
        add_row_of(model.types, batch.types.empty() ? 0 : batch.types[at], row);
      add_row_of(model.places, batch.ids[at] == padding ? padding : place++, row);
    }
  }
}

// One call: its temporaries, and the passes over a block.
class Encoding {
 public:
  Encoding(const EncoderModel& model, const TokenBatch& batch, std::span<const int64_t> starts,
           const Context& context, const EncoderCaptures& captures)
      : spec_(model.spec),
        context_(context),
        captures_(captures),
        tokens_(std::ssize(batch.ids)),
        projections_(DType::f32, {tokens_, 3 * spec_.features}),
        attention_(DType::f32, {tokens_, spec_.features}),
        hidden_(DType::f32, {tokens_, spec_.hidden_features}) {
    if (starts.size() > 2)
      options_.packed.query_starts = TensorView(starts.data(), {std::ssize(starts)});
    options_.invariant = true;
    nn::Arena counter;
    normalize(model.embedding_norm, attention_, counter);
    norm_memory_.resize(counter.bytes());
  }

  void normalize(const nn::LayerNorm& norm, const TensorView& x) {
    nn::Arena arena(norm_memory_);
    normalize(norm, x, arena);
  }

  void run_block(const EncoderBlock& block, int64_t layer, const TensorView& x) {
    const StoredLinear* const projections[] = {&block.query, &block.key, &block.value};
    TensorView heads[3];
    for (int i = 0; i < 3; ++i) {
      const TensorView part =
          projections_.view().slice(1, i * spec_.features, (i + 1) * spec_.features);
      multiply_by(*projections[i], x, part);
      heads[i] = heads_of(part);
    }
    attend(heads, layer);
    multiply_by(block.output, attention_.view(), x, {.add = true});
    normalize(block.attention_norm, x);
    multiply_by(block.widen, x, hidden_.view(), {.activation = spec_.activation});
    multiply_by(block.narrow, hidden_.view(), x, {.add = true});
    normalize(block.network_norm, x);
  }

 private:
  void normalize(const nn::LayerNorm& norm, const TensorView& x, nn::Arena& arena) const {
    const nn::LayerNorm::State state = make_state(norm, x.dims(), DType::f32, arena);
    forward(norm, x, x, state, {.scratch = arena, .context = context_});
  }

  void multiply_by(const StoredLinear& linear, const TensorView& x, const TensorView& y,
                   ProductOptions options = {}) const {
    options.bias = linear.bias;
    multiply(x, linear.weight, y, options, context_);
  }

  // [tokens, features] as [heads, tokens, head_dim].
  TensorView heads_of(const TensorView& rows) const {
    TensorView heads(rows.data, DType::f32, Shape(rows.shape, 2), rows.read_only);
    heads.rank = 3;
    const int64_t shape[] = {spec_.heads, tokens_, spec_.head_dim()};
    const int64_t strides[] = {spec_.head_dim(), rows.strides[0], 1};
    std::copy_n(shape, 3, heads.shape);
    std::copy_n(strides, 3, heads.strides);
    return heads;
  }

  void attend(const TensorView (&heads)[3], int64_t layer) {
    const TensorView output = heads_of(attention_.view());
    if (is_captured(captures_, layer))
      return attend_captured({heads[0], heads[1], heads[2], output}, layer, options_, captures_,
                             context_);
    AttentionOutputs outputs;
    outputs.state.output = output;
    workspace_.resize(std::max(workspace_.size(),
                               workspace_bytes(heads[0], heads[1], heads[2], options_, context_)));
    scaled_dot_product_attention(heads[0], heads[1], heads[2], options_, outputs, workspace_,
                                 context_);
  }

  const EncoderSpec& spec_;
  const Context& context_;
  const EncoderCaptures& captures_;
  int64_t tokens_;
  Tensor projections_, attention_, hidden_;
  AttentionOptions options_;
  std::vector<std::byte> norm_memory_, workspace_;
};

}  // namespace

Tensor encode(const EncoderModel& model, const TokenBatch& batch, const Context& context,
              const EncoderCaptures& captures) {
  const int64_t whole[] = {0, std::ssize(batch.ids)};
  const std::span<const int64_t> starts =
      batch.starts.empty() ? std::span<const int64_t>(whole) : batch.starts;
  check_batch(model.spec, batch, starts);
  Tensor x(DType::f32, {std::ssize(batch.ids), model.spec.features});
  if (batch.ids.empty()) return x;
  Encoding encoding(model, batch, starts, context, captures);
  embed(model, batch, starts, x.values<float>().data());
  encoding.normalize(model.embedding_norm, x);
  for (size_t i = 0; i < model.blocks.size(); ++i)
    encoding.run_block(model.blocks[i], static_cast<int64_t>(i), x.view());
  return x;
}

}  // namespace rapt::model
