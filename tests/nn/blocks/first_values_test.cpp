// First values of whole models: what initialize_gpt() and initialize_encoder_decoder() draw.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "rapt/nn/encoder_decoder.h"
#include "rapt/nn/gpt.h"
#include "rapt/nn/init.h"

namespace {

using namespace rapt;

// Expects that numbers look like independent ones of mean 0 and this deviation. The mean of n has
// the deviation s / sqrt(n); their own deviation varies by s / sqrt(2 n), and by less for uniform
// ones. Six of these deviations are exceeded once in 500 million draws.
void expect_deviation(const std::string& name, std::span<const float> values, double deviation) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const float x : values) sum += x, squares += static_cast<double>(x) * x;
  EXPECT_NEAR(sum / n, 0, 6 * deviation / std::sqrt(n)) << name;
  EXPECT_NEAR(std::sqrt(squares / n), deviation, 6 * deviation / std::sqrt(2 * n)) << name;
}

void expect_constant(const std::string& name, std::span<const float> values, float expected) {
  for (const float x : values) EXPECT_EQ(x, expected) << name;
}

std::span<const float> drawn_values(const nn::Parameter& p) { return p.value.values<float>(); }

// Expects the numbers of `model`, which `seed` has drawn, from any number of threads.
template <class Model>
void expect_same_for_any_threads(const Model& model, Model& again, uint64_t seed) {
  for (const int threads : {1, 2, 5, 16}) {
    const auto parameters = nn::named_parameters(again);
    for (const auto& [name, p] : parameters)
      if (p->init.rule == nn::Init::Rule::uniform || p->init.rule == nn::Init::Rule::normal)
        std::memset(p->value.data(), 0x7F, static_cast<size_t>(p->value.count()) * sizeof(float));
    nn::initialize(std::span<const nn::NamedParameter>(parameters), seed, {.threads = threads});
    size_t i = 0;
    visit(model, [&](const std::string& name, const nn::Parameter& p) {
      ASSERT_EQ(parameters[i].name, name);
      EXPECT_EQ(std::memcmp(p.value.data(), parameters[i].parameter->value.data(),
                            static_cast<size_t>(p.value.count()) * sizeof(float)),
                0)
          << name << ", " << threads << " threads";
      ++i;
    });
  }
}

// Radford et al. 2019, section 2.3, and the released code: 0.02, and 0.02 / sqrt(2 layers) for the
// projections back into the residual stream.
TEST(InitializeGpt, DrawsWeightsAsGpt2) {
  nn::Gpt model =
      nn::make_gpt({.vocabulary = 300, .context = 64, .layers = 3, .heads = 4, .features = 96});
  nn::initialize_gpt(model, 11);
  int weights = 0, back = 0, biases = 0, norms = 0;
  visit(model, [&](const std::string& name, const nn::Parameter& p) {
    if (name.ends_with("bias")) {
      expect_constant(name, drawn_values(p), 0), ++biases;
    } else if (name.find("norm") != std::string::npos || name.starts_with("ln_f")) {
      expect_constant(name, drawn_values(p), 1), ++norms;
    } else if (name.ends_with("out_proj.weight") || name.ends_with("linear2.weight")) {
      expect_deviation(name, drawn_values(p), 0.02 / std::sqrt(6.0)), ++back;
    } else {
      expect_deviation(name, drawn_values(p), 0.02), ++weights;
    }
  });
  EXPECT_EQ(weights, 2 + 2 * 3);  // wte, wpe; in_proj_weight and linear1.weight of each block
  EXPECT_EQ(back, 2 * 3);
  EXPECT_EQ(norms, 2 * 3 + 1);
  EXPECT_EQ(biases, 6 * 3 + 1);
}

TEST(InitializeGpt, DrawsTheSameNumbersForAnyThreads) {
  const nn::GptSpec spec{.vocabulary = 300, .context = 64, .layers = 2, .heads = 4, .features = 64};
  nn::Gpt model = nn::make_gpt(spec), again = nn::make_gpt(spec), other = nn::make_gpt(spec);
  nn::initialize_gpt(model, 11);
  nn::initialize_gpt(again, 11);
  nn::initialize_gpt(other, 12);
  expect_same_for_any_threads(model, again, 11);
  EXPECT_NE(std::memcmp(model.wte.weight.value.data(), other.wte.weight.value.data(),
                        300 * 64 * sizeof(float)),
            0);
}

nn::EncoderDecoderSpec translator_spec() {
  return {.source_vocabulary = 200,
          .target_vocabulary = 150,
          .source_context = 30,
          .target_context = 40,
          .encoder_layers = 2,
          .decoder_layers = 1,
          .heads = 4,
          .features = 64,
          .tied_head = false,
          .positions = nn::PositionRows::learned};
}

TEST(InitializeEncoderDecoder, DrawsMatricesAsNnTransformer) {
  nn::EncoderDecoder model = nn::make_encoder_decoder(translator_spec());
  nn::initialize_encoder_decoder(model, 5);
  int tables = 0, matrices = 0;
  visit(model, [&](const std::string& name, const nn::Parameter& p) {
    if (name.ends_with("bias")) {
      expect_constant(name, drawn_values(p), 0);
    } else if (name.find("norm") != std::string::npos) {
      expect_constant(name, drawn_values(p), 1);
    } else if (name.starts_with("source_") || name.starts_with("target_")) {
      expect_deviation(name, drawn_values(p), 1 / std::sqrt(64.0)), ++tables;
    } else {
      // Uniform between -b and b has the deviation b / sqrt(3).
      const double bound = std::sqrt(6.0 / static_cast<double>(p.value.dim(0) + p.value.dim(1)));
      expect_deviation(name, drawn_values(p), bound / std::sqrt(3.0)), ++matrices;
      for (const float x : drawn_values(p))
        ASSERT_LE(std::abs(static_cast<double>(x)), bound * (1 + 1e-6)) << name;
    }
  });
  EXPECT_EQ(tables, 4);
  EXPECT_EQ(matrices, 2 * 4 + 6 + 1);
}

TEST(InitializeEncoderDecoder, DrawsTheSameNumbersForAnyThreads) {
  nn::EncoderDecoder model = nn::make_encoder_decoder(translator_spec());
  nn::EncoderDecoder again = nn::make_encoder_decoder(translator_spec());
  nn::initialize_encoder_decoder(model, 6);
  nn::initialize_encoder_decoder(again, 6);
  expect_same_for_any_threads(model, again, 6);
}

}  // namespace
