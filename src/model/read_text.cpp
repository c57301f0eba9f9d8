// A decoder over a whole text, without a cache, and what its heads look at.
#include <string>

#include "model/captured_attention.h"
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
class HeadsOfText final : public HeadAttention {
 public:
  HeadsOfText(const EncoderCaptures& captures, const nn::Run& run)
      : captures_(captures), run_(run) {}

  void attend(int64_t layer, const HeadRows& rows, const AttentionOptions& given) override {
    const HeadViews heads{text_of(rows.query), text_of(rows.key), text_of(rows.value),
                          text_of(rows.output)};
    if (!is_captured(captures_, layer)) return attend_uncaptured(heads, given);
    if (run_.counts()) return;  // a captured call allocates its own
    attend_captured(heads, layer, given, captures_, run_.context);
  }

 private:
  void attend_uncaptured(const HeadViews& heads, const AttentionOptions& options) const {
    if (run_.counts())
      return run_.scratch.need(
          workspace_bytes(heads.query, heads.key, heads.value, options, run_.context));
    scaled_dot_product_attention(heads.query, heads.key, heads.value, options,
                                 {.state = {heads.output, {}}}, run_.scratch.rest(), run_.context);
  }

  // [1, heads, n, head_dim] as [heads, n, head_dim], as encode() has it.
  static TensorView text_of(const TensorView& rows) {
    return {rows.data, rows.dtype, rows.dims().subspan(1), Shape(rows.strides + 1, 3),
            rows.read_only};
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
  HeadsOfText attention(captures, run);
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
