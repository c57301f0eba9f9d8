#pragma once
// Gradients of layers against central differences in f64.
//
// A test states a scalar loss of some tensors and their gradients. Each drawn element x is moved,
// and (8 (l(x + h) - l(x - h)) - (l(x + 2h) - l(x - 2h))) / 12h, whose error is of the order h^4,
// is compared with the gradient.
#include <functional>
#include <string>
#include <vector>

#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace nn_tests {

struct Checked {
  std::string name;
  rapt::Tensor* value;           // f64, dense
  const rapt::Tensor* gradient;  // the same shape
};

// Appends the parameters of a layer that learn.
template <class Layer>
void add_parameters(Layer& layer, std::vector<Checked>& checked) {
  rapt::nn::visit(layer, [&](const std::string& name, rapt::nn::Parameter& p) {
    if (p.learns()) checked.push_back({name, &p.value, &p.gradient});
  });
}

// Expects that the gradients of up to `most` drawn elements of each tensor are those of `loss`,
// relative to the largest gradient of the tensor.
void expect_gradients(const std::vector<Checked>& checked, const std::function<double()>& loss,
                      int most = 24, double tolerance = 1e-7);

// Normal numbers, the same on every machine, as a new tensor or into one of any floating-point
// type.
rapt::Tensor normal(rapt::DType dtype, std::vector<int64_t> shape, uint64_t seed,
                    double spread = 1);
void fill_normal(rapt::Tensor& tensor, uint64_t seed, double spread = 1);
// Draws all parameters of a layer, each with a seed of its own.
template <class Layer>
void draw_parameters(Layer& layer, uint64_t seed, double spread = 0.5) {
  rapt::nn::visit(layer, [&](const std::string&, rapt::nn::Parameter& p) {
    fill_normal(p.value, ++seed, spread);
  });
}

// The sum of a b, of two tensors of one dtype and shape.
double dot(const rapt::Tensor& a, const rapt::Tensor& b);

// Calls f(states, run) twice: once to count the memory of states and scratch, once with exactly so
// much. Returns nothing; what f computes with the second arena lives in tensors of the test.
struct Counted {
  rapt::Context context = {};
  bool training = false;
  uint64_t seed = 0;

  template <class Function>
  void operator()(const Function& f) const {
    rapt::nn::Arena states, scratch;
    f(states,
      rapt::nn::Run{.scratch = scratch, .context = context, .training = training, .seed = seed});
    std::vector<std::byte> state_memory(states.bytes()), scratch_memory(scratch.bytes());
    rapt::nn::Arena kept(state_memory), temporary(scratch_memory);
    f(kept,
      rapt::nn::Run{.scratch = temporary, .context = context, .training = training, .seed = seed});
  }
};

}  // namespace nn_tests
