#pragma once
// Initial values of parameters: the same numbers on every machine, for any number of threads.
//
//   Linear layer = make_linear(512, 2048);
//   initialize(layer, seed);
//
// Each parameter is drawn by its rule (Parameter::init, parameter.h), which make_<layer>() states
// as PyTorch's layer does:
//
//   weights of rank 2 and more   between -1 / sqrt(fan_in) and 1 / sqrt(fan_in), where fan_in is
//                                the product of all lengths but the first: nn.Linear, nn.Conv1d
//   biases of these              between the same bounds
//   norms                        the value stays: weight 1, bias 0
//   embeddings                   normal, of mean 0 and standard deviation 1: nn.Embedding
//   in_proj_weight               Xavier's uniform bounds: nn.MultiheadAttention
//
// A number depends on the seed, the name of its parameter and its row-major index alone. So layers
// that are added or resized change no number of the others. With word(i) of src/nn/random_numbers.h
// in the stream of the name (its FNV-1a hash of 64 bits):
//
//   u = (2 k + 1) / 2^53 of the upper 52 bits k of word(i)
//   uniform: scale (2 u - 1)      normal: scale times the u-quantile of the normal distribution
//
// computed in f64 and rounded once to the dtype. The numbers are not those of PyTorch's generators.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rapt/context.h"
#include "rapt/nn/parameter.h"

namespace rapt::nn {

// Draws the elements of a tensor, which must be dense. Init::by_shape and Init::keep as in
// parameter.h. Throws Error(argument) for a scale that is negative or not finite, Error(dtype) for
// a tensor that is not of a floating-point type; Error(cancelled).
void draw(const TensorView& values, const Init& init, uint64_t seed, std::string_view name,
          const Context& context = {});

// Draws all parameters. Throws as draw(), before the first is drawn.
void initialize(std::span<const NamedParameter> parameters, uint64_t seed,
                const Context& context = {});

// Draws all parameters of a layer. `prefix` stands before all names, as in visit().
template <class Layer>
void initialize(Layer& layer, uint64_t seed, const Context& context = {},
                const std::string& prefix = "") {
  initialize(std::span<const NamedParameter>(named_parameters(layer, prefix)), seed, context);
}

}  // namespace rapt::nn
