// Norms of each head's query and key in multi-head attention.
#include <gtest/gtest.h>

#include <cstring>

#include "nn/gradient_check.h"
#include "rapt/nn/multi_head_attention.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

struct HeadNormProblem {
  nn::MultiHeadAttention layer;
  Tensor x, key_value, y, d_y, d_x, d_key_value;
  bool cross;

  HeadNormProblem(bool is_cross, const nn::MultiHeadAttentionSpec& spec)
      : layer(make_multi_head_attention(6, 4, spec, DType::f64)),
        x(normal(DType::f64, {2, 5, 6}, 1)),
        key_value(normal(DType::f64, {2, 3, 6}, 2)),
        y(DType::f64, {2, 5, 6}),
        d_y(normal(DType::f64, {2, 5, 6}, 3)),
        d_x(DType::f64, {2, 5, 6}),
        d_key_value(DType::f64, {2, 3, 6}),
        cross(is_cross) {
    draw_parameters(layer, 10);
  }
  void run(bool with_backward, bool with_d_x = true) {
    Counted{}([&](nn::Arena& states, const nn::Run& run) {
      nn::MultiHeadCall call;
      nn::MultiHeadGradients gradients;
      if (cross) call.key_value = key_value, gradients.key_value = d_key_value;
      const auto state = make_state(layer, x.dims(), states, cross ? key_value.dims() : Shape());
      forward(layer, x, y, state, run, call);
      if (with_backward)
        backward(layer, x, d_y, state, with_d_x ? d_x.view() : TensorView(), run, false, call,
                 gradients);
    });
  }
};

nn::MultiHeadAttentionSpec head_norm_spec() {
  return {.num_kv_heads = 2, .head_dim = 4, .qk_norm = true, .rotary = "rotary"};
}

TEST(HeadNorms, GradientsAreCentralDifferences) {
  for (const bool cross : {false, true}) {
    HeadNormProblem p(cross, head_norm_spec());
    p.run(true);
    std::vector<Checked> checked{{"x", &p.x, &p.d_x}};
    if (cross) checked.push_back({"key_value", &p.key_value, &p.d_key_value});
    add_parameters(p.layer, checked);
    expect_gradients(
        checked,
        [&] {
          p.run(false);
          return dot(p.y, p.d_y);
        },
        8);
  }
}

TEST(HeadNorms, LearnBesideFrozenProjections) {
  HeadNormProblem all(false, head_norm_spec()), alone(false, head_norm_spec());
  all.run(true);
  alone.layer.in_proj_weight.gradient = {}, alone.layer.in_proj_bias.gradient = {};
  alone.run(true, false);
  for (const auto norm : {&nn::MultiHeadAttention::q_norm, &nn::MultiHeadAttention::k_norm}) {
    const Tensor &a = (all.layer.*norm)->weight.gradient, &b = (alone.layer.*norm)->weight.gradient;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.count()) * 8), 0);
  }
}

TEST(HeadNorms, RunInEachDtype) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    nn::MultiHeadAttention layer = make_multi_head_attention(6, 4, head_norm_spec(), dtype);
    draw_parameters(layer, 10);
    const Tensor x = normal(dtype, {2, 5, 6}, 1), d_y = normal(dtype, {2, 5, 6}, 3);
    Tensor y(dtype, {2, 5, 6}), d_x(dtype, {2, 5, 6});
    Counted{}([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(layer, x.dims(), states);
      forward(layer, x, y, state, run);
      backward(layer, x, d_y, state, d_x, run);
    });
    EXPECT_GT(dot(d_x, d_x), 0);
    EXPECT_GT(dot(layer.q_norm->weight.gradient, layer.q_norm->weight.gradient), 0);
  }
}

TEST(HeadNorms, RejectAnAppendedKey) {
  nn::MultiHeadAttentionSpec spec = head_norm_spec();
  spec.add_bias_kv = true;
  expect_error(ErrorCode::argument, {"qk_norm beside add_bias_kv"},
               [&] { make_multi_head_attention(6, 4, spec); });
}

}  // namespace
