// A decoder over a whole text, without a cache, and what its heads look at.
#include <algorithm>
#include <cstring>
#include <string>

#include "model/decoder_call.h"

namespace rapt::model {
namespace {

void check_text(const DecoderSpec& spec, std::span<const int64_t> ids) {
  const auto reject = [](const std::string& what) {
    throw Error(ErrorCode::argument, "tokens: " + what, "tokens");
  };
  if (std::ssize(ids) > spec.context)
    reject("a text has " + std::to_string(ids.size()) + "; the model has " +
           std::to_string(spec.context) + " positions");
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= spec.vocabulary)
      reject("the id " + std::to_string(ids[i]) + " at " + std::to_string(i) +
             "; the model has 0 to " + std::to_string(spec.vocabulary - 1));
}

// Heads of one text that attend to each other.
class CapturedHeads final : public HeadAttention {
 public:
  CapturedHeads(const EncoderCaptures& captures, const nn::Run& run)
      : captures_(captures), run_(run) {}

  void attend(int64_t layer, const HeadRows& rows, const AttentionOptions& given) override {
    if (!is_captured(layer)) return attend_uncaptured(rows, given);
    if (run_.counts()) return;  // a captured call allocates its own
    AttentionOptions options = given;
    options.weights = captures_.weights;
    options.map = captures_.map;
    options.top_k = captures_.top_k;
    options.entropy = captures_.entropy;
    options.received = captures_.received;
    // Without the dimension of the batch, as encode() has it.
    AttentionResult result = scaled_dot_product_attention(
        text_of(rows.query), text_of(rows.key), text_of(rows.value), options, run_.context);
    copy_rows(result.output.view(), text_of(rows.output));
    captures_.on_layer(layer, result);
  }

 private:
  bool is_captured(int64_t layer) const {
    const std::vector<int64_t>& layers = captures_.layers;
    return captures_.on_layer &&
           (layers.empty() || std::ranges::find(layers, layer) != layers.end());
  }

  void attend_uncaptured(const HeadRows& rows, const AttentionOptions& options) const {
    if (run_.counts())
      return run_.scratch.need(workspace_bytes(text_of(rows.query), text_of(rows.key),
                                               text_of(rows.value), options, run_.context));
    scaled_dot_product_attention(text_of(rows.query), text_of(rows.key), text_of(rows.value),
                                 options, {.state = {text_of(rows.output), {}}},
                                 run_.scratch.rest(), run_.context);
  }

  // [1, heads, n, head_dim] as [heads, n, head_dim].
  static TensorView text_of(const TensorView& rows) {
    return {rows.data, rows.dtype, rows.dims().subspan(1), Shape(rows.strides + 1, 3),
            rows.read_only};
  }

  // Both [heads, n, head_dim], `from` dense.
  static void copy_rows(const TensorView& from, const TensorView& to) {
    const auto* source = static_cast<const float*>(from.data);
    const auto bytes = static_cast<size_t>(to.shape[2]) * sizeof(float);
    for (int64_t head = 0; head < to.shape[0]; ++head)
      for (int64_t i = 0; i < to.shape[1]; ++i, source += to.shape[2])
        std::memcpy(static_cast<float*>(to.data) + head * to.strides[0] + i * to.strides[1], source,
                    bytes);
  }

  const EncoderCaptures& captures_;
  const nn::Run& run_;
};

// x [1, n, features] of a text. An arena that counts counts.
void run_text(const DecoderModel& model, std::span<const int64_t> ids, const TensorView& x,
              const EncoderCaptures& captures, const nn::Run& run) {
  const nn::Arena::Frame frame(run.scratch);
  const int64_t n = std::ssize(ids);
  const TensorView positions = run.scratch.take(DType::i64, {1, n});
  for (int64_t i = 0; !run.counts() && i < n; ++i) static_cast<int64_t*>(positions.data)[i] = i;
  const DecoderCall call(model, positions, run);
  CapturedHeads attention(captures, run);
  call.embed(TensorView(ids.data(), {1, n}), x);
  call.run_blocks(x, attention);
  call.finish(x);
}

}  // namespace

Tensor read_text(const DecoderModel& model, std::span<const int64_t> ids, const Context& context,
                 const EncoderCaptures& captures) {
  check_text(model.spec, ids);
  Tensor x(DType::f32, {std::ssize(ids), model.spec.features});
  if (ids.empty()) return x;
  const int64_t shape[] = {1, std::ssize(ids), model.spec.features};
  const TensorView rows(x.data(), DType::f32, shape, false);
  nn::Arena counter;
  run_text(model, ids, rows, captures, {.scratch = counter, .context = context});
  std::vector<std::byte> memory(counter.bytes());
  nn::Arena scratch(memory);
  run_text(model, ids, rows, captures, {.scratch = scratch, .context = context});
  return x;
}

}  // namespace rapt::model
