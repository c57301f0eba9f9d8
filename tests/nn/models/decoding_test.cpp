// Decoding with a cache: the logits of one pass, sequences of different lengths, no allocation.
#include "rapt/nn/decoding.h"

#include <gtest/gtest.h>

#include "memory/allocation_hooks.h"
#include "nn/models/model_problem.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;
using nn::LanguageModelLayout;

// Sums may be in another order than those of one pass. The longest sum has 13 terms, and a model of
// two layers has some 20 sums one after the other, which are less than 2^10 roundings.
double allowed_between(DType dtype) { return 0x1p10 * (dtype == DType::f64 ? 0x1p-53 : 0x1p-24); }

// Memory for a cache and for calls with up to `most` tokens.
struct Decoder {
  const nn::LanguageModel& model;
  std::vector<std::byte> state_memory, scratch_memory;
  Context context;
  nn::DecodingCache cache;

  Decoder(const nn::LanguageModel& of, int64_t batch, int64_t capacity, int64_t most) : model(of) {
    nn::Arena states, scratch;
    const nn::DecodingCache counted = make_decoding_cache(model, batch, capacity, states);
    for (int64_t n = 1; n <= most; ++n) {
      const int64_t of_tokens[] = {batch, n}, of_logits[] = {batch, n, model.spec.vocabulary};
      decode(model, {nullptr, DType::i64, of_tokens, true}, counted,
             {nullptr, model.dtype(), of_logits, false}, {.scratch = scratch, .context = context});
    }
    state_memory.resize(states.bytes()), scratch_memory.resize(scratch.bytes());
    nn::Arena kept(state_memory);
    cache = make_decoding_cache(model, batch, capacity, kept);
  }

  void operator()(const TensorView& tokens, const TensorView& logits) {
    nn::Arena scratch(scratch_memory);
    decode(model, tokens, cache, logits, {.scratch = scratch, .context = context});
  }
  std::span<int64_t> lengths() {
    return {static_cast<int64_t*>(cache.lengths.data), static_cast<size_t>(cache.batch())};
  }
};

// Logits [batch, n, vocabulary] of the tokens [at, at + n).
Tensor decode_some(Decoder& decoder, const Tensor& tokens, int64_t at, int64_t n) {
  const Tensor some = Tensor::copy_of(tokens.view().slice(1, at, at + n));
  Tensor logits(decoder.model.dtype(), {tokens.dim(0), n, decoder.model.spec.vocabulary});
  decoder(some, logits);
  return logits;
}

TEST(Decoding, HasTheLogitsOfOnePass) {
  for (const LanguageModelLayout layout : kLayouts)
    for (const DType dtype : {DType::f64, DType::f32}) {
      ModelProblem p(small_model(layout), dtype);
      p.run({}, false);
      Decoder decoder(p.model, 2, 8, 3);
      int64_t at = 0;
      for (const int64_t n : {3, 1, 2}) {
        const Tensor found = decode_some(decoder, p.tokens, at, n);
        const Tensor expected = Tensor::copy_of(p.logits.view().slice(1, at, at + n));
        EXPECT_LE(difference(found, expected), allowed_between(dtype)) << at;
        at += n;
      }
      EXPECT_EQ(decoder.lengths()[1], 6);
    }
}

TEST(Decoding, GivesTheLogitsOfTheLastTokenAlone) {
  ModelProblem p(small_model(LanguageModelLayout::qwen3));
  p.run({}, false);
  Decoder decoder(p.model, 2, 6, 6);
  Tensor last(DType::f64, {2, 11});
  decoder(p.tokens, last);
  const Tensor rows = Tensor::copy_of(p.logits.view().slice(1, 5, 6));
  Tensor expected(DType::f64, {2, 11});
  std::copy(rows.values<double>().begin(), rows.values<double>().end(),
            expected.values<double>().begin());
  EXPECT_LE(difference(last, expected), allowed_between(DType::f64));
}

TEST(Decoding, SequencesHaveLengthsOfTheirOwn) {
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout));
    Decoder decoder(p.model, 2, 8, 4);
    decode_some(decoder, p.tokens, 0, 4);
    decoder.lengths()[1] = 2;  // forgets two tokens
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

TEST(Decoding, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "no hooks in this build";
  for (const LanguageModelLayout layout : kLayouts) {
    ModelProblem p(small_model(layout), DType::f32);
    Decoder decoder(p.model, 2, 8, 6);
    Tensor logits(DType::f32, {2, 6, 11});
    decoder(p.tokens, logits);  // starts threads, chooses kernels
    for (int64_t& length : decoder.lengths()) length = 0;
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
  EXPECT_EQ(decoder.lengths()[0], 6);
  p.tokens.values<int64_t>()[1] = 11;
  expect_error(ErrorCode::argument, {"tokens[0, 1] is 11"},
               [&] { decode_some(decoder, p.tokens, 0, 2); });
  nn::Arena counter;
  expect_error(ErrorCode::argument, {"10 tokens", "1 to 9"},
               [&] { make_decoding_cache(p.model, 1, 10, counter); });
}

}  // namespace
