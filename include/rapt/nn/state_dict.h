#pragma once
// Tensors by name: saving and loading the parameters of a layer, or the state of an optimiser.
//
//   write_safetensors(write, state_dict<NamedTensor>(layer));   // rapt/io/safetensors.h
//   load_state_dict(layer, tensors);                            // NamedTensor or NamedView
//
// Names and shapes are those of PyTorch's state dicts.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rapt/nn/parameter.h"

namespace rapt::nn {

// A tensor by name. NamedTensor of rapt::io has the same members.
struct NamedView {
  std::string name;
  TensorView view;
};

// The parameters of a layer, in the order of visit(). The views are writable unless the layer is
// const; they must not outlive it. `Named` is any struct of a name and a view.
template <class Named = NamedView, class Layer>
std::vector<Named> state_dict(Layer& layer, const std::string& prefix = "") {
  std::vector<Named> all;
  visit(
      layer,
      [&](const std::string& name, auto& p) {
        all.push_back({name, p.value.view()});
      },
      prefix);
  return all;
}

struct LoadOptions {
  // What stands before the names of this layer in the tensors to load. Tensors whose names do not
  // begin with it belong to others and are ignored.
  std::string prefix = {};
  bool strict = true;  // false: missing and additional tensors are reported, not rejected
};

struct LoadReport {
  std::vector<std::string> missing;     // tensors of the layer that were not there, with prefix
  std::vector<std::string> additional;  // tensors that the layer does not have
};

// Copies `given` into the tensors of the same names, whatever their order and strides. f32, f64,
// bf16 and f16 are converted into each other with one rounding; other dtypes must be equal.
//
// Throws one Error before anything is written. It names every tensor that is missing, additional,
// there twice (argument), of another shape (shape), of a dtype that is not converted (dtype), or
// that overlaps the memory of another target (overlap); the code is that of the first kind found,
// in this order.
LoadReport load_tensors(std::span<const NamedView> targets, std::span<const NamedView> given,
                        const LoadOptions& options = {});

// The same for the parameters of a layer. Gradients and frozen parameters stay as they are; an
// optimiser takes its f32 copies of 16-bit parameters anew by itself.
template <class Layer, class Named = NamedView>
LoadReport load_state_dict(Layer& layer, const std::vector<Named>& given,
                           const LoadOptions& options = {}) {
  std::vector<NamedView> views;
  views.reserve(given.size());
  for (const Named& tensor : given) views.push_back({tensor.name, tensor.view});
  return load_tensors(state_dict(layer), views, options);
}

}  // namespace rapt::nn
