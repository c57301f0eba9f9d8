// Tiny random decoders against transformers (data/make_decoder_golden.py): outputs, maps and logits
// in float64, and 64 tokens that it generates in float32. An error may be twice that of float32 in
// transformers, with its own products or plain loops, and the rounding of the largest result, or,
// of maps, that of scores: each is a sum of head_dim products, and a weight changes by at most half
// of what scores change by. With a cache of 16-bit numbers the error of logits may be twice that of
// transformers with queries, keys, values and weights rounded to them. In bf16 it may be twice that
// of layers that compute everything in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rapt/checkpoint/model_files.h"
#include "rapt/generation/generator.h"
#include "rapt/io/tensor_file.h"
#include "rapt/model/decoder_model.h"
#include "support/expect_error.h"

namespace rapt::test {
namespace {

using laws::expect_error;

// Of results that `error` has, in order.
enum DecoderPart : size_t { kOutputs, kMaps, kLogits };

std::span<const double> doubles_of(const TensorView& exact) {
  return {static_cast<const double*>(exact.data), static_cast<size_t>(exact.count())};
}

double largest_of(const TensorView& exact) {
  double largest = 0;
  for (const double value : doubles_of(exact)) largest = std::max(largest, std::fabs(value));
  return largest;
}

// How far the scores of a row of maps [..., keys] lie apart, at most.
double score_range(const TensorView& maps) {
  double range = 0;
  const auto keys = static_cast<size_t>(maps.shape[maps.rank - 1]);
  for (std::span<const double> rest = doubles_of(maps); !rest.empty(); rest = rest.subspan(keys)) {
    double least = 1, most = 0;
    for (const double weight : rest.first(keys)) {
      if (weight == 0) continue;  // masked
      least = std::min(least, weight), most = std::max(most, weight);
    }
    range = std::max(range, std::log(most / least));
  }
  return range;
}

class DecoderGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  DecoderGoldenTest()
      : folder_(std::string(RAPT_TEST_DATA) + "/" + GetParam()),
        golden_(open_tensor_file(folder_ + "/golden.safetensors")),
        model_(model::load_decoder(folder_)) {}

  LoadedTensor golden(const std::string& name) const { return load(*golden_.find(name)); }
  double allowed(DecoderPart part, const TensorView& exact) const {
    const double rounding = part == kMaps
                                ? static_cast<double>(model_.spec.head_dim) / 2 * score_range(exact)
                                : largest_of(exact);
    return 2 * static_cast<const double*>(golden("error").view().data)[part] + rounding * 0x1p-24;
  }
  std::vector<int64_t> integers(const std::string& name) const {
    const LoadedTensor loaded = golden(name);
    const auto* const from = static_cast<const int64_t*>(loaded.view().data);
    return {from, from + loaded.view().count()};
  }

  std::string folder_;
  TensorFile golden_;
  model::DecoderModel model_;
};

double largest_difference(std::span<const float> found, const TensorView& expected,
                          int64_t from = 0) {
  const auto* const exact = static_cast<const double*>(expected.data) + from;
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i)
    largest = std::max(largest, std::fabs(found[i] - exact[i]));
  return largest;
}

// Memory, cache and calls of one sequence.
class Decoding {
 public:
  Decoding(const model::DecoderModel& model, int64_t capacity, DType cache_dtype = DType::f32,
           bool invariant = false)
      : model_(model) {
    nn::DecodingSizes sizes = model.sizes();
    sizes.cache_dtype = cache_dtype;
    nn::Arena counter;
    nn::make_decoding_cache(sizes, 1, capacity, counter);
    states_.resize(counter.bytes());
    nn::Arena arena(states_);
    cache_ = nn::make_decoding_cache(sizes, 1, capacity, arena);
    cache_.invariant = invariant;
  }

  // Logits [ids, vocabulary].
  Tensor read(std::span<const int64_t> ids, const nn::DecodingWeights& weights = {}) {
    const int64_t n = std::ssize(ids), vocabulary = model_.spec.vocabulary;
    const TensorView tokens(ids.data(), {1, n});
    Tensor logits(DType::f32, {1, n, vocabulary});
    nn::Arena counter;
    model_.decode(tokens, cache_, logits.view(), {.scratch = counter, .context = context_},
                  weights);
    std::vector<std::byte> memory(counter.bytes());
    nn::Arena scratch(memory);
    model_.decode(tokens, cache_, logits.view(), {.scratch = scratch, .context = context_},
                  weights);
    return logits;
  }

 private:
  const model::DecoderModel& model_;
  const Context context_;
  std::vector<std::byte> states_;
  nn::DecodingCache cache_;
};

TEST_P(DecoderGoldenTest, OutputsMapsAndLogitsAreThoseOfTransformers) {
  for (const std::string text : {"0", "1"}) {
    const std::vector<int64_t> ids = integers("ids" + text);
    const LoadedTensor output = golden("output" + text), maps = golden("maps" + text),
                       logits = golden("logits" + text);
    int64_t layers = 0;
    model::EncoderCaptures captures;
    captures.weights = WeightsRequest{};
    captures.on_layer = [&](int64_t layer, AttentionResult& result) {
      EXPECT_EQ(layer, layers++);
      EXPECT_LE(largest_difference(result.weights.values<float>(), maps.view(),
                                   layer * result.weights.count()),
                allowed(kMaps, maps.view()));
    };
    const Tensor found = read_text(model_, ids, {}, captures);
    EXPECT_EQ(layers, model_.spec.layers);
    ASSERT_EQ(found.count(), output.view().count());
    EXPECT_LE(largest_difference(found.values<float>(), output.view()),
              allowed(kOutputs, output.view()));
    const Tensor own = Decoding(model_, std::ssize(ids)).read(ids);
    ASSERT_EQ(own.count(), logits.view().count());
    EXPECT_LE(largest_difference(own.values<float>(), logits.view()),
              allowed(kLogits, logits.view()));
    // Without captures the same bits.
    const Tensor again = read_text(model_, ids);
    EXPECT_EQ(
        std::memcmp(again.data(), found.data(), static_cast<size_t>(found.count()) * sizeof(float)),
        0);
  }
}

TEST_P(DecoderGoldenTest, TokenByTokenTheLogitsAreThoseOfOnePass) {
  const std::vector<int64_t> ids = integers("ids0");
  const LoadedTensor logits = golden("logits0");
  const int64_t vocabulary = model_.spec.vocabulary;
  Decoding decoding(model_, std::ssize(ids));
  const std::span<const int64_t> tokens = ids;
  for (size_t begin = 0, count = 7; begin < ids.size(); begin += count, count = 1) {
    const Tensor found = decoding.read(tokens.subspan(begin, count));
    EXPECT_LE(largest_difference(found.values<float>(), logits.view(),
                                 static_cast<int64_t>(begin) * vocabulary),
              allowed(kLogits, logits.view()));
  }
}

TEST_P(DecoderGoldenTest, ACacheOf16BitsHasTheirError) {
  const std::vector<int64_t> ids = integers("ids0");
  const LoadedTensor logits = golden("logits0");
  const auto* const error = static_cast<const double*>(golden("error16").view().data);
  for (const auto& [dtype, rounding] :
       {std::pair(DType::bf16, error[0]), std::pair(DType::f16, error[1])}) {
    Tensor weights(DType::f32, {1, std::ssize(ids)});
    Decoding decoding(model_, std::ssize(ids), dtype);
    double largest = 0;
    for (size_t begin = 0, count = 7; begin < ids.size(); begin += count, count = 1) {
      const Tensor found = decoding.read(std::span(ids).subspan(begin, count),
                                         {.layer = 1, .head = 0, .weights = weights.view()});
      largest = std::max(largest,
                         largest_difference(found.values<float>(), logits.view(),
                                            static_cast<int64_t>(begin) * model_.spec.vocabulary));
    }
    EXPECT_LE(largest, 2 * rounding + allowed(kLogits, logits.view())) << name_of(dtype);
    EXPECT_GT(largest, allowed(kLogits, logits.view())) << name_of(dtype);
    double sum = 0;
    for (const float weight : std::as_const(weights).values<float>()) sum += weight;
    EXPECT_NEAR(sum, 1, static_cast<double>(ids.size()) * 0x1p-22);
  }
  nn::DecodingSizes sizes = model_.sizes();
  sizes.cache_dtype = DType::f64;
  nn::Arena counter;
  expect_error(ErrorCode::dtype, {"a cache in f64", "f32, bf16 or f16"},
               [&] { nn::make_decoding_cache(sizes, 1, 8, counter); });
}

// With 40 tokens a pass has more than 1,024 pairs, and goes by tile registers where there are some.
TEST_P(DecoderGoldenTest, AnInvariantCacheHasTheBitsOfOnePass) {
  std::vector<int64_t> ids(40);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int64_t>(i * i) % model_.spec.vocabulary;
  const size_t row = static_cast<size_t>(model_.spec.vocabulary) * sizeof(float);
  for (const DType computed : {DType::f32, DType::bf16}) {
    const model::DecoderModel model = model::load_decoder(folder_, computed);
    const Tensor pass = Decoding(model, 40, computed, true).read(ids);
    Decoding decoding(model, 40, computed, true);
    const std::span<const int64_t> tokens = ids;
    for (size_t begin = 0, count = 37; begin < ids.size(); begin += count, count = 1) {
      const Tensor found = decoding.read(tokens.subspan(begin, count));
      const auto* const expected = static_cast<const std::byte*>(pass.data()) + begin * row;
      EXPECT_EQ(std::memcmp(found.data(), expected, count * row), 0)
          << begin << " " << name_of(computed);
    }
  }
}

// The largest error of logits [1, ids, vocabulary] of layers that compute everything in bf16.
double error_of_layers_in_bf16(const std::string& folder, std::span<const int64_t> ids,
                               const TensorView& exact) {
  const nn::LanguageModel layers = checkpoint::load_model(folder, DType::bf16, nn::Frozen::yes);
  const int64_t n = std::ssize(ids);
  nn::Arena counter;
  nn::make_decoding_cache(layers, 1, n, counter);
  std::vector<std::byte> states(counter.bytes());
  nn::Arena arena(states);
  nn::DecodingCache cache = nn::make_decoding_cache(layers, 1, n, arena);
  const TensorView tokens(ids.data(), {1, n});
  Tensor logits(DType::bf16, {1, n, layers.spec.vocabulary});
  const Context context;
  nn::Arena needed;
  nn::decode(layers, tokens, cache, logits.view(), {.scratch = needed, .context = context});
  std::vector<std::byte> memory(needed.bytes());
  nn::Arena scratch(memory);
  nn::decode(layers, tokens, cache, logits.view(), {.scratch = scratch, .context = context});
  std::vector<float> found;
  for (const BFloat16 value : std::as_const(logits).values<BFloat16>()) found.push_back(value);
  return largest_difference(found, exact);
}

TEST(DecoderInBf16, ErrorsAreThoseOfLayersInBf16) {
  const std::string folder = std::string(RAPT_TEST_DATA) + "/gpt2";
  const TensorFile file = open_tensor_file(folder + "/golden.safetensors");
  const LoadedTensor ids = load(*file.find("ids0")), exact = load(*file.find("logits0"));
  const std::span<const int64_t> tokens(static_cast<const int64_t*>(ids.view().data),
                                        static_cast<size_t>(ids.view().count()));
  const model::DecoderModel model = model::load_decoder(folder, DType::bf16);
  const Tensor found = Decoding(model, std::ssize(tokens), DType::bf16).read(tokens);
  const double error = largest_difference(found.values<float>(), exact.view());
  EXPECT_LE(error, 2 * error_of_layers_in_bf16(folder, tokens, exact.view()));
  EXPECT_GT(error, largest_of(exact.view()) * 0x1p-16) << "computed in f32";
}

TEST_P(DecoderGoldenTest, WeightsOfTheLastTokenAreARowOfTheMap) {
  const std::vector<int64_t> ids = integers("ids0");
  const LoadedTensor maps = golden("maps0");
  const int64_t n = std::ssize(ids), layer = model_.spec.layers - 1, head = model_.spec.heads - 1;
  Tensor weights(DType::f32, {1, n + 3});
  Decoding(model_, n + 3).read(ids, {.layer = layer, .head = head, .weights = weights.view()});
  const int64_t row = (((layer * model_.spec.heads) + head) * n + n - 1) * n;
  EXPECT_LE(largest_difference(std::span<const float>(weights.values<float>()).first(ids.size()),
                               maps.view(), row),
            allowed(kMaps, maps.view()));
  for (const float behind : std::span<const float>(weights.values<float>()).subspan(ids.size()))
    EXPECT_EQ(behind, 0);
}

TEST_P(DecoderGoldenTest, GeneratesTheTokensOfTransformers) {
  const std::vector<int64_t> prompt = integers("ids1"), expected = integers("generated");
  generation::GeneratorOptions options{.sequences = 2, .length = std::ssize(expected)};
  options.sampling.temperature = 0;
  generation::Generator generator(model_, options, prompt);
  while (generator.next()) {
  }
  for (int64_t sequence = 0; sequence < 2; ++sequence) {
    const std::span<const int64_t> text = generator.text(sequence);
    EXPECT_EQ(std::vector<int64_t>(text.begin(), text.end()), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderGoldenTest,
                         testing::Values("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2"));

}  // namespace
}  // namespace rapt::test
