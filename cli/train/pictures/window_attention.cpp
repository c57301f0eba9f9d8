#include "cli/train/pictures/window_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output/token_label.h"

namespace rapt::cli {
namespace {

// As many as have room for a readable label each.
constexpr int64_t kMostWindowTokens = 40;
constexpr int64_t kDrawnHead = 0;

// The first token of a line that has `length` tokens from there on; 0 if there is none.
size_t line_begin(const training::Tokens& tokens, size_t length, const text::Tokenizer& tokenizer) {
  for (size_t i = 1; i + length <= tokens.size(); ++i)
    if (tokenizer.token_bytes(tokens[i - 1]).ends_with('\n') &&
        !tokenizer.token_bytes(tokens[i]).starts_with('\n'))
      return i;
  return 0;
}

// The weights [tokens, tokens] of a head of the last layer.
std::vector<float> last_layer_weights(const nn::LanguageModel& model,
                                      const std::vector<int64_t>& tokens, const Context& context) {
  const int64_t n = std::ssize(tokens);
  const TensorView input(tokens.data(), {1, n});
  std::vector<float> weights(static_cast<size_t>(n * n));
  const int64_t heads[] = {kDrawnHead};
  nn::MultiHeadCall call;
  call.options.weights = WeightsRequest{.heads = heads};
  call.weights = TensorView(weights.data(), {1, n, n});

  nn::Arena counted_states, counted_scratch;
  forward(model, input, make_state(model, 1, n, counted_states),
          {.scratch = counted_scratch, .context = context}, call);
  std::vector<std::byte> state_memory(counted_states.bytes());
  std::vector<std::byte> scratch_memory(counted_scratch.bytes());
  nn::Arena states(state_memory), scratch(scratch_memory);
  forward(model, input, make_state(model, 1, n, states), {.scratch = scratch, .context = context},
          call);
  return weights;
}

}  // namespace

WindowAttention::WindowAttention(const training::Trainer& trainer) : trainer_(trainer) {
  const int64_t block = trainer.state().settings.block;
  const text::Tokenizer& tokenizer = trainer.data().tokenizer();
  const auto length = static_cast<size_t>(std::min(block, kMostWindowTokens));
  const std::span<const training::Tokens> texts = trainer.data().held_out();
  // There is one: the trainer evaluates windows of a block and its last target.
  const auto text = std::ranges::find_if(
      texts, [&](const training::Tokens& tokens) { return std::ssize(tokens) > block; });
  const size_t begin = line_begin(*text, length, tokenizer);
  for (size_t i = begin; i < begin + length; ++i) {
    tokens_.push_back((*text)[i]);
    labels_.push_back(token_label(tokenizer.token_bytes((*text)[i])));
  }
}

viz::Heatmap WindowAttention::heatmap(const Context& context) const {
  const nn::LanguageModel& model = trainer_.model();
  viz::Heatmap map;
  map.rows = map.columns = std::ssize(tokens_);
  map.values = last_layer_weights(model, tokens_, context);
  for (int64_t i = 0; i < map.rows; ++i)
    for (int64_t j = 0; j < map.columns; ++j) map.allowed.push_back(j <= i);
  map.row_labels = map.column_labels = labels_;
  map.title = fmt::format("Attention weights of layer {}, head {} after {} updates",
                          model.spec.layers - 1, kDrawnHead, trainer_.state().step);
  return map;
}

}  // namespace rapt::cli
