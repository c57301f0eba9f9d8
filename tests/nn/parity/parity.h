#pragma once
// Layers beside PyTorch: nn_parity KIND FILE.safetensors.
//
// The file holds what PyTorch computed: inputs ("x", ...), gradients of outputs ("d_y"), parameters
// ("p.weight"), outputs ("y"), gradients ("d_x", "g.weight"), and numbers of the layer as tensors
// with one element ("n.num_heads"). A case computes outputs and gradients with rapt, and the
// program compares each with the one of the same name.
#include <map>
#include <string>
#include <vector>

#include "rapt/nn/parameter.h"
#include "rapt/nn/run.h"

namespace parity {

class Given {
 public:
  explicit Given(const std::string& path);

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // A dense copy in f32 or f64 (integers as i64). Throws rapt::Error if it is not there.
  rapt::Tensor tensor(const std::string& name) const;
  double number(const std::string& name) const;  // of "n." + name
  rapt::DType dtype() const;                     // of "x"

  // Compares with the tensor of that name: the largest difference over the largest element.
  // Remembers failures; prints a line.
  void compare(const std::string& name, const rapt::TensorView& found);

  // Loads "p." + name into every parameter; compares every gradient with "g." + name.
  template <class Layer>
  void load(Layer& layer) const {
    rapt::nn::visit(layer,
                    [&](const std::string& name, rapt::nn::Parameter& p) { load_one(name, p); });
  }
  template <class Layer>
  void compare_gradients(Layer& layer) {
    rapt::nn::visit(layer, [&](const std::string& name, rapt::nn::Parameter& p) {
      if (p.learns() && has("g." + name)) compare("g." + name, p.gradient.view());
    });
  }

  bool all_equal() const { return failures_ == 0 && compared_ > 0; }

 private:
  void load_one(const std::string& name, rapt::nn::Parameter& p) const;

  std::map<std::string, rapt::Tensor> tensors_;
  int failures_ = 0, compared_ = 0;
};

using Case = void (*)(Given& given);
// The cases, each in a file of its own.
void adam(Given& given);
void conformer_layer(Given& given);
void conv1d(Given& given);
void cross_entropy(Given& given);
void decoder_layer(Given& given);
void embedding(Given& given);
void encoder_decoder(Given& given);
void encoder_layer(Given& given);
void gated(Given& given);
void glu(Given& given);
void gru(Given& given);
void layer_norm(Given& given);
void linear(Given& given);
void linear_cross_entropy(Given& given);
void mean_squared_error(Given& given);
void multi_head_attention(Given& given);
void patches(Given& given);
void rms_norm(Given& given);

// Memory for states and scratch of one forward and backward call: calls f(states, run) once to
// count and once to compute.
template <class Function>
void run(const Function& f, bool training = false) {
  const rapt::Context context;
  rapt::nn::Arena states, scratch;
  f(states, rapt::nn::Run{.scratch = scratch, .context = context, .training = training});
  std::vector<std::byte> state_memory(states.bytes()), scratch_memory(scratch.bytes());
  rapt::nn::Arena kept(state_memory), temporary(scratch_memory);
  f(kept, rapt::nn::Run{.scratch = temporary, .context = context, .training = training});
}

}  // namespace parity
