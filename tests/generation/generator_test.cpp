// Generation: tokens of whole passes, several sequences, ends, sliding, weights, memory, errors.
#include "rapt/generation/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "memory/allocation_hooks.h"
#include "rapt/instruction_sets.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using generation::Finish;
using generation::Generator;
using generation::GeneratorOptions;
using generation::WhenFull;
using laws::expect_error;
using nn::LanguageModelLayout;

constexpr int64_t kContext = 12;
constexpr LanguageModelLayout kAllLayouts[] = {
    LanguageModelLayout::gpt2, LanguageModelLayout::llama, LanguageModelLayout::qwen3};
const std::vector<int64_t> kPrompt = {3, 1, 4, 1, 5};

nn::LanguageModel drawn_model(LanguageModelLayout layout, int64_t context = kContext) {
  nn::LanguageModelSpec spec{.layout = layout,
                             .vocabulary = 11,
                             .context = context,
                             .layers = 2,
                             .heads = 2,
                             .features = 8};
  if (layout != LanguageModelLayout::gpt2) spec.kv_heads = 1;
  spec.initializer_range = 0.6;  // so that tokens differ
  nn::LanguageModel model = make_language_model(spec);
  initialize_language_model(model, 7);
  return model;
}

// What one pass over all tokens says about the last one.
struct Pass {
  Tensor logits, weights;  // [1, n, vocabulary]; [1, 1, n] of a head of the last layer

  Pass(const nn::LanguageModel& model, std::span<const int64_t> tokens, int64_t head = 0)
      : logits(DType::f32, {1, std::ssize(tokens), model.spec.vocabulary}),
        weights(DType::f32, {1, 1, std::ssize(tokens)}) {
    const int64_t n = std::ssize(tokens);
    const int64_t heads[] = {head};
    nn::MultiHeadCall call;
    call.options.weights = WeightsRequest{.row_begin = n - 1, .heads = heads};
    call.weights = weights.view();
    const Context context;
    const auto compute = [&](nn::Arena& states, nn::Arena& scratch) {
      const nn::Run run{.scratch = scratch, .context = context};
      const auto state = make_state(model, 1, n, states);
      forward(model, TensorView(tokens.data(), {1, n}), state, run, call);
      compute_logits(model, state.normed, logits, run);
    };
    nn::Arena states, scratch;
    compute(states, scratch);
    std::vector<std::byte> state_memory(states.bytes()), scratch_memory(scratch.bytes());
    nn::Arena kept(state_memory), temporary(scratch_memory);
    compute(kept, temporary);
  }

  int64_t likeliest() const {
    const std::span<const float> all = logits.values<float>();
    const auto last = all.subspan(all.size() - static_cast<size_t>(logits.dim(2)));
    return std::max_element(last.begin(), last.end()) - last.begin();
  }
};

std::vector<int64_t> whole_text(Generator& generator, int64_t sequence = 0) {
  while (generator.next()) continue;
  const std::span<const int64_t> text = generator.text(sequence);
  return {text.begin(), text.end()};
}

std::vector<int64_t> generated(const nn::LanguageModel& model, const GeneratorOptions& options,
                               const Context& context = {}) {
  Generator generator(model, options, kPrompt, context);
  return whole_text(generator);
}

TEST(Generator, WritesTheLikeliestTokensOfWholePasses) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const nn::LanguageModel model = drawn_model(layout);
    std::vector<int64_t> tokens = kPrompt;
    for (int i = 0; i < 7; ++i) tokens.push_back(Pass(model, tokens).likeliest());
    EXPECT_EQ(generated(model, {.sampling = {.temperature = 0}, .length = 7}),
              std::vector<int64_t>(tokens.begin() + 5, tokens.end()));
  }
}

TEST(Generator, TellsTokensAsTheyAreWritten) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::gpt2);
  Generator generator(model, {.sequences = 2, .length = 4}, kPrompt);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(generator.finish(1), Finish::none);
    EXPECT_TRUE(generator.next());
    for (const int64_t s : {0, 1}) {
      ASSERT_EQ(generator.text(s).size(), i + 1);
      EXPECT_EQ(generator.token(s), generator.text(s)[i]);
    }
  }
  EXPECT_EQ(generator.finish(1), Finish::length);
  EXPECT_FALSE(generator.next());
}

TEST(Generator, ASequenceHasItsTokensAlsoBesideOthers) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const nn::LanguageModel model = drawn_model(layout);
    const GeneratorOptions alone{.sampling = {.seed = 9}, .length = 8};
    GeneratorOptions beside = alone;
    beside.sequences = 3;
    Generator three(model, beside, kPrompt);
    const std::vector<int64_t> first = whole_text(three);
    EXPECT_EQ(first, generated(model, alone));
    const std::vector<int64_t> second(three.text(1).begin(), three.text(1).end());
    EXPECT_NE(first, second);
  }
}

TEST(Generator, TheSeedDecidesAndThreadsDoNot) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::qwen3);
  GeneratorOptions options{.sampling = {.seed = 1}, .length = 8};
  const std::vector<int64_t> text = generated(model, options);
  for (const int threads : {1, 2, 3})
    EXPECT_EQ(generated(model, options, {.threads = threads}), text);
  options.sampling.seed = 2;
  EXPECT_NE(generated(model, options), text);
}

TEST(Generator, EndsBeforeAStopToken) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::llama);
  GeneratorOptions options{.sampling = {.seed = 4}, .sequences = 3, .length = 8};
  Generator without(model, options, kPrompt);
  whole_text(without);
  options.stop_tokens = {100, without.text(0)[3]};
  Generator with(model, options, kPrompt);
  whole_text(with);
  for (int64_t s = 0; s < 3; ++s) {
    const std::span<const int64_t> all = without.text(s), ended = with.text(s);
    const auto stop = std::ranges::find(all, options.stop_tokens[1]);
    EXPECT_EQ(std::vector<int64_t>(ended.begin(), ended.end()),
              std::vector<int64_t>(all.begin(), stop));
    EXPECT_EQ(with.finish(s), stop == all.end() ? Finish::length : Finish::stop_token);
  }
  EXPECT_EQ(with.finish(0), Finish::stop_token);
}

TEST(Generator, EndsWhenTheContextIsFull) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const nn::LanguageModel model = drawn_model(layout);
    Generator generator(model, {.length = 100}, kPrompt);
    // The last token needs no position: it is not read.
    EXPECT_EQ(std::ssize(whole_text(generator)), kContext - 5 + 1);
    EXPECT_EQ(generator.finish(0), Finish::context);
  }
}

// Results of one call beside a cache for the last token; weights of head 0 of layer 1.
struct OneCall {
  Tensor logits, weights;  // [1, vocabulary]; [1, n]

  OneCall(const nn::LanguageModel& model, std::span<const int64_t> tokens)
      : logits(DType::f32, {1, model.spec.vocabulary}),
        weights(DType::f32, {1, std::ssize(tokens)}) {
    const int64_t n = std::ssize(tokens);
    const Context context;
    const auto decode_all = [&](nn::DecodingCache& cache, nn::Arena& scratch) {
      decode(model, TensorView(tokens.data(), {1, n}), cache, logits,
             {.scratch = scratch, .context = context},
             {.layer = 1, .head = 0, .weights = weights.view()});
    };
    nn::Arena states, scratch;
    nn::DecodingCache counted = make_decoding_cache(model, 1, n, states);
    decode_all(counted, scratch);
    std::vector<std::byte> state_memory(states.bytes()), scratch_memory(scratch.bytes());
    nn::Arena kept(state_memory), temporary(scratch_memory);
    nn::DecodingCache cache = make_decoding_cache(model, 1, n, kept);
    decode_all(cache, temporary);
  }
};

bool tile_registers_multiply() {
  return std::ranges::any_of(instruction_sets(), [](const InstructionSet& set) {
    return set.chosen && std::string(set.name).starts_with("amx");
  });
}

// The prompt is read in three calls, the last of 5 tokens; one sequence and several. Weights of the
// last layer depend on the rows of all pieces. They have the bits of one call where FMA multiplies:
// tile registers take no call of few pairs (decoding.h).
TEST(Generator, ReadsALongPromptInPieces) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const nn::LanguageModel model = drawn_model(layout, 2 * generation::kMostTokensAtOnce + 40);
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 2 * generation::kMostTokensAtOnce + 5; ++i)
      tokens.push_back((i * i + 3 * i) % 11);
    for (const int64_t sequences : {1, 2}) {
      GeneratorOptions options{.sampling = {.temperature = 0}, .sequences = sequences, .length = 1};
      options.attention = {.layer = 1, .head = 0};
      Generator generator(model, options, tokens);
      ASSERT_TRUE(generator.next());
      const OneCall whole(model, tokens);
      const std::span<const float> logits = whole.logits.values<float>();
      EXPECT_EQ(generator.token(sequences - 1), std::ranges::max_element(logits) - logits.begin());
      const TensorView found = generator.attention(sequences - 1);
      ASSERT_EQ(found.count(), whole.weights.count());
      if (tile_registers_multiply()) continue;
      const auto bytes = static_cast<size_t>(found.count()) * sizeof(float);
      EXPECT_EQ(std::memcmp(found.data, whole.weights.data(), bytes), 0);
    }
  }
}

// Beyond a call's tokens a longer prompt adds keys and values alone.
TEST(Generator, ALongPromptTakesItsCache) {
  const nn::DecodingSizes sizes{.layers = 3,
                                .heads = 2,
                                .kv_heads = 2,
                                .head_dim = 16,
                                .vocabulary = 50,
                                .context = 4000,
                                .row_elements = 200};
  const auto told = [&](int64_t prompt) {
    return generation::generation_bytes(sizes, {.length = 1}, prompt);
  };
  const double keys_and_values = 2 * 3 * 32 * 4;
  EXPECT_EQ(told(3000) - told(1000), 2000 * keys_and_values);
  EXPECT_GT(told(400) - told(300), 100 * keys_and_values);
}

TEST(Generator, ACacheOf16BitsTakesHalf) {
  const nn::DecodingSizes sizes{.layers = 3,
                                .heads = 2,
                                .kv_heads = 1,
                                .head_dim = 16,
                                .vocabulary = 50,
                                .context = 4000,
                                .rounds_cache = true,
                                .row_elements = 200};
  const auto told = [&](std::optional<DType> dtype, int64_t length) {
    return generation::generation_bytes(sizes, {.length = length, .cache_dtype = dtype}, 20);
  };
  const auto of_keys_and_values = [&](std::optional<DType> dtype) {
    return told(dtype, 3000) - told(dtype, 1000);
  };
  EXPECT_EQ(of_keys_and_values({}), 2000 * 2 * 3 * 16 * 4);
  EXPECT_EQ(of_keys_and_values(DType::bf16), 2000 * 2 * 3 * 16 * 2);
  EXPECT_EQ(told({}, 3000), told(DType::f32, 3000));
}

TEST(Generator, EndsWhereTheCallerSays) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::llama);
  Generator generator(model, {.sequences = 2, .length = 6}, kPrompt);
  ASSERT_TRUE(generator.next());
  generator.end(0);
  while (generator.next()) EXPECT_EQ(generator.token(0), generation::kNoToken);
  EXPECT_EQ(generator.text(0).size(), 1u);
  EXPECT_EQ(generator.text(1).size(), 6u);
  EXPECT_EQ(generator.finish(0), Finish::stop_word);
  EXPECT_EQ(generator.finish(1), Finish::length);
}

TEST(Generator, APromptMayFillTheContext) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::gpt2);
  const std::vector<int64_t> prompt(kContext, 2);
  Generator generator(model, {.length = 5}, prompt);
  EXPECT_EQ(whole_text(generator).size(), 1u);
}

TEST(Generator, SlidesByReadingTheNewestHalfAnew) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const nn::LanguageModel model = drawn_model(layout);
    std::vector<int64_t> tokens = kPrompt;
    int64_t forgotten = 0;
    for (int i = 0; i < 40; ++i) {
      if (std::ssize(tokens) - forgotten > kContext) forgotten = std::ssize(tokens) - kContext / 2;
      tokens.push_back(
          Pass(model, std::span(tokens).subspan(static_cast<size_t>(forgotten))).likeliest());
    }
    Generator generator(model,
                        {.sampling = {.temperature = 0},
                         .sequences = 2,
                         .length = 40,
                         .when_full = WhenFull::slide},
                        kPrompt);
    EXPECT_EQ(whole_text(generator), std::vector<int64_t>(tokens.begin() + 5, tokens.end()));
    EXPECT_EQ(generator.forgotten(), forgotten);
    EXPECT_EQ(generator.finish(1), Finish::length);
  }
}

TEST(Generator, SlidesInASequenceThatHasEnded) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::gpt2);
  GeneratorOptions options{
      .sampling = {.seed = 3}, .sequences = 2, .length = 40, .when_full = WhenFull::slide};
  Generator without(model, options, kPrompt);
  whole_text(without);
  options.stop_tokens = {without.text(0)[0]};
  Generator with(model, options, kPrompt);
  whole_text(with);
  EXPECT_TRUE(with.text(0).empty());
  const auto all = without.text(1);
  EXPECT_EQ(std::ssize(with.text(1)), std::ranges::find(all, options.stop_tokens[0]) - all.begin());
}

TEST(Generator, ReturnsTheWeightsOfAHead) {
  for (const LanguageModelLayout layout : kAllLayouts)
    for (const int64_t head : {0, 1}) {
      const nn::LanguageModel model = drawn_model(layout);
      GeneratorOptions options{.sequences = 2, .length = 6};
      options.attention = {.layer = 1, .head = head};
      Generator generator(model, options, kPrompt);
      std::vector<int64_t> tokens[] = {kPrompt, kPrompt};
      while (generator.next())
        for (const int64_t s : {0, 1}) {
          const Pass pass(model, tokens[s], head);
          const TensorView found = generator.attention(s);
          const std::span<const float> expected = pass.weights.values<float>();
          ASSERT_EQ(found.count(), std::ssize(expected));
          for (size_t j = 0; j < expected.size(); ++j)
            EXPECT_NEAR(static_cast<const float*>(found.data)[j], expected[j], 1e-5);
          tokens[s].push_back(generator.token(s));
        }
    }
}

// What the second layer's last token looks at tells whether the keys before it have the same bits.
TEST(Generator, AnInvariantTextHasTheBitsOfOneCall) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const nn::LanguageModel model = drawn_model(layout, 48);
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 36; ++i) tokens.push_back((i * i + 3 * i) % 11);
    for (const int64_t sequences : {1, 2}) {
      GeneratorOptions options{.sequences = sequences, .length = 6, .invariant = true};
      options.attention = {.layer = 1, .head = 0};
      Generator generator(model, options, tokens);
      std::vector<int64_t> all = tokens;
      while (generator.next()) {
        Generator anew(model, options, all);
        ASSERT_TRUE(anew.next());
        const TensorView found = generator.attention(0), expected = anew.attention(0);
        ASSERT_EQ(found.count(), std::ssize(all));
        ASSERT_EQ(expected.count(), std::ssize(all));
        EXPECT_EQ(std::memcmp(found.data, expected.data, all.size() * sizeof(float)), 0);
        all.push_back(generator.token(0));
      }
    }
  }
}

TEST(Generator, DrawsTokensBelowAVocabulary) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::gpt2);
  for (const int64_t token :
       generated(model, {.length = 60, .vocabulary = 3, .when_full = WhenFull::slide}))
    EXPECT_LT(token, 3);
}

TEST(Generator, AllocatesNothingPerToken) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "no hooks in this build";
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::llama);
  GeneratorOptions options{.sampling = {.top_k = 5, .top_p = 0.9},
                           .sequences = 2,
                           .length = 30,
                           .when_full = WhenFull::slide};
  options.attention = {.layer = 0, .head = 1};
  Generator generator(model, options, kPrompt, {.threads = 1});
  generator.next();  // reads the prompt, chooses kernels
  laws::start_counting();
  while (generator.next()) continue;
  EXPECT_EQ(laws::stop_counting().made, 0);
}

// The expected bytes are counted by the calls of a generator of two sequences that slide, without
// the workspaces of single calls.
TEST(Generator, TellsItsMemoryBeforeItTakesIt) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    nn::LanguageModelSpec spec{.layout = layout,
                               .vocabulary = 90,
                               .context = 200,
                               .layers = 12,
                               .heads = 4,
                               .features = 64};
    if (layout != LanguageModelLayout::gpt2) spec.kv_heads = 2;
    const nn::LanguageModel model = make_language_model(spec);
    const Context context{.threads = 1};
    nn::Arena states, scratch;
    nn::DecodingCache prompt = make_decoding_cache(model, 1, 100, states);
    nn::DecodingCache cache = make_decoding_cache(model, 2, 200, states);
    states.take(DType::f32, {2, 90});
    for (nn::DecodingCache* const one : {&prompt, &cache}) {
      const int64_t tokens[] = {one->batch, 100}, logits[] = {one->batch, 90};
      decode(model, {nullptr, DType::i64, tokens, true}, *one, {nullptr, DType::f32, logits, false},
             {.scratch = scratch, .context = context});
    }
    const auto counted = static_cast<double>(states.bytes() + scratch.bytes());
    const double told = generation::generation_bytes(
        model.spec, DType::f32, {.sequences = 2, .length = 1000, .when_full = WhenFull::slide},
        100);
    EXPECT_LE(told, counted);
    EXPECT_GE(told, 0.75 * counted);
  }
}

TEST(Generator, StopsWhenItIsCancelled) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::gpt2);
  CancelToken cancel;
  Generator generator(model, {.length = 6}, kPrompt, {.cancel = &cancel});
  EXPECT_TRUE(generator.next());
  cancel.cancel();
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { generator.next(); });
}

TEST(Generator, RejectsWhatCannotBeMeant) {
  const nn::LanguageModel model = drawn_model(LanguageModelLayout::gpt2);
  const auto refused = [&](const GeneratorOptions& options, const std::vector<int64_t>& prompt,
                           const std::vector<std::string>& words) {
    expect_error(ErrorCode::argument, words, [&] { Generator(model, options, prompt); });
  };
  // Models of layers keep keys and values in the type that they compute in.
  expect_error(ErrorCode::dtype, {"a cache in bf16", "in f32"},
               [&] { Generator(model, {.cache_dtype = DType::bf16}, kPrompt); });
  refused({}, {}, {"prompt", "at least one token"});
  refused({}, std::vector<int64_t>(13, 0), {"prompt: 13 tokens", "12 positions"});
  refused({}, {0, 11}, {"prompt: token 11", "0 to 10"});
  refused({}, {-1}, {"prompt: token -1"});
  refused({.sequences = 0}, kPrompt, {"sequences is 0"});
  refused({.length = 0}, kPrompt, {"length is 0"});
  refused({.vocabulary = 12}, kPrompt, {"vocabulary is 12", "0 to 11"});
  refused({.sampling = {.top_k = -1}}, kPrompt, {"top_k"});
  refused({.attention = generation::LayerHead{2, 0}}, kPrompt, {"layer is 2", "0 to 1"});
  refused({.attention = generation::LayerHead{0, 2}}, kPrompt, {"head is 2", "0 to 1"});
}

}  // namespace
