// Decoding with caches: the bits of one pass, sequences of different lengths, prompts that several
// sequences continue, no allocation.
#include "rapt/nn/decoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "memory/allocation_hooks.h"
#include "nn/models/model_problem.h"
#include "rapt/instruction_sets.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;
using nn::LanguageModelLayout;

// Memory for a cache and for calls with up to `most` tokens.
struct Decoder {
  const nn::LanguageModel& model;
  std::vector<std::byte> state_memory, scratch_memory;
  Context context;
  nn::DecodingCache cache;

  Decoder(const nn::LanguageModel& of, int64_t batch, int64_t capacity, int64_t most,
          bool invariant = false)
      : model(of) {
    nn::Arena states, scratch;
    nn::DecodingCache counted = make_decoding_cache(model, batch, capacity, states);
    counted.invariant = invariant;
    for (int64_t n = 1; n <= most; ++n) {
      const int64_t of_tokens[] = {batch, n}, of_logits[] = {batch, n, model.spec.vocabulary};
      decode(model, {nullptr, DType::i64, of_tokens, true}, counted,
             {nullptr, model.dtype(), of_logits, false}, {.scratch = scratch, .context = context});
    }
    state_memory.resize(states.bytes()), scratch_memory.resize(scratch.bytes());
    nn::Arena kept(state_memory);
    cache = make_decoding_cache(model, batch, capacity, kept);
    cache.invariant = invariant;
  }

  void operator()(const TensorView& tokens, const TensorView& logits) {
    nn::Arena scratch(scratch_memory);
    decode(model, tokens, cache, logits, {.scratch = scratch, .context = context});
  }
};

// Logits [batch, n, vocabulary] of the tokens [at, at + n).
Tensor decode_some(Decoder& decoder, const Tensor& tokens, int64_t at, int64_t n) {
  const Tensor some = Tensor::copy_of(tokens.view().slice(1, at, at + n));
  Tensor logits(decoder.model.dtype(), {tokens.dim(0), n, decoder.model.spec.vocabulary});
  decoder(some, logits);
  return logits;
}

bool has_tiles() {
  const std::vector<InstructionSet> sets = instruction_sets();
  return std::ranges::any_of(sets, [](const InstructionSet& set) {
    return set.chosen && std::string(set.name).starts_with("amx");
  });
}

// Rows [at, at + n) of logits [batch, length, vocabulary] have the bits of one pass, but for f32
// where tile registers multiply: a call of fewer than 1,024 pairs does not use these (numerics.md).
// There the longest sum has 13 terms or one for each key, and a model of two layers has some 20
// sums one after the other, each term of which is rounded a few times.
void expect_rows(const Tensor& found, const Tensor& pass, int64_t at) {
  const Tensor expected = Tensor::copy_of(pass.view().slice(1, at, at + found.dim(1)));
  const auto bytes = static_cast<size_t>(found.count() * size_of(found.dtype()));
  if (found.dtype() == DType::f32 && has_tiles())
    EXPECT_LE(difference(found, expected),
              80 * 0x1p-24 * static_cast<double>(std::max<int64_t>(13, pass.dim(1))))
        << at;
  else
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), bytes), 0)
        << name_of(found.dtype()) << ", " << at;
}

TEST(Decoding, HasTheBitsOfOnePass) {
  for (const LanguageModelLayout layout : kLayouts)
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && has_tiles()) continue;
      ModelProblem p(small_model(layout), dtype);
      p.run({}, false);
      Decoder decoder(p.model, 2, 8, 3);
      int64_t at = 0;
      for (const int64_t n : {3, 1, 2}) {
        expect_rows(decode_some(decoder, p.tokens, at, n), p.logits, at);
        at += n;
      }
      EXPECT_EQ(decoder.cache.length(1), 6);
    }
}

// Rows of more than 1,024 keys are summed in chunks.
TEST(Decoding, HasTheBitsOfOnePassBeyondAChunkOfKeys) {
  nn::LanguageModelSpec spec = small_model(LanguageModelLayout::qwen3);
  spec.context = 1100;
  ModelProblem p(spec, DType::f32, 1, 1060);
  p.run({}, false);
  Decoder decoder(p.model, 1, 1100, 700);
  int64_t at = 0;
  for (const int64_t n : {700, 300, 20, 1, 1, 1, 1, 1, 7, 28}) {
    expect_rows(decode_some(decoder, p.tokens, at, n), p.logits, at);
    at += n;
  }
}

// With 40 tokens a pass has more than 1,024 pairs, and goes by tile registers where there are some.
TEST(Decoding, AnInvariantCacheHasTheBitsOfOnePassOnAllSets) {
  for (const LanguageModelLayout layout : kLayouts)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      nn::LanguageModelSpec spec = small_model(layout);
      spec.context = 40;
      ModelProblem p(spec, dtype, 1, 40);
      Decoder pass(p.model, 1, 40, 40, true), parts(p.model, 1, 40, 20, true);
      const Tensor expected = decode_some(pass, p.tokens, 0, 40);
      int64_t at = 0;
      for (const int64_t n : {20, 1, 1, 11, 7}) {
        const Tensor found = decode_some(parts, p.tokens, at, n);
        const Tensor rows = Tensor::copy_of(expected.view().slice(1, at, at + n));
        const auto bytes = static_cast<size_t>(found.count() * size_of(dtype));
        EXPECT_EQ(std::memcmp(found.data(), rows.data(), bytes), 0) << name_of(dtype) << ", " << at;
        at += n;
      }
    }
}

TEST(Decoding, GivesTheLogitsOfTheLastTokenAlone) {
  ModelProblem p(small_model(LanguageModelLayout::qwen3));
  p.run({}, false);
  Decoder decoder(p.model, 2, 6, 6);
  Tensor last(DType::f64, {2, 1, 11});
  int64_t shape[] = {2, 11};
  decoder(p.tokens, {last.data(), DType::f64, shape, false});
  expect_rows(last, p.logits, 5);
}

TEST(Decoding, SequencesHaveLengthsOfTheirOwn) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout));
    Decoder decoder(p.model, 2, 8, 4);
    decode_some(decoder, p.tokens, 0, 4);
    decoder.cache.truncate(1, 2);  // forgets two tokens
    const Tensor found = decode_some(decoder, p.tokens, 4, 1);
    // In one pass the second sequence has its tokens 0, 1 and 4.
    const auto tokens = p.tokens.values<int64_t>();
    tokens[6 + 2] = tokens[6 + 4];
    p.run({}, false);
    const auto pass = std::as_const(p.logits).values<double>();
    const auto last = found.values<double>();
    for (size_t c = 0; c < 11; ++c) {
      EXPECT_NEAR(last[c], pass[4 * 11 + c], 1e-11);
      EXPECT_NEAR(last[11 + c], pass[(6 + 2) * 11 + c], 1e-11);
    }
  }
}

TEST(Decoding, SequencesContinueACopyOfAPrompt) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout), DType::f32);
    const auto tokens = p.tokens.values<int64_t>();
    std::copy_n(tokens.begin(), 4, tokens.begin() + 6);  // both begin with the same four
    p.run({}, false);
    Decoder one(p.model, 1, 4, 4), both(p.model, 2, 8, 4);
    decode_some(one, Tensor::copy_of(p.tokens.view().slice(0, 0, 1)), 0, 4);
    append_prompt(both.cache, one.cache);
    EXPECT_EQ(both.cache.length(1), 4);
    expect_rows(decode_some(both, p.tokens, 4, 2), p.logits, 4);
    expect_error(ErrorCode::argument, {"full cache of one prompt"},
                 [&] { append_prompt(one.cache, both.cache); });
  }
}

// Cancels a call when its first block has appended its keys.
struct CancelBehindTheFirstBlock {
  const nn::DecodingCache& cache;
  int64_t length;  // before the call
  CancelToken token;

  static void report(void* user, double) {
    auto& self = *static_cast<CancelBehindTheFirstBlock*>(user);
    if (self.cache.length(0) > self.length) self.token.cancel();
  }
};

TEST(Decoding, ACancelledCallAppendsNothing) {
  ModelProblem p(small_model(LanguageModelLayout::llama), DType::f32);
  p.run({}, false);
  Decoder decoder(p.model, 2, 8, 3);
  decode_some(decoder, p.tokens, 0, 3);
  CancelBehindTheFirstBlock cancel{decoder.cache, 3, {}};
  decoder.context = {.threads = 1,
                     .cancel = &cancel.token,
                     .progress = {CancelBehindTheFirstBlock::report, &cancel}};
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { decode_some(decoder, p.tokens, 3, 1); });
  for (const KeyValueCache& layer : decoder.cache.layers) EXPECT_EQ(layer.length(1), 3);
  decoder.context = {};
  expect_rows(decode_some(decoder, p.tokens, 3, 1), p.logits, 3);
}

TEST(Decoding, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "no hooks in this build";
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout), DType::f32);
    Decoder decoder(p.model, 2, 8, 6);
    Tensor logits(DType::f32, {2, 6, 11});
    decoder(p.tokens, logits);  // starts threads, chooses kernels
    decoder.cache.clear();
    laws::start_counting();
    decoder(p.tokens, logits);
    EXPECT_EQ(laws::stop_counting().made, 0);
  }
}

TEST(Decoding, RejectsWhatDoesNotFit) {
  ModelProblem p(small_model(LanguageModelLayout::gpt2));
  Decoder decoder(p.model, 2, 8, 6);
  decode_some(decoder, p.tokens, 0, 6);
  expect_error(ErrorCode::argument, {"has 6 tokens and gets 6 more", "room for 8"},
               [&] { decode_some(decoder, p.tokens, 0, 6); });
  EXPECT_EQ(decoder.cache.length(0), 6);
  p.tokens.values<int64_t>()[1] = 11;
  expect_error(ErrorCode::argument, {"tokens[0, 1] is 11"},
               [&] { decode_some(decoder, p.tokens, 0, 2); });
  decoder.cache.layers[1].truncate(0, 5);
  expect_error(ErrorCode::argument, {"layer 1", "holds 5 tokens of sequence 0", "layer 0 6"},
               [&] { decode_some(decoder, p.tokens, 0, 1); });
  nn::Arena counter;
  // A call that counts leaves the cache alone, even if it fails.
  const int64_t of_tokens[] = {3, 2}, of_logits[] = {3, 2, 11};
  expect_error(ErrorCode::shape, {}, [&] {
    decode(p.model, {nullptr, DType::i64, of_tokens, true}, decoder.cache,
           {nullptr, p.model.dtype(), of_logits, false},
           {.scratch = counter, .context = decoder.context});
  });
  EXPECT_EQ(decoder.cache.length(0), 6);
  expect_error(ErrorCode::argument, {"10 tokens", "1 to 9"},
               [&] { make_decoding_cache(p.model, 1, 10, counter); });
}

}  // namespace
