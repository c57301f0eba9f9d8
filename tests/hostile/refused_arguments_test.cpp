// Errors name the argument that was refused, so that a program can point to its own name of it.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "gradients/valid_gradient_call.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/window.h"
#include "rapt/normalizer/entmax.h"
#include "rapt/normalizer/sparsemax.h"
#include "rapt/score/alibi.h"

namespace laws {
namespace {

using Spoil = std::function<void(ValidGradientCall&)>;

// The argument that the error of a call names; "accepted" without an error.
std::string refused_argument(const std::function<void()>& call) {
  try {
    call();
  } catch (const rapt::Error& error) {
    return error.argument();
  }
  return "accepted";
}

const Tensor kTransposed = filled(DType::boolean, {7, 5}, 1);
const Tensor kThreeSlopes = filled(DType::f32, {3}, 1);
const Tensor kStarts = filled(DType::i64, {2}, 0);
const rapt::Window kBackwards(-5, 0);
const rapt::Boolean kOtherShape(kTransposed);
const rapt::Alibi kOtherHeads{kThreeSlopes};
const rapt::Entmax kAlphaBelowOne = [] {
  rapt::Entmax entmax;
  entmax.alpha = 0.5;
  return entmax;
}();
const rapt::Sparsemax kSparsest;
const rapt::Rotary kOddDims = [] {
  rapt::Rotary rotary;
  rotary.dims = 3;
  return rotary;
}();

TEST(RefusedArguments, OfTheForwardPass) {
  const struct {
    const char* argument;
    Spoil spoil;
  } mistakes[] = {
      {"query", [](auto& c) { c.query = {}; }},
      {"query", [](auto& c) { c.query.data = nullptr; }},
      {"query", [](auto& c) { c.query.shape[1] = -1; }},
      {"query", [](auto& c) { c.query.strides[0] = std::numeric_limits<int64_t>::max() / 2; }},
      {"key", [](auto& c) { c.key.dtype = DType::f64; }},
      {"key", [](auto& c) { c.key.shape[3] = 7; }},
      {"key", [](auto& c) { c.key.shape[1] = 3; }},
      {"value", [](auto& c) { c.value.shape[2] = 6; }},
      {"value", [](auto& c) { c.value.rank = rapt::kMaxRank + 1; }},
      {"bias", [](auto& c) { c.options.bias = kTransposed; }},
      {"bias_order", [](auto& c) { c.options.bias_order = static_cast<rapt::BiasOrder>(9); }},
      {"scale", [](auto& c) { c.options.scale = std::numeric_limits<double>::infinity(); }},
      {"output_dtype", [](auto& c) { c.options.output_dtype = DType::bf16; }},
      {"precision", [](auto& c) { c.options.precision = static_cast<rapt::Precision>(9); }},
      {"dropout", [](auto& c) { c.options.dropout.probability = 1; }},
      {"masks", [](auto& c) { c.options.masks = {&kBackwards}; }},
      {"masks", [](auto& c) { c.options.masks = {&kOtherShape}; }},
      {"scores", [](auto& c) { c.options.scores = {kOtherHeads}; }},
      {"normalizer", [](auto& c) { c.options.normalizer = kAlphaBelowOne; }},
      {"packed", [](auto& c) { c.options.packed.query_starts = kStarts; }},
      {"packed", [](auto& c) { c.options.packed.key_starts = kStarts; }},
      {"rotary", [](auto& c) { c.options.rotary.embedding = &kOddDims; }},
      {"rotary", [](auto& c) { c.options.rotary.query.start = 5; }},
      {"cosine", [](auto& c) { c.options.cosine.emplace().epsilon = -1; }},
      {"relative", [](auto& c) { c.options.relative.key_rows = kTransposed; }},
      {"weights", [](auto& c) { c.options.weights.emplace().row_end = 6; }},
      {"map", [](auto& c) { c.options.map.emplace().rows = 0; }},
      {"top_k", [](auto& c) { c.options.top_k = 8; }},
      {"entropy",
       [](auto& c) {
         c.options.normalizer = kSparsest;
         c.options.entropy = true;
       }},
  };
  for (const auto& mistake : mistakes) {
    ValidGradientCall c;
    mistake.spoil(c);
    const auto plan = [&] { (void)rapt::plan(c.query, c.key, c.value, c.options); };
    const auto attend = [&] {
      scaled_dot_product_attention(c.query, c.key, c.value, c.options, c.context);
    };
    EXPECT_EQ(refused_argument(attend), mistake.argument);
    if (c.query.data) {  // a plan needs none
      EXPECT_EQ(refused_argument(plan), mistake.argument);
    }
  }
}

TEST(RefusedArguments, OfTheCallersMemory) {
  ValidGradientCall c;
  Tensor output = filled(DType::f32, {2, 4, 5, 3}, 77), lse = filled(DType::f32, {2, 4, 5}, 77);
  rapt::AttentionState state{output, lse};
  const auto attend = [&](const rapt::AttentionOutputs& outputs, std::span<std::byte> workspace) {
    return refused_argument([&] {
      scaled_dot_product_attention(c.query, c.key, c.value, c.options, outputs, workspace);
    });
  };
  EXPECT_EQ(attend({state}, {}), "workspace");
  EXPECT_EQ(attend({{{}, lse}}, c.workspace), "output");
  EXPECT_EQ(attend({{output, output}}, c.workspace), "statistic");
  EXPECT_EQ(
      attend({{output.view(), TensorView(static_cast<float*>(output.view().data), {2, 4, 5})}},
             c.workspace),
      "statistic");
  EXPECT_EQ(attend({state, lse}, c.workspace), "weights");
}

TEST(RefusedArguments, OfTheBackwardPass) {
  const struct {
    const char* argument;
    Spoil spoil;
  } mistakes[] = {
      {"d_output", [](auto& c) { c.inputs.d_output = {}; }},
      {"d_output", [](auto& c) { c.inputs.d_output = kTransposed; }},
      {"d_statistic", [](auto& c) { c.inputs.d_statistic = kTransposed; }},
      {"d_weights", [](auto& c) { c.inputs.d_weights = kTransposed; }},
      {"state.output", [](auto& c) { c.inputs.state.output = {}; }},
      {"state.statistic", [](auto& c) { c.inputs.state.statistic = {}; }},
      {"dtype", [](auto& c) { c.request.dtype = DType::bf16; }},
      {"passes", [](auto& c) { c.request.passes = static_cast<rapt::BackwardPasses>(9); }},
      {"bias", [](auto& c) { c.request.bias = true; }},
      {"relative", [](auto& c) { c.request.relative = true; }},
      {"score_parameters", [](auto& c) { c.request.score_parameters = true; }},
      {"normalizer_parameters", [](auto& c) { c.request.normalizer_parameters = true; }},
      {"key", [](auto& c) { c.key.shape[3] = 7; }},
  };
  for (const auto& mistake : mistakes) {
    ValidGradientCall c;
    c.attend();
    mistake.spoil(c);
    EXPECT_EQ(refused_argument([&] {
                scaled_dot_product_attention_backward(c.query, c.key, c.value, c.options, c.inputs,
                                                      c.request);
              }),
              mistake.argument);
  }
  ValidGradientCall c;
  c.attend();
  c.outputs = {c.memory.d_query, c.memory.d_query, c.memory.d_value};
  EXPECT_EQ(refused_argument([&] { c.run(); }), "d_key");
}

// A name that is too long is cut; a copy of an error names the same.
TEST(RefusedArguments, StayWithTheError) {
  const rapt::Error error(rapt::ErrorCode::argument, "message", std::string(100, 'x'));
  const rapt::Error copy = error;
  EXPECT_EQ(std::string(copy.argument()), std::string(31, 'x'));
  EXPECT_STREQ(rapt::Error(rapt::ErrorCode::argument, "message").argument(), "");
}

}  // namespace
}  // namespace laws
