// Gradients of multi-head attention against central differences, over the catalogue of masks,
// scores and normalisers, with grouped heads, biases, cross attention, positions and dropout.
#include <gtest/gtest.h>

#include <map>

#include "nn/attention/drawn_variants.h"
#include "nn/attention/multi_head_problem.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/lengths.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using check::Random;

// Checks all gradients; `most` elements of each tensor.
void expect_gradients_of(MultiHeadProblem& problem, int most) {
  problem.run_backward();
  std::vector<Checked> checked = problem.checked();
  const auto loss = [&] {
    problem.run_forward();
    return dot(problem.y, problem.d_y);
  };
  expect_gradients(checked, loss, most);
}

// Can the texts of the spec be used together, with gradients? Some parameters exclude each other.
bool has_gradients(const MultiHeadSizes& sizes, const nn::MultiHeadAttentionSpec& spec) {
  try {
    MultiHeadProblem(sizes, spec, DType::f64, 1).run_backward();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The spec with one text of a variant: the first drawn one that can be used.
template <class Put>
void expect_gradients_of_all(std::span<const Declaration* const> declarations, const Put& put) {
  Random random(5);
  for (const Declaration* declaration : declarations) {
    SCOPED_TRACE(declaration->name);
    int used = 0;
    for (int i = 0; i < 12 && used < 2; ++i) {
      const std::string text = drawn_text(*declaration, i % 2 == 0 ? 0.5 : 0.0, random);
      SCOPED_TRACE(text);
      MultiHeadSizes sizes{.leading = {2}, .length = 4, .embed_dim = 6, .num_heads = 3};
      nn::MultiHeadAttentionSpec spec;
      put(spec, text);
      if (!has_gradients(sizes, spec)) continue;
      ++used;
      MultiHeadProblem problem(sizes, spec, DType::f64, random.next() % 1000);
      expect_gradients_of(problem, 8);
    }
    EXPECT_GE(used, 1);
  }
}

TEST(MultiHeadGradients, OfEveryScore) {
  expect_gradients_of_all(
      score_declarations(),
      [](nn::MultiHeadAttentionSpec& spec, const std::string& text) { spec.scores = {text}; });
}

TEST(MultiHeadGradients, OfEveryNormalizer) {
  expect_gradients_of_all(
      normalizer_declarations(),
      [](nn::MultiHeadAttentionSpec& spec, const std::string& text) { spec.normalizer = text; });
}

// Masks of tensors, by object.
struct TensorMasks {
  Tensor pairs, counts, ids;
  Boolean boolean;
  Lengths lengths;
  Documents documents;

  TensorMasks(const MultiHeadSizes& sizes, int64_t keys, Random& random)
      : pairs(DType::boolean, {sizes.length, keys}),
        counts(DType::i64, {sizes.leading.empty() ? 1 : sizes.leading[0]}),
        ids(DType::i64, {std::max(sizes.length, keys)}) {
    for (bool& pair : pairs.values<bool>()) pair = random.chance(0.6);
    for (int64_t& count : counts.values<int64_t>()) count = random.between(0, keys);
    for (int64_t& id : ids.values<int64_t>()) id = random.between(0, 1);
    boolean = Boolean(pairs.view());
    lengths = Lengths(counts.view());
    documents = Documents(TensorView(ids.data(), DType::i64, Shape(&sizes.length, 1), true),
                          TensorView(ids.data(), DType::i64, Shape(&keys, 1), true));
  }
};

nn::MultiHeadAttentionSpec drawn_spec(const MultiHeadSizes& sizes, Random& random) {
  nn::MultiHeadAttentionSpec spec;
  const auto any_of = [&](std::span<const Declaration* const> all) {
    return drawn_text(
        *all[static_cast<size_t>(random.between(0, static_cast<int64_t>(all.size()) - 1))],
        random.chance(0.5) ? 0.4 : 0, random);
  };
  if (sizes.num_heads % 2 == 0 && random.chance(0.4)) spec.num_kv_heads = sizes.num_heads / 2;
  if (random.chance(0.2)) spec.num_kv_heads = 1;
  if (random.chance(0.15)) spec.head_dim = random.between(1, 4);
  if (sizes.value_apart) spec.vdim = random.between(1, 5);
  if (sizes.k_len > 0 && (random.chance(0.3) || sizes.value_apart)) {
    spec.kdim = random.between(1, 5);
    if (!sizes.value_apart) spec.vdim = spec.kdim;
  }
  spec.bias = random.chance(0.7), spec.add_bias_kv = random.chance(0.25);
  spec.add_zero_attn = random.chance(0.1);
  if (random.chance(0.6)) spec.mask = drawn_mask(random);
  while (random.chance(0.35)) spec.scores.push_back(any_of(score_declarations()));
  if (random.chance(0.5)) spec.normalizer = any_of(normalizer_declarations());
  if (random.chance(0.2)) spec.rotary = random.chance(0.5) ? "rotary" : "rotary(interleaved)";
  if (random.chance(0.25))
    spec.relative = random.pick({"relative(key_rows=learned[5], value_rows=shared[5])",
                                 "relative(key_rows=shared[7], content_bias=learned, "
                                 "position_bias=learned, anchor=bottom-right)",
                                 "relative(key_rows=learned[4], query_rows=learned[4], center=3)"});
  if (random.chance(0.3)) spec.dropout = 0.3;
  return spec;
}

MultiHeadSizes drawn_sizes(Random& random) {
  MultiHeadSizes sizes;
  sizes.leading = random.pick<std::vector<int64_t>>({{}, {1}, {2}, {2}, {3}, {2, 1}, {0}, {1, 2}});
  sizes.length = random.pick({1, 2, 3, 5});
  if (random.chance(0.05)) sizes.length = 0;
  sizes.num_heads = random.pick({1, 2, 3, 4});
  sizes.embed_dim = sizes.num_heads * random.pick({1, 2, 3, 4});
  if (random.chance(0.4)) sizes.k_len = random.between(1, 6);
  sizes.value_apart = sizes.k_len > 0 && random.chance(0.3);
  return sizes;
}

// Options that are set as objects, not as texts.
void draw_options(MultiHeadProblem& problem, const MultiHeadSizes& sizes, TensorMasks& masks,
                  Tensor& bias, Tensor& d_bias, Random& random) {
  AttentionOptions& options = problem.call.options;
  switch (random.between(0, 5)) {
    case 0:
      options.masks = {&masks.boolean};
      break;
    case 1:
      options.masks = {&masks.lengths, &masks.documents};
      break;
    default:
      break;
  }
  if (random.chance(0.2)) options.scale = 0.7;
  if (random.chance(0.15)) problem.layer.options.cosine = Cosine{};
  if (random.chance(0.3)) {
    const int64_t keys =
        (sizes.k_len > 0 ? sizes.k_len : sizes.length) + problem.layer.appended_keys();
    bias = normal(DType::f64, {problem.layer.num_heads, sizes.length, keys}, 90, 0.5);
    d_bias = Tensor(DType::f64, bias.dims());
    options.bias = bias.view(), problem.gradients.bias = d_bias.view();
    if (random.chance(0.4)) options.bias_order = BiasOrder::before_scores;
  }
  if (random.chance(0.3)) problem.context.memory = Memory::low;
  problem.training = random.chance(0.7);
}

// One drawn problem; false if its options exclude each other.
bool check_drawn(Random& random, std::map<std::string, int>& drawn) {
  const MultiHeadSizes sizes = drawn_sizes(random);
  const nn::MultiHeadAttentionSpec spec = drawn_spec(sizes, random);
  const uint64_t draw = random.next() % 100000;
  std::string text = "mask " + spec.mask + ", normalizer " + spec.normalizer + ", rotary " +
                     spec.rotary + ", " + spec.relative;
  for (const std::string& score : spec.scores) text += ", " + score;
  SCOPED_TRACE(text + ", draw " + std::to_string(draw) + ", heads " +
               std::to_string(sizes.num_heads) + "/" + std::to_string(spec.num_kv_heads) +
               ", length " + std::to_string(sizes.length) + ", k_len " +
               std::to_string(sizes.k_len));
  try {
    MultiHeadProblem problem(sizes, spec, DType::f64, draw);
    TensorMasks masks(sizes, sizes.k_len > 0 ? sizes.k_len : sizes.length, random);
    Tensor bias, d_bias;
    draw_options(problem, sizes, masks, bias, d_bias, random);
    problem.run_backward();  // throws where options exclude each other
    expect_gradients_of(problem, 6);
    if (bias.defined()) {
      const auto loss = [&] {
        problem.run_forward();
        return dot(problem.y, problem.d_y);
      };
      expect_gradients({{"bias", &bias, &d_bias}}, loss, 6);
    }
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::argument || error.code() == ErrorCode::unsupported ||
                error.code() == ErrorCode::shape)
        << error.what();
    return false;
  }
  ++drawn[spec.normalizer.substr(0, spec.normalizer.find('('))];
  ++drawn[spec.add_bias_kv ? "bias_k" : "no bias_k"];
  ++drawn[sizes.k_len > 0 ? "cross" : "self"];
  return true;
}

TEST(MultiHeadGradients, OfDrawnProblems) {
  Random random(20);
  std::map<std::string, int> drawn;
  int checked = 0;
  for (int i = 0; i < 500; ++i) checked += check_drawn(random, drawn);
  EXPECT_GE(checked, 250);
  for (const char* name : {"bias_k", "cross", "self"}) EXPECT_GE(drawn[name], 20) << name;
}

}  // namespace
