// A random decoder that is large enough for several threads: whatever their number, the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "rapt/model/decoder_model.h"

namespace rapt::test {
namespace {

constexpr int64_t kTokens = 256;

// A Llama of one layer, and what its views refer to.
class RandomDecoder {
 public:
  RandomDecoder() {
    model_.spec = {.vocabulary = 64,
                   .context = kTokens,
                   .layers = 1,
                   .heads = 4,
                   .features = 256,
                   .kv_heads = 2,
                   .head_dim = 64,
                   .hidden_features = 512,
                   .windows = {0},
                   .tied_head = true};
    const model::DecoderSpec& spec = model_.spec;
    const int64_t inner = spec.heads * spec.head_dim, kv = spec.kv_heads * spec.head_dim;
    model_.tokens = model_.head = table(spec.vocabulary, spec.features);
    model_.norm = nn::make_norm(spec.features, {.rms = true});
    model::DecoderBlock& block = model_.blocks.emplace_back();
    block.attention_norm = nn::make_norm(spec.features, {.rms = true});
    block.network_norm = nn::make_norm(spec.features, {.rms = true});
    block.query.weight = table(inner, spec.features);
    block.key.weight = table(kv, spec.features);
    block.value.weight = table(kv, spec.features);
    block.output.weight = table(spec.features, inner);
    block.gate.weight = table(spec.hidden_features, spec.features);
    block.widen.weight = table(spec.hidden_features, spec.features);
    block.narrow.weight = table(spec.features, spec.hidden_features);
  }

  const model::DecoderModel& model() const { return model_; }

 private:
  TensorView table(int64_t rows, int64_t columns) {
    Tensor& made = tensors_.emplace_back(DType::f32, std::initializer_list<int64_t>{rows, columns});
    std::normal_distribution<float> normal(0, 0.1F);
    for (float& value : made.values<float>()) value = normal(random_);
    return made.view();
  }

  std::mt19937 random_{7};
  std::vector<Tensor> tensors_;
  model::DecoderModel model_;
};

Tensor logits_of(const model::DecoderModel& model, const std::vector<int64_t>& ids, int threads) {
  const Context context{.threads = threads};
  const int64_t n = std::ssize(ids);
  nn::Arena counter;
  nn::make_decoding_cache(model.sizes(), 1, n, counter);
  std::vector<std::byte> states(counter.bytes());
  nn::Arena kept(states);
  nn::DecodingCache cache = nn::make_decoding_cache(model.sizes(), 1, n, kept);
  const TensorView tokens(ids.data(), {1, n});
  Tensor logits(DType::f32, {1, n, model.spec.vocabulary});
  nn::Arena counted;
  model.decode(tokens, cache, logits.view(), {.scratch = counted, .context = context});
  std::vector<std::byte> memory(counted.bytes());
  nn::Arena scratch(memory);
  model.decode(tokens, cache, logits.view(), {.scratch = scratch, .context = context});
  return logits;
}

void expect_same_bits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.count(), b.count());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.count()) * sizeof(float)), 0);
}

TEST(DecoderThreads, ResultsHaveTheSameBits) {
  const RandomDecoder random;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kTokens; ++i) ids.push_back(i * i % 61);
  expect_same_bits(read_text(random.model(), ids, {.threads = 1}),
                   read_text(random.model(), ids, {.threads = 3}));
  expect_same_bits(logits_of(random.model(), ids, 1), logits_of(random.model(), ids, 3));
}

}  // namespace
}  // namespace rapt::test
