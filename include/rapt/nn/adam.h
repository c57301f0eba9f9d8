#pragma once
// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2), with
// the arithmetic and the defaults of torch.optim.Adam and torch.optim.AdamW:
//
//   Adam:   g = gradient + weight_decay w        AdamW:  w = w - rate weight_decay w
//   m = m + (1 - beta1) (g - m),  v = beta2 v + (1 - beta2) g^2
//   w = w - rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// for update t = 1, 2, ... of a parameter, and rate = learning_rate_scale times what step() is
// given. amsgrad and maximize are not offered.
//
//   auto [weights, others] = split_by_rank(named_parameters(model));
//   AdamW optimizer(std::move(weights), {.weight_decay = 0.1});
//   optimizer.add_group(std::move(others), {.weight_decay = 0});
//   for (int64_t t = 0; t < steps; ++t) {
//     clear_gradients(parameters);
//     ...                                               // forward and backward calls
//     clip_gradients(parameters, 1);                    // clip.h
//     optimizer.step(learning_rate(schedule, t));       // schedule.h
//   }
//
// m and v have the dtype of the gradient. A parameter in bf16 or f16 has an f32 copy besides, which
// is updated and rounded to the parameter. Where a parameter is no longer the rounding of its copy,
// because it was initialised or loaded since, the step begins at the parameter.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rapt/context.h"
#include "rapt/nn/parameter.h"
#include "rapt/nn/state_dict.h"

namespace rapt::nn {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;  // 0 <= beta < 1
  double eps = 1e-8;                  // 0: an element whose gradients were all 0 becomes NaN
  double weight_decay = 0;            // adds weight_decay w to the gradient
  double learning_rate_scale = 1;     // of this group, times what step() is given
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // decoupled: takes rate weight_decay w from the parameter
  double learning_rate_scale = 1;
};

class Adam {
 public:
  Adam() = default;  // add_group() adds the parameters

  // Parameters and layers must stay where they are while the optimiser lives. Parameters that are
  // frozen now are left out. Allocates the state, zeros.
  //
  // Throws Error(argument) for options that are out of range or not finite, for a parameter that
  // the optimiser has already, and for a name that two parameters share; Error(dtype, shape) for a
  // parameter or a gradient that is not as parameter.h says; std::bad_alloc.
  explicit Adam(std::vector<NamedParameter> parameters, const AdamOptions& options = {});
  // Parameters are named by their place, as in torch.optim: "0", "1", ...
  explicit Adam(std::span<Parameter* const> parameters, const AdamOptions& options = {});

  // Adds parameters with options of their own. Throws as the constructor, and changes nothing then.
  void add_group(std::vector<NamedParameter> parameters, const AdamOptions& options = {});

  // Updates all parameters that are not frozen. The default is PyTorch's. Gradients stay as they
  // are; clear_gradients() clears them. Results have the same bits for any executor and number of
  // threads. Allocates nothing.
  //
  // Throws before anything is written: Error(argument) for a learning rate that is negative or not
  // finite, Error(shape, dtype) for a parameter that has changed, Error(cancelled). A cancelled
  // token does not stop a step that has begun.
  void step(double learning_rate = 1e-3, const Context& context = {});

  // What a checkpoint needs beside the parameters, by name, writable: for the parameter "weight"
  // "weight.step" (i64, []), "weight.exp_avg" (m) and "weight.exp_avg_sq" (v), and
  // "weight.master" of a parameter in bf16 or f16. load_tensors() (state_dict.h) writes it back.
  std::vector<NamedView> state();

 protected:
  // AdamW: weight decay acts on the parameter.
  explicit Adam(bool decoupled) noexcept : decoupled_(decoupled) {}

 private:
  struct Slot {  // a parameter and its state
    std::string name;
    Parameter* parameter;
    AdamOptions options;
    DType dtype;  // of the parameter
    // m, v, the f32 copy if there is one, t.
    Tensor first = {}, second = {}, master = {}, steps = {};
  };

  static Slot make_slot(NamedParameter parameter, const AdamOptions& options);
  static void check_slot(const Slot& slot);
  void check_unique(const std::vector<Slot>& more) const;
  void update(Slot& slot, double learning_rate, int64_t begin, int64_t end) const;

  bool decoupled_ = false;
  std::vector<Slot> slots_;
};

class AdamW : public Adam {
 public:
  // As Adam.
  AdamW() noexcept : Adam(true) {}
  explicit AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options = {});
  explicit AdamW(std::span<Parameter* const> parameters, const AdamWOptions& options = {});

  void add_group(std::vector<NamedParameter> parameters, const AdamWOptions& options = {});
};

// The usual groups: weight decay is for `weights`, of rank 2 and more, and not for `others`, which
// are biases and the weights of norms.
struct SplitParameters {
  std::vector<NamedParameter> weights, others;
};
SplitParameters split_by_rank(std::vector<NamedParameter> parameters);

}  // namespace rapt::nn
