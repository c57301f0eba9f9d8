#pragma once
// Learned parameters of layers, and how to go through them.
//
// A layer is a struct of parameters and numbers. `members(layer, f)` names each parameter and each
// layer in it once; visit(), and with it saving, counting, optimisers and gradient checks, follow
// from that. Names are those of PyTorch's state dicts.
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rapt/tensor.h"

namespace rapt::nn {

// The rule by which initialize() (init.h) draws a parameter. make_<layer>() states it where the
// shape does not say it.
struct Init {
  // How numbers are drawn.
  enum class Rule : uint8_t {
    by_shape,  // fan_in_uniform() of a tensor of rank 2 or more, `keep` below
    keep,      // the value stays as make_<layer>() set it: ones of norms, zeros
    uniform,   // between -scale and scale
    normal,    // of mean 0 and standard deviation `scale`
  };
  Rule rule = Rule::by_shape;  // of this parameter
  double scale = 0;            // of `uniform` and `normal`

  // The value stays.
  static Init keep() noexcept { return {.rule = Rule::keep}; }
  // Throw Error(argument) for a scale that is negative or not finite, or a negative fan.
  static Init uniform(double bound);
  static Init normal(double deviation = 1);  // nn.Embedding
  // Between -1 / sqrt(n) and 1 / sqrt(n), or 0 for n = 0: weight and bias of nn.Linear and
  // nn.Conv1d (n: inputs of an output), all parameters of nn.GRU (n: hidden_size).
  static Init fan_in_uniform(int64_t n);
  // Glorot and Bengio 2010, equation 16: the bound is gain sqrt(6 / (fan_in + fan_out)). The
  // in_proj_weight [3 embed_dim, embed_dim] of nn.MultiheadAttention.
  static Init xavier_uniform(int64_t fan_in, int64_t fan_out, double gain = 1);
  // He et al. 2015, equation 14, for a ReLU with this slope below 0: the bound is
  // sqrt(6 / ((1 + slope^2) fan_in)).
  static Init kaiming_uniform(int64_t fan_in, double negative_slope = 0);
};

struct Parameter {
  Tensor value;
  // The shape of `value`; f64 for f64, else f32. Backward calls add to it. Undefined: the parameter
  // is frozen, and no gradient is computed.
  Tensor gradient;
  Init init = {};  // how initialize() (init.h) draws `value`

  bool defined() const noexcept { return value.defined(); }
  bool learns() const noexcept { return gradient.defined(); }
};

// A parameter of zeros with a gradient of zeros. Throws Error(shape, overflow), std::bad_alloc.
Parameter make_parameter(DType dtype, std::initializer_list<int64_t> shape, const Init& init = {});

namespace detail {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// Calls a function with the path of each parameter below a prefix.
template <class Function>
struct Visitor {
  const Function& function;   // (path, parameter)
  const std::string& prefix;  // before the names of members

  template <class Member>
  void operator()(const char* name, Member& member) const {
    using M = std::remove_const_t<Member>;
    const std::string path = prefix + name;
    if constexpr (std::is_same_v<M, Parameter>) {
      if (member.defined()) function(path, member);
    } else if constexpr (IsVector<M>::value) {
      for (size_t i = 0; i < member.size(); ++i)
        M::value_type::members(member[i], Visitor{function, path + "." + std::to_string(i) + "."});
    } else {
      M::members(member, Visitor{function, path + "."});
    }
  }
};

}  // namespace detail

// Calls f(name, parameter) for each parameter of a layer that exists: "self_attn.in_proj_weight".
// `Layer` may be const.
template <class Layer, class Function>
void visit(Layer& layer, const Function& f, const std::string& prefix = "") {
  std::remove_const_t<Layer>::members(layer, detail::Visitor<Function>{f, prefix});
}

// The number of learned numbers.
template <class Layer>
int64_t count_parameters(const Layer& layer) {
  int64_t count = 0;
  visit(layer, [&](const std::string&, const Parameter& p) { count += p.value.count(); });
  return count;
}

// All parameters of a layer, in the order of visit(). The layer must outlive the list.
template <class Layer>
std::vector<Parameter*> parameters_of(Layer& layer) {
  std::vector<Parameter*> all;
  visit(layer, [&](const std::string&, Parameter& p) { all.push_back(&p); });
  return all;
}

// A parameter of a layer and its name.
struct NamedParameter {
  std::string name;
  Parameter* parameter;
};

// The same with their names.
template <class Layer>
std::vector<NamedParameter> named_parameters(Layer& layer, const std::string& prefix = "") {
  std::vector<NamedParameter> all;
  visit(
      layer,
      [&](const std::string& name, Parameter& p) {
        all.push_back({name, &p});
      },
      prefix);
  return all;
}

// Sets all gradients to 0.
void clear_gradients(std::span<Parameter* const> parameters) noexcept;

// Frees all gradients of a layer: forward calls do not need them, backward calls skip them.
template <class Layer>
void freeze(Layer& layer) {
  visit(layer, [](const std::string&, Parameter& p) { p.gradient = {}; });
}

}  // namespace rapt::nn
