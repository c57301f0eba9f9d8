// The encoder-decoder Transformer: gradients against central differences, bits, what causal and
// padding mean, the two halves of a call, memory, errors.
#include "rapt/nn/encoder_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "memory/allocation_hooks.h"
#include "nn/gradient_check.h"
#include "rapt/mask/lengths.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

// A model with tokens of a batch of two and their lengths.
struct Translation {
  nn::EncoderDecoder model;
  int64_t source_length, target_length;
  std::vector<int64_t> source, target, lengths;
  Tensor logits, d_logits;
  bool padded = false;  // are the lengths given to the call?

  explicit Translation(const nn::EncoderDecoderSpec& spec, DType dtype = DType::f64)
      : model(nn::make_encoder_decoder(spec, dtype)),
        source_length(spec.source_context),
        target_length(spec.target_context),
        source(tokens(2 * source_length, spec.source_vocabulary, 3)),
        target(tokens(2 * target_length, spec.target_vocabulary, 5)),
        lengths{source_length, source_length - 2},
        logits(dtype, {2, target_length, spec.target_vocabulary}),
        d_logits(normal(dtype, {2, target_length, spec.target_vocabulary}, 80)) {
    draw_parameters(model, 1);
  }

  static std::vector<int64_t> tokens(int64_t count, int64_t vocabulary, int64_t step) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = (1 + step * i) % vocabulary;
    return all;
  }
  TensorView source_view() const { return {source.data(), {2, source_length}}; }
  TensorView target_view() const { return {target.data(), {2, target_length}}; }
  nn::EncoderDecoderCalls calls() const {
    return {.source_lengths = padded ? TensorView(lengths.data(), {2}) : TensorView()};
  }
  void run(const Counted& counted, bool with_backward) {
    counted([&](nn::Arena& states, const nn::Run& r) {
      const auto state = make_state(model, 2, source_length, target_length, states);
      forward(model, source_view(), target_view(), logits, state, r, calls());
      if (with_backward) backward(model, source_view(), target_view(), d_logits, state, r, calls());
    });
  }
  // Logits and gradients, byte after byte.
  std::vector<std::byte> results(const Counted& counted) {
    nn::clear_gradients(nn::parameters_of(model));
    run(counted, true);
    std::vector<std::byte> bytes;
    const auto append = [&](const TensorView& view) {
      const auto* const begin = static_cast<const std::byte*>(view.data);
      bytes.insert(bytes.end(), begin, begin + view.count() * size_of(view.dtype));
    };
    append(logits);
    for (nn::Parameter* p : nn::parameters_of(model)) append(p->gradient);
    return bytes;
  }
};

nn::EncoderDecoderSpec small_translation() {
  return {.source_vocabulary = 7,
          .target_vocabulary = 6,
          .source_context = 5,
          .target_context = 4,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .heads = 2,
          .features = 8,
          .hidden_features = 5};
}

// Forms that have all branches between them.
std::vector<nn::EncoderDecoderSpec> translation_forms() {
  std::vector<nn::EncoderDecoderSpec> all(4, small_translation());
  all[1].positions = nn::PositionRows::learned;
  all[1].tied_head = all[1].scaled_embedding = false;
  all[1].norm_first = true;
  all[1].activation = Activation::gelu;
  all[1].dropout = 0.2;
  all[2].target_vocabulary = 7;
  all[2].shared_table = true;
  all[2].encoder_attention.rotary = all[2].decoder_attention.rotary = "rotary";
  all[2].dropout = 0.1;
  all[3].positions = nn::PositionRows::none;
  all[3].encoder_layers = 1, all[3].decoder_layers = 3;
  all[3].shared_table = false;
  all[3].cross_attention.normalizer = "softmax_with_sink(learned)";
  return all;
}

TEST(EncoderDecoderTest, GradientsAreCentralDifferences) {
  for (const nn::EncoderDecoderSpec& spec : translation_forms())
    for (const bool padded : {false, true}) {
      Translation p(spec);
      p.padded = padded;
      const Counted counted{.training = true, .seed = 5};
      p.run(counted, true);
      std::vector<Checked> checked;
      add_parameters(p.model, checked);
      expect_gradients(
          checked,
          [&] {
            p.run(counted, false);
            return dot(p.logits, p.d_logits);
          },
          6);
    }
}

TEST(EncoderDecoderTest, ParametersHaveTheNamesOfNnTransformer) {
  const auto names_of = [](const nn::EncoderDecoderSpec& spec) {
    nn::EncoderDecoder model = nn::make_encoder_decoder(spec);
    std::set<std::string> names;
    visit(model, [&](const std::string& name, nn::Parameter&) { names.insert(name); });
    return names;
  };
  const auto all = translation_forms();
  const std::set<std::string> first = names_of(all[0]), second = names_of(all[1]);
  for (const char* name : {"encoder.layers.1.self_attn.in_proj_weight", "encoder.norm.weight",
                           "decoder.layers.0.multihead_attn.out_proj.bias", "decoder.norm.bias",
                           "source_embedding.weight", "target_embedding.weight"})
    EXPECT_EQ(first.count(name), 1u) << name;
  EXPECT_EQ(first.count("source_positions.weight") + first.count("head.weight"), 0u);
  for (const char* name : {"source_positions.weight", "target_positions.weight", "head.weight"})
    EXPECT_EQ(second.count(name), 1u) << name;
  EXPECT_EQ(names_of(all[2]).count("source_embedding.weight"), 0u);
}

TEST(EncoderDecoderTest, SinusoidsAreThoseOfThePaper) {
  const nn::EncoderDecoder model = nn::make_encoder_decoder(small_translation(), DType::f64);
  const auto rows = model.source_positions.weight.value.values<double>();
  ASSERT_EQ(rows.size(), 5u * 8u);
  EXPECT_EQ(rows[0], 0);
  EXPECT_EQ(rows[1], 1);
  EXPECT_NEAR(rows[3 * 8 + 4], std::sin(3 / 100.0), 1e-15);  // w = 10000^(-4/8)
  EXPECT_NEAR(rows[3 * 8 + 5], std::cos(3 / 100.0), 1e-15);
}

TEST(EncoderDecoderTest, SameBitsForAnyThreads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    nn::EncoderDecoderSpec spec = small_translation();
    spec.source_context = 130, spec.target_context = 110;
    spec.features = 48, spec.hidden_features = 100;
    spec.dropout = 0.1;
    spec.positions = nn::PositionRows::learned;
    Translation p(spec, dtype);
    p.padded = true;
    std::vector<std::byte> expected;
    for (const int threads : {1, 2, 5, 16}) {
      const auto found = p.results({.context = {.threads = threads}, .training = true, .seed = 9});
      if (expected.empty()) expected = found;
      EXPECT_TRUE(found == expected) << threads << " threads";
    }
  }
}

TEST(EncoderDecoderTest, LogitsDoNotDependOnLaterTargetTokens) {
  for (const nn::EncoderDecoderSpec& spec : translation_forms()) {
    Translation p(spec);
    p.run({}, false);
    const Tensor before = Tensor::copy_of(p.logits);
    for (const size_t at : {2u, 6u}) p.target[at] = (p.target[at] + 1) % spec.target_vocabulary;
    p.run({}, false);
    const auto a = before.values<double>();
    const auto b = std::as_const(p.logits).values<double>();
    const auto row = static_cast<size_t>(spec.target_vocabulary);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i] == b[i], i / row % 4 < 2) << i;
  }
}

// Neighbours that change places change the logits, unless nothing tells positions apart.
TEST(EncoderDecoderTest, OrderOfTheSourceCountsWherePositionsDo) {
  for (const nn::EncoderDecoderSpec& spec : translation_forms()) {
    Translation p(spec);
    p.run({}, false);
    const Tensor before = Tensor::copy_of(p.logits);
    for (size_t at = 0; at < 4; ++at) {
      std::swap(p.source[at], p.source[at + 1]);
      p.run({}, false);
      std::swap(p.source[at], p.source[at + 1]);
      double largest = 0;
      for (size_t i = 0; i < static_cast<size_t>(before.count()) / 2; ++i)
        largest =
            std::max(largest, std::abs(before.values<double>()[i] - p.logits.values<double>()[i]));
      if (spec.positions == nn::PositionRows::none)
        EXPECT_LT(largest, 1e-12) << at;
      else
        EXPECT_GT(largest, 1e-6) << at;
    }
  }
}

TEST(EncoderDecoderTest, NothingDependsOnThePadding) {
  for (const nn::EncoderDecoderSpec& spec : translation_forms())
    for (const DType dtype : {DType::f32, DType::f64}) {
      Translation p(spec, dtype);
      p.padded = true;
      const std::vector<std::byte> before = p.results({});
      for (const size_t at : {8u, 9u}) p.source[at] = (p.source[at] + 2) % spec.source_vocabulary;
      EXPECT_TRUE(p.results({}) == before);
      p.source[7] = (p.source[7] + 2) % spec.source_vocabulary;  // no padding
      EXPECT_FALSE(p.results({}) == before);
    }
}

TEST(EncoderDecoderTest, APaddedSourceIsAShorterOne) {
  Translation p(small_translation());
  p.padded = true;
  p.run({}, false);
  const TensorView source(p.source.data() + 5, {1, 3}), target(p.target.data() + 4, {1, 4});
  Tensor alone(DType::f64, {1, 4, 6});
  Counted()([&](nn::Arena& states, const nn::Run& r) {
    forward(p.model, source, target, alone, make_state(p.model, 1, 3, 4, states), r);
  });
  for (size_t i = 0; i < 24; ++i)
    EXPECT_NEAR(alone.values<double>()[i], p.logits.values<double>()[24 + i], 1e-12) << i;
}

// Lengths are the masks that one would give to each attention.
TEST(EncoderDecoderTest, SourceLengthsAreMasks) {
  Translation p(small_translation());
  p.padded = true;
  p.run({}, false);
  const Tensor expected = Tensor::copy_of(p.logits);
  const Lengths mask(TensorView(std::as_const(p.lengths).data(), {2}));
  const nn::MultiHeadCall masked{.options = {.masks = {&mask}}};
  Counted()([&](nn::Arena& states, const nn::Run& r) {
    forward(p.model, p.source_view(), p.target_view(), p.logits,
            make_state(p.model, 2, 5, 4, states), r,
            {.encoder = masked, .decoder = {.cross_attention = masked}});
  });
  EXPECT_EQ(std::memcmp(expected.data(), p.logits.data(), 48 * sizeof(double)), 0);
}

TEST(EncoderDecoderTest, TheHalvesHaveTheBitsOfTheWhole) {
  for (const nn::EncoderDecoderSpec& spec : translation_forms())
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Translation p(spec, dtype);
      p.padded = true;
      p.run({.training = true, .seed = 2}, false);
      Tensor memory(dtype, {2, 5, 8}), found(dtype, p.logits.dims());
      Counted{.training = true, .seed = 2}([&](nn::Arena& states, const nn::Run& r) {
        encode(p.model, p.source_view(), memory, make_encoder_state(p.model, 2, 5, states), r,
               p.calls());
        decode(p.model, memory, p.target_view(), found,
               make_decoder_state(p.model, 2, 4, 5, states), r, p.calls());
      });
      EXPECT_EQ(std::memcmp(found.data(), p.logits.data(),
                            static_cast<size_t>(found.count() * size_of(dtype))),
                0);
    }
}

// Each step decodes one token more: its last logits are those of the whole target.
TEST(EncoderDecoderTest, WritesStepByStep) {
  for (const nn::EncoderDecoderSpec& spec : translation_forms()) {
    Translation p(spec);
    p.run({}, false);
    Tensor memory(DType::f64, {2, 5, 8});
    Counted()([&](nn::Arena& states, const nn::Run& r) {
      encode(p.model, p.source_view(), memory, make_encoder_state(p.model, 2, 5, states), r);
    });
    const int64_t vocabulary = spec.target_vocabulary;
    for (int64_t length = 1; length <= 4; ++length) {
      Tensor logits(DType::f64, {1, length, vocabulary});
      const TensorView target(std::as_const(p.target).data(), {1, length});
      Counted()([&](nn::Arena& states, const nn::Run& r) {
        decode(p.model, memory.view().slice(0, 0, 1), target, logits,
               make_decoder_state(p.model, 1, length, 5, states), r);
      });
      for (int64_t i = (length - 1) * vocabulary; i < length * vocabulary; ++i)
        EXPECT_NEAR(logits.values<double>()[static_cast<size_t>(i)],
                    p.logits.values<double>()[static_cast<size_t>(i)], 1e-12)
            << length << ", " << i;
    }
  }
}

TEST(EncoderDecoderTest, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  for (const nn::EncoderDecoderSpec& spec : translation_forms()) {
    Translation p(spec, DType::f32);
    p.padded = true;
    const nn::EncoderDecoderCalls calls = p.calls();
    const Counted counted{.context = {.threads = 1}, .training = true, .seed = 3};
    counted([&](nn::Arena& states, const nn::Run& r) {
      const auto state = make_state(p.model, 2, 5, 4, states);
      laws::start_counting();
      forward(p.model, p.source_view(), p.target_view(), p.logits, state, r, calls);
      backward(p.model, p.source_view(), p.target_view(), p.d_logits, state, r, calls);
      const laws::Allocations allocations = laws::stop_counting();
      EXPECT_TRUE(r.counts() || allocations.made == 0) << allocations.made;
    });
  }
}

TEST(EncoderDecoderTest, RejectsSpecsThatDoNotFit) {
  const auto rejects = [](const char* word, const std::function<void(nn::EncoderDecoderSpec&)>& f) {
    nn::EncoderDecoderSpec spec = small_translation();
    f(spec);
    expect_error(ErrorCode::argument, {word}, [&] { nn::make_encoder_decoder(spec); });
  };
  using Spec = nn::EncoderDecoderSpec;
  rejects("source_vocabulary", [](Spec& s) { s.source_vocabulary = 0; });
  rejects("target_vocabulary", [](Spec& s) { s.target_vocabulary = -1; });
  rejects("source_context", [](Spec& s) { s.source_context = 0; });
  rejects("target_context", [](Spec& s) { s.target_context = 0; });
  rejects("encoder_layers", [](Spec& s) { s.encoder_layers = 0; });
  rejects("decoder_layers", [](Spec& s) { s.decoder_layers = 0; });
  rejects("hidden_features", [](Spec& s) { s.hidden_features = -1; });
  rejects("one table", [](Spec& s) { s.shared_table = true; });
  rejects("3", [](Spec& s) { s.heads = 3; });
  rejects("dropout", [](Spec& s) { s.dropout = 1; });
}

TEST(EncoderDecoderTest, RejectsMoreTokensThanPositions) {
  const nn::EncoderDecoder model = nn::make_encoder_decoder(small_translation());
  nn::Arena counter;
  expect_error(ErrorCode::shape, {"6 source", "5"}, [&] { make_state(model, 1, 6, 4, counter); });
  expect_error(ErrorCode::shape, {"5 target", "4"}, [&] { make_state(model, 1, 5, 5, counter); });
  expect_error(ErrorCode::shape, {"9 source"},
               [&] { make_decoder_state(model, 1, 4, 9, counter); });
}

// A call with memory of its own, of which nothing may change when the call is rejected.
class UntouchedTranslation {
 public:
  Translation p{small_translation(), DType::f32};

  UntouchedTranslation() {
    nn::Arena states, scratch;
    call(states, scratch, nullptr);
    state_memory_.resize(states.bytes(), kMark);
    scratch_memory_.resize(scratch.bytes(), kMark);
    std::memset(p.logits.data(), 1, static_cast<size_t>(p.logits.count()) * sizeof(float));
  }
  // Expects that forward and backward calls with what `change` does are rejected.
  void expect_rejected(ErrorCode code, const std::vector<std::string>& words,
                       const std::function<void(Translation&)>& change) {
    change(p);
    const Tensor logits = Tensor::copy_of(p.logits);
    for (const bool backwards : {false, true})
      expect_error(code, words, [&] {
        nn::Arena states(state_memory_), scratch(scratch_memory_);
        call(states, scratch, &backwards);
      });
    const auto unchanged = [](std::byte b) { return b == kMark; };
    EXPECT_TRUE(std::all_of(state_memory_.begin(), state_memory_.end(), unchanged));
    EXPECT_TRUE(std::all_of(scratch_memory_.begin(), scratch_memory_.end(), unchanged));
    EXPECT_EQ(std::memcmp(logits.data(), p.logits.data(),
                          static_cast<size_t>(logits.count()) * sizeof(float)),
              0);
    for (const nn::Parameter* parameter : nn::parameters_of(p.model))
      for (const float x : parameter->gradient.values<float>()) EXPECT_EQ(x, 0);
  }

 private:
  static constexpr std::byte kMark{0xA5};

  // Both passes, or one of them.
  void call(nn::Arena& states, nn::Arena& scratch, const bool* backwards) {
    const Context context;
    const nn::Run r{.scratch = scratch, .context = context};
    const auto state = make_state(p.model, 2, 5, 4, states);
    if (!backwards || !*backwards)
      forward(p.model, p.source_view(), p.target_view(), p.logits, state, r, p.calls());
    if (!backwards || *backwards)
      backward(p.model, p.source_view(), p.target_view(), p.d_logits, state, r, p.calls());
  }
  std::vector<std::byte> state_memory_, scratch_memory_;
};

TEST(EncoderDecoderTest, RejectsBadInputBeforeAnythingIsWritten) {
  UntouchedTranslation().expect_rejected(ErrorCode::argument, {"source[1, 2]", "7"},
                                         [](Translation& p) { p.source[7] = 7; });
  UntouchedTranslation().expect_rejected(ErrorCode::argument, {"target[0, 3]", "-1"},
                                         [](Translation& p) { p.target[3] = -1; });
  UntouchedTranslation().expect_rejected(ErrorCode::argument, {"source_lengths[1]", "6"},
                                         [](Translation& p) { p.padded = true, p.lengths[1] = 6; });
  UntouchedTranslation().expect_rejected(ErrorCode::shape, {"source [2, 4]", "[2, 5]"},
                                         [](Translation& p) { p.source_length = 4; });
  UntouchedTranslation().expect_rejected(ErrorCode::shape, {"target [2, 3]", "[2, 4]"},
                                         [](Translation& p) { p.target_length = 3; });
  UntouchedTranslation().expect_rejected(
      ErrorCode::shape, {"logits", "[2, 4, 6]"}, [](Translation& p) {
        p.logits = Tensor(DType::f32, {2, 4, 7});
        std::memset(p.logits.data(), 1, 2 * 4 * 7 * sizeof(float));
        p.d_logits = Tensor(DType::f32, {2, 4, 7});
      });
  UntouchedTranslation().expect_rejected(ErrorCode::dtype, {"logits", "f32"}, [](Translation& p) {
    p.logits = normal(DType::f64, {2, 4, 6}, 1);
    p.d_logits = normal(DType::f64, {2, 4, 6}, 1);
  });
}

TEST(EncoderDecoderTest, RejectsHalvesThatDoNotFit) {
  Translation p(small_translation());
  Tensor memory(DType::f64, {2, 5, 8}), wrong(DType::f64, {2, 4, 8});
  const auto decodes = [&](const TensorView& from) {
    Counted()([&](nn::Arena& states, const nn::Run& r) {
      decode(p.model, from, p.target_view(), p.logits, make_decoder_state(p.model, 2, 4, 5, states),
             r);
    });
  };
  expect_error(ErrorCode::shape, {"memory [2, 4, 8]", "[2, 5, 8]"}, [&] { decodes(wrong); });
  expect_error(ErrorCode::argument, {"memory"}, [&] { decodes(TensorView()); });
  expect_error(ErrorCode::shape, {"memory"}, [&] {
    Counted()([&](nn::Arena& states, const nn::Run& r) {
      encode(p.model, p.source_view(), wrong, make_encoder_state(p.model, 2, 5, states), r);
    });
  });
  const nn::EncoderDecoder other = nn::make_encoder_decoder(translation_forms()[3], DType::f64);
  expect_error(ErrorCode::argument, {"2 blocks", "make_state"}, [&] {
    Counted()([&](nn::Arena& states, const nn::Run& r) {
      const auto state = make_encoder_state(p.model, 2, 5, states);
      if (!r.counts()) encode(other, p.source_view(), memory, state, r);
    });
  });
}

}  // namespace
