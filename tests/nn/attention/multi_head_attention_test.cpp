// What a multi-head layer computes beside attention: names, masks, captures, dropout, biases of
// keys, precision, frozen parameters.
#include "rapt/nn/multi_head_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "nn/attention/multi_head_problem.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "rapt/nn/init.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

std::vector<std::string> names_of(const nn::MultiHeadAttention& layer) {
  std::vector<std::string> names;
  nn::visit(layer, [&](const std::string& name, const nn::Parameter& p) {
    names.push_back(name + " " + to_string(p.value.dims()));
  });
  return names;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double d = a.dtype() == DType::f64
                         ? std::abs(a.values<double>()[at] - b.values<double>()[at])
                         : std::abs(double{a.values<float>()[at]} - double{b.values<float>()[at]});
    most = d <= most ? most : d;
  }
  return most;
}

bool same_bytes(const TensorView& a, const TensorView& b) {
  return a.count() == b.count() && a.dtype == b.dtype &&
         std::memcmp(a.data, b.data, static_cast<size_t>(a.count() * size_of(a.dtype))) == 0;
}

TEST(MultiHeadAttention, HasTheNamesOfPyTorch) {
  const std::vector<std::string> joint = {"in_proj_weight [12, 4]", "in_proj_bias [12]",
                                          "bias_k [1, 1, 4]",       "bias_v [1, 1, 4]",
                                          "out_proj.weight [4, 4]", "out_proj.bias [4]"};
  EXPECT_EQ(names_of(nn::make_multi_head_attention(4, 2, {.add_bias_kv = true})), joint);
  const std::vector<std::string> apart = {"q_proj_weight [4, 4]", "k_proj_weight [4, 3]",
                                          "v_proj_weight [4, 5]", "out_proj.weight [4, 4]"};
  EXPECT_EQ(names_of(nn::make_multi_head_attention(4, 2, {.kdim = 3, .vdim = 5, .bias = false})),
            apart);
  const std::vector<std::string> grouped = {"in_proj_weight [32, 6]", "in_proj_bias [32]",
                                            "out_proj.weight [6, 16]", "out_proj.bias [6]"};
  EXPECT_EQ(names_of(nn::make_multi_head_attention(6, 4, {.num_kv_heads = 2, .head_dim = 4})),
            grouped);
}

TEST(MultiHeadAttention, LearnedTensorsHaveNamesAndFirstValues) {
  const nn::MultiHeadAttention layer = nn::make_multi_head_attention(
      4, 2,
      {.bias = false,
       .scores = {"alibi(slopes=learned)", "t5_bias(shared[8])", "head_scale(learned)"},
       .normalizer = "entmax(alphas=learned)",
       .relative = "relative(key_rows=learned[5], value_rows=shared[5], content_bias=learned)"},
      DType::bf16);
  const std::vector<std::string> names = {
      "in_proj_weight [12, 4]",      "out_proj.weight [4, 4]",
      "scores.0.slopes [2]",         "scores.1.table [1, 8]",
      "scores.2.scales [2]",         "normalizer.alphas [2]",
      "relative.key_rows [2, 5, 2]", "relative.value_rows [1, 5, 2]",
      "relative.content_bias [2, 2]"};
  EXPECT_EQ(names_of(layer), names);
  EXPECT_EQ(layer.learned[0].parameter.value.values<float>()[1], 0x1p-8f);
  EXPECT_EQ(layer.learned[1].parameter.value.values<float>()[7], 0.0f);
  EXPECT_EQ(layer.learned[2].parameter.value.values<float>()[1], 1.0f);
  EXPECT_EQ(layer.learned[3].parameter.value.values<float>()[0], 1.5f);
  EXPECT_EQ(layer.learned[4].parameter.value.dtype(), DType::bf16);
}

// PyTorch's first values: Xavier's bounds for the projections, biases of 0.
TEST(MultiHeadAttention, IsInitializedAsPyTorchDoes) {
  nn::MultiHeadAttention layer = nn::make_multi_head_attention(
      64, 4, {.add_bias_kv = true, .scores = {"head_scale(learned)"}}, DType::f64);
  nn::initialize(layer, 1);
  const auto largest = [](const Tensor& t) {
    double most = 0;
    for (const double v : t.values<double>()) most = std::max(most, std::abs(v));
    return most;
  };
  const double bound = std::sqrt(6.0 / (64 + 192));
  EXPECT_LE(largest(layer.in_proj_weight.value), bound);
  EXPECT_GT(largest(layer.in_proj_weight.value), 0.99 * bound);
  EXPECT_LE(largest(layer.out_proj.weight.value), 0.125);
  EXPECT_GT(largest(layer.out_proj.weight.value), 0.99 * 0.125);
  EXPECT_EQ(largest(layer.in_proj_bias.value), 0);
  EXPECT_EQ(largest(layer.out_proj.bias.value), 0);
  EXPECT_GT(largest(layer.bias_k.value), 0.125);
  EXPECT_LT(largest(layer.bias_k.value), 0.6);
  EXPECT_EQ(layer.learned[0].parameter.value.values<double>()[3], 1);
}

// A learned scale per head, made of objects.
TEST(MultiHeadAttention, AnObjectsTensorIsLearnedToo) {
  MultiHeadProblem problem({.leading = {2}, .length = 4, .embed_dim = 6, .num_heads = 3}, {},
                           DType::f64, 1);
  problem.layer.learned.push_back({"scale", nn::make_parameter(DType::f64, {3})});
  Tensor& values = problem.layer.learned.back().parameter.value;
  values.values<double>()[0] = 0.5, values.values<double>()[1] = 2, values.values<double>()[2] = -1;
  const HeadScale scale(values.view());
  problem.call.options.scores = {scale};
  problem.run_backward();
  const std::vector<Checked> checked = problem.checked();
  ASSERT_EQ(checked.back().name, "scale");
  expect_gradients(checked, [&] {
    problem.run_forward();
    return dot(problem.y, problem.d_y);
  });
}

// A layer may be moved: what options refer to stays where it is.
TEST(MultiHeadAttention, CanBeMoved) {
  const nn::MultiHeadAttentionSpec spec{.mask = "causal & window(2,0)",
                                        .scores = {"head_scale(learned)", "softcap(3)"},
                                        .normalizer = "softmax_with_sink(learned)",
                                        .rotary = "rotary"};
  MultiHeadProblem problem({.leading = {2}, .length = 5, .embed_dim = 8}, spec, DType::f32, 3);
  problem.run_backward();
  const Tensor expected = Tensor::copy_of(problem.y.view()),
               d_x = Tensor::copy_of(problem.d_x.view());
  nn::MultiHeadAttention moved = std::move(problem.layer);
  problem.layer = std::move(moved);
  problem.run_backward();
  EXPECT_TRUE(same_bytes(problem.y.view(), expected.view()));
  EXPECT_TRUE(same_bytes(problem.d_x.view(), d_x.view()));
}

TEST(MultiHeadAttention, AQueryThatAttendsToNothingGivesTheBias) {
  MultiHeadProblem problem({.leading = {2}, .length = 3, .embed_dim = 6, .num_heads = 3}, {},
                           DType::f64, 2);
  int64_t counts[] = {3, 0};
  const Lengths lengths(TensorView(counts, {2}));
  problem.call.options.masks = {&lengths};
  problem.run_backward();
  for (size_t i = 18; i < 36; ++i)
    EXPECT_EQ(problem.y.values<double>()[i],
              problem.layer.out_proj.bias.value.values<double>()[i % 6]);
  for (size_t i = 18; i < 36; ++i) EXPECT_EQ(problem.d_x.values<double>()[i], 0);
}

TEST(MultiHeadAttention, AMaskedNaNReachesNoOutput) {
  MultiHeadProblem problem({.leading = {}, .length = 4, .k_len = 5, .embed_dim = 8}, {}, DType::f32,
                           4);
  int64_t counts[] = {3};
  const Lengths lengths(TensorView(counts, {1}));
  problem.call.options.masks = {&lengths};
  problem.run_forward();
  const Tensor expected = Tensor::copy_of(problem.y.view());
  for (size_t i = 24; i < 40; ++i) problem.key_value.values<float>()[i] = NAN;
  problem.run_forward();
  EXPECT_TRUE(same_bytes(problem.y.view(), expected.view()));
}

// Attention itself over the projections of a state.
struct Attended {
  Tensor projections, output;
  AttentionResult result;

  Attended(const MultiHeadProblem& problem, const AttentionOptions& options) {
    const nn::MultiHeadAttention& layer = problem.layer;
    problem.in_memory([&](nn::Arena& states, const nn::Run& run) {
      const auto state = problem.state(states);
      forward(layer, problem.x, const_cast<Tensor&>(problem.y), state, run);
      if (run.counts()) return;
      projections = Tensor::copy_of(state.projections);
      output = Tensor::copy_of(state.attention);
    });
    const auto part = [&](int64_t begin, int64_t heads) {
      return split_heads(projections.view().slice(-1, begin, begin + heads * layer.head_dim),
                         heads);
    };
    result = scaled_dot_product_attention(
        part(0, layer.num_heads), part(layer.inner(), layer.num_kv_heads),
        part(layer.inner() + layer.kv(), layer.num_kv_heads), options);
  }
};

TEST(MultiHeadAttention, ReturnsCapturesOfChosenHeads) {
  MultiHeadProblem problem({.leading = {2}, .length = 9, .embed_dim = 12, .num_heads = 4},
                           {.num_kv_heads = 2, .mask = "causal"}, DType::f32, 5);
  const int64_t heads[] = {5, 2};
  AttentionOptions& options = problem.call.options;
  options.weights = WeightsRequest{.row_begin = 2, .heads = heads};
  options.map = MapRequest{.rows = 3, .columns = 2};
  options.top_k = 2;
  options.entropy = options.received = true;
  AttentionOptions all = options;
  const Causal causal;
  all.masks = {&causal};
  const Attended expected(problem, all);
  Tensor weights(DType::f32, {2, 7, 9}), map(DType::f32, {2, 4, 3, 2});
  Tensor top_keys(DType::i64, {2, 4, 9, 2}), top_weights(DType::f32, {2, 4, 9, 2});
  Tensor entropy(DType::f32, {2, 4, 9}), received(DType::f32, {2, 4, 9});
  nn::MultiHeadCall& call = problem.call;
  call.weights = weights, call.map = map, call.top_keys = top_keys, call.top_weights = top_weights;
  call.entropy = entropy, call.received = received;
  problem.run_backward();
  EXPECT_TRUE(same_bytes(weights.view(), expected.result.weights.view()));
  EXPECT_TRUE(same_bytes(map.view(), expected.result.map.view()));
  EXPECT_TRUE(same_bytes(top_keys.view(), expected.result.top_keys.view()));
  EXPECT_TRUE(same_bytes(top_weights.view(), expected.result.top_weights.view()));
  EXPECT_TRUE(same_bytes(entropy.view(), expected.result.entropy.view()));
  EXPECT_TRUE(same_bytes(received.view(), expected.result.received.view()));
  options.add_received = true;  // of the same call to the sums of the first one
  problem.run_forward();
  const std::span<const float> once = expected.result.received.values<float>();
  const std::span<const float> twice = received.values<float>();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FLOAT_EQ(twice[i], 2 * once[i]) << i;
}

TEST(MultiHeadAttention, DropsWeightsInTrainingOnly) {
  MultiHeadProblem problem({.leading = {2}, .length = 8, .embed_dim = 12, .num_heads = 4},
                           {.dropout = 0.4, .dropout_stream = 3}, DType::f64, 6);
  const auto run = [&](bool training, uint64_t seed, uint64_t stream) {
    problem.training = training, problem.seed = seed, problem.layer.dropout_stream = stream;
    problem.run_forward();
    return Tensor::copy_of(problem.y.view());
  };
  const Tensor plain = run(false, 1, 3), dropped = run(true, 1, 3);
  EXPECT_TRUE(same_bytes(plain.view(), run(false, 2, 3).view()));
  EXPECT_TRUE(same_bytes(dropped.view(), run(true, 1, 3).view()));
  EXPECT_GT(largest_difference(dropped, plain), 1e-3);
  EXPECT_GT(largest_difference(dropped, run(true, 2, 3)), 1e-3);
  EXPECT_GT(largest_difference(dropped, run(true, 1, 4)), 1e-3);
  // The pairs are those that attention drops with this seed.
  problem.seed = 1, problem.layer.dropout_stream = 3;
  Attended expected(problem, {.dropout = {0.4, nn::stream_seed(1, 3)}});
  const TensorView output = expected.result.output.view();
  Tensor joined(DType::f64, {2, 8, 12});
  for (size_t i = 0; i < 192; ++i) {
    const size_t b = i / 96, n = i / 12 % 8, h = i % 12 / 3, d = i % 3;
    joined.values<double>()[i] =
        static_cast<const double*>(output.data)[((b * 4 + h) * 8 + n) * 3 + d];
  }
  EXPECT_TRUE(same_bytes(joined.view(), expected.output.view()));
}

TEST(MultiHeadAttention, AddsWhereAsked) {
  MultiHeadProblem problem({.leading = {2}, .length = 4, .embed_dim = 6}, {}, DType::f64, 8);
  problem.run_backward();
  const Tensor y = Tensor::copy_of(problem.y.view()), d_x = Tensor::copy_of(problem.d_x.view());
  fill_normal(problem.y, 1), fill_normal(problem.d_x, 2);
  const Tensor y_before = Tensor::copy_of(problem.y.view());
  const Tensor d_before = Tensor::copy_of(problem.d_x.view());
  problem.call.add = true;
  problem.run_backward(true);
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_NEAR(problem.y.values<double>()[i], y.values<double>()[i] + y_before.values<double>()[i],
                1e-13);
    EXPECT_NEAR(problem.d_x.values<double>()[i],
                d_x.values<double>()[i] + d_before.values<double>()[i], 1e-13);
  }
}

// bias_k under masks, at lengths of several tiles and blocks: the same as a bias of -inf
// for the pairs that the mask excludes.
TEST(MultiHeadAttention, NoMaskExcludesTheAppendedKey) {
  const int64_t length = 200, k_len = 230;
  for (const char* text : {"causal", "window(3,1)", "prefix(7)", "!causal",
                           "window(0,0) | prefix(2)", "causal(bottom-right) & !prefix(100)"}) {
    SCOPED_TRACE(text);
    const nn::MultiHeadAttentionSpec plain{.add_bias_kv = true};
    nn::MultiHeadAttentionSpec masked = plain;
    masked.mask = text;
    const MultiHeadSizes sizes{.leading = {2}, .length = length, .k_len = k_len, .embed_dim = 8};
    MultiHeadProblem a(sizes, masked, DType::f64, 9), b(sizes, plain, DType::f64, 9);
    Tensor allowed(DType::boolean, {length, k_len + 1});
    const std::unique_ptr<Mask> mask = make_mask(text);
    const int64_t index[] = {0, 0}, leading[] = {2, 2};
    std::vector<BoundMask> slots(static_cast<size_t>(mask->bound_slots()));
    slots[0] = {mask.get(), nullptr, {}, length, k_len};
    mask->bind({index, 2, length, k_len, leading}, slots.data());
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j <= k_len; ++j) {
        uint64_t bits = 1;
        const Positions query{i, 1, 1}, key{j, 1, 1};
        if (j < k_len) {
          const Cover cover = mask->cover(slots[0], query, key);
          if (cover == Cover::some) mask->exclude(slots[0], query, key, &bits);
          if (cover == Cover::none) bits = 0;
        }
        allowed.values<bool>()[static_cast<size_t>(i * (k_len + 1) + j)] = bits & 1;
      }
    Tensor column(DType::f64, {length, k_len + 1});
    for (int64_t i = 0; i < column.count(); ++i)
      column.values<double>()[static_cast<size_t>(i)] =
          allowed.values<bool>()[static_cast<size_t>(i)] ? 0.0 : -INFINITY;
    b.call.options.bias = column.view();
    a.run_backward(), b.run_backward();
    EXPECT_LT(largest_difference(a.y, b.y), 1e-13);
    EXPECT_LT(largest_difference(a.d_x, b.d_x), 1e-12);
    EXPECT_LT(largest_difference(a.layer.bias_v.gradient, b.layer.bias_v.gradient), 1e-11);
  }
}

// 16-bit layers: near the f32 layer of the same numbers, and d_x rounded once.
TEST(MultiHeadAttention, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const nn::MultiHeadAttentionSpec spec{
        .num_kv_heads = 2, .mask = "causal", .scores = {"head_scale(learned)"}};
    const MultiHeadSizes sizes{.leading = {2}, .length = 33, .embed_dim = 32, .num_heads = 4};
    MultiHeadProblem small(sizes, spec, dtype, 10), wide(sizes, spec, DType::f32, 10);
    small.layer.options.precision = Precision::fma;
    const auto widen = [](const Tensor& from, Tensor& to) {
      for (int64_t i = 0; i < from.count(); ++i) {
        const auto at = static_cast<size_t>(i);
        to.values<float>()[at] = from.dtype() == DType::f32    ? from.values<float>()[at]
                                 : from.dtype() == DType::bf16 ? float{from.values<BFloat16>()[at]}
                                                               : float{from.values<Float16>()[at]};
      }
    };
    const auto from = nn::parameters_of(small.layer), to = nn::parameters_of(wide.layer);
    for (size_t i = 0; i < from.size(); ++i) widen(from[i]->value, to[i]->value);
    fill_normal(small.x, 12, 0.2);
    widen(small.x, wide.x), widen(small.d_y, wide.d_y);
    small.run_backward(), wide.run_backward();
    Tensor y(DType::f32, small.y.dims()), d_x(DType::f32, small.y.dims());
    widen(small.y, y), widen(small.d_x, d_x);
    const double step = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const auto largest = [](const Tensor& t) {
      double most = 0;
      for (const float v : t.values<float>()) most = std::max(most, std::abs(double{v}));
      return most;
    };
    EXPECT_LT(largest_difference(y, wide.y), 4 * step * largest(wide.y));
    EXPECT_LT(largest_difference(d_x, wide.d_x), 4 * step * largest(wide.d_x));
    for (size_t i = 0; i < from.size(); ++i)
      EXPECT_LT(largest_difference(from[i]->gradient, to[i]->gradient),
                6 * step * largest(to[i]->gradient))
          << i;
    const Tensor alone = Tensor::copy_of(d_x.view()), before = normal(dtype, {2, 33, 32}, 13, 20);
    Tensor expected(DType::f32, d_x.dims());
    widen(before, expected);
    for (size_t i = 0; i < 2 * 33 * 32; ++i)
      expected.values<float>()[i] += alone.values<float>()[i];
    fill_normal(small.d_x, 13, 20);
    small.run_backward(true);
    widen(small.d_x, d_x);
    EXPECT_LT(largest_difference(d_x, expected), 2 * step * largest(expected));
  }
}

TEST(MultiHeadAttention, FrozenParametersAndAbsentGradientsAreSkipped) {
  const MultiHeadSizes sizes{.leading = {2}, .length = 4, .k_len = 3, .embed_dim = 6};
  MultiHeadProblem all(sizes, {}, DType::f64, 11), some(sizes, {}, DType::f64, 11);
  all.run_backward();
  nn::freeze(some.layer);
  some.gradients = {};
  some.run_backward();
  EXPECT_TRUE(same_bytes(some.d_x.view(), all.d_x.view()));
  // Only a value of the output projection: nothing of attention is needed.
  MultiHeadProblem none(sizes, {}, DType::f64, 11);
  none.layer.in_proj_weight.gradient = {}, none.layer.in_proj_bias.gradient = {};
  none.gradients = {};
  none.in_memory([&](nn::Arena& states, const nn::Run& run) {
    const auto state = none.state(states);
    forward(none.layer, none.x, none.y, state, run, none.call);
    backward(none.layer, none.x, none.d_y, state, {}, run, false, none.call);
  });
  EXPECT_TRUE(same_bytes(none.layer.out_proj.weight.gradient.view(),
                         all.layer.out_proj.weight.gradient.view()));
}

TEST(MultiHeadAttention, AReplacedLearnedTensorIsFound) {
  MultiHeadProblem problem({}, {.scores = {"head_scale(learned)"}}, DType::f32, 1);
  Tensor kept = std::move(problem.layer.learned[0].parameter.value);
  problem.layer.learned[0].parameter.value = Tensor::copy_of(kept.view());
  expect_error(ErrorCode::argument, {"scores.0.scales", "replaced"},
               [&] { problem.run_forward(); });
}

}  // namespace
