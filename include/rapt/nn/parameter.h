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

struct Parameter {
  Tensor value;
  // The shape of `value`; f64 for f64, else f32. Backward calls add to it. Undefined: the parameter
  // is frozen, and no gradient is computed.
  Tensor gradient;

  bool defined() const noexcept { return value.defined(); }
  bool learns() const noexcept { return gradient.defined(); }
};

// A parameter of zeros with a gradient of zeros. Throws Error(shape, overflow), std::bad_alloc.
Parameter make_parameter(DType dtype, std::initializer_list<int64_t> shape);

namespace detail {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class Function>
struct Visitor {
  const Function& function;
  const std::string& prefix;

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

// Sets all gradients to 0.
void clear_gradients(std::span<Parameter* const> parameters) noexcept;

// Frees all gradients of a layer: forward calls do not need them, backward calls skip them.
template <class Layer>
void freeze(Layer& layer) {
  visit(layer, [](const std::string&, Parameter& p) { p.gradient = {}; });
}

}  // namespace rapt::nn
