#pragma once
// A multi-head layer with inputs of one call, as tests draw it.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check/tensors/random.h"
#include "nn/gradient_check.h"
#include "rapt/mask/boolean.h"
#include "rapt/nn/multi_head_attention.h"

namespace nn_tests {

struct MultiHeadSizes {
  std::vector<int64_t> leading = {};
  int64_t length = 3, k_len = 0;  // k_len 0: self-attention
  int64_t embed_dim = 4, num_heads = 2;
  bool value_apart = false;
};

class MultiHeadProblem {
 public:
  rapt::nn::MultiHeadAttention layer;
  rapt::nn::MultiHeadCall call;
  rapt::Tensor x, key_value, value, y, d_y;  // key_value, value: undefined if there is none
  rapt::Tensor d_x, d_key_value, d_value;
  rapt::Context context = {};
  bool training = false;
  uint64_t seed = 7;
  rapt::nn::MultiHeadGradients gradients;

  MultiHeadProblem(const MultiHeadSizes& sizes, const rapt::nn::MultiHeadAttentionSpec& spec,
                   rapt::DType dtype, uint64_t draw)
      : layer(rapt::nn::make_multi_head_attention(sizes.embed_dim, sizes.num_heads, spec, dtype)) {
    const auto shape = [&](int64_t length, int64_t columns) {
      std::vector<int64_t> s = sizes.leading;
      s.push_back(length), s.push_back(columns);
      return s;
    };
    draw_projections(draw);
    const auto x_shape = shape(sizes.length, sizes.embed_dim);
    x = normal(dtype, x_shape, draw + 101), d_y = normal(dtype, x_shape, draw + 102);
    y = normal(dtype, x_shape, draw + 103), d_x = normal(dtype, x_shape, draw + 104);
    if (sizes.k_len == 0) return;
    const auto take = [&](int64_t columns, uint64_t at, rapt::Tensor& input, rapt::Tensor& d) {
      input = normal(dtype, shape(sizes.k_len, columns), draw + at);
      d = normal(dtype, shape(sizes.k_len, columns), draw + at + 1);
    };
    take(layer.kdim, 105, key_value, d_key_value);
    call.key_value = key_value.view(), gradients.key_value = d_key_value.view();
    if (!sizes.value_apart) return;
    take(layer.vdim, 107, value, d_value);
    call.value = value.view(), gradients.value = d_value.view();
  }
  MultiHeadProblem(const MultiHeadProblem&) = delete;
  MultiHeadProblem& operator=(const MultiHeadProblem&) = delete;

  rapt::nn::MultiHeadAttention::State state(rapt::nn::Arena& arena) const {
    return make_state(layer, x.dims(), arena, call.key_value.dims());
  }
  // Writes y.
  void run_forward() {
    in_memory([&](rapt::nn::Arena& states, const rapt::nn::Run& run) {
      forward(layer, x, y, state(states), run, call);
    });
  }
  // Writes y and all gradients; those of parameters begin at 0.
  void run_backward(bool add = false) {
    const auto parameters = rapt::nn::parameters_of(layer);
    rapt::nn::clear_gradients(parameters);
    in_memory([&](rapt::nn::Arena& states, const rapt::nn::Run& run) {
      const auto kept = state(states);
      forward(layer, x, y, kept, run, call);
      backward(layer, x, d_y, kept, d_x, run, add, call, gradients);
    });
  }
  template <class Function>
  void in_memory(const Function& f) const {
    Counted{.context = context, .training = training, .seed = seed}(f);
  }
  // All inputs and parameters with their gradients.
  std::vector<Checked> checked() {
    std::vector<Checked> all{{"x", &x, &d_x}};
    if (key_value.defined()) all.push_back({"key_value", &key_value, &d_key_value});
    if (value.defined()) all.push_back({"value", &value, &d_value});
    add_parameters(layer, all);
    return all;
  }

 private:
  // Learned tensors keep their places: a factor stays away from 0, an alpha in its range.
  void draw_projections(uint64_t draw) {
    uint64_t at = draw;
    rapt::nn::visit(layer, [&](const std::string& name, rapt::nn::Parameter& p) {
      const bool numbers = name.starts_with("scores.") || name.starts_with("normalizer.");
      rapt::Tensor noise = normal(rapt::DType::f64, {p.value.count()}, ++at, numbers ? 0.05 : 0.6);
      if (numbers)
        move_numbers(p.value, noise);
      else
        fill_normal(p.value, at, 0.6);
    });
  }
  static void move_numbers(rapt::Tensor& value, const rapt::Tensor& noise) {
    for (int64_t i = 0; i < value.count(); ++i) {
      const double by = noise.values<double>()[static_cast<size_t>(i)];
      if (value.dtype() == rapt::DType::f64)
        value.values<double>()[static_cast<size_t>(i)] += by;
      else
        value.values<float>()[static_cast<size_t>(i)] += static_cast<float>(by);
    }
  }
};

}  // namespace nn_tests
