#pragma once
// The three matrix products of a linear layer and its gradients:
//
//   multiply                 y = activation(x weight^T + bias)
//   multiply_gradient        d_x = d_y weight
//   add_weight_gradient      d_weight += d_y^T x,  d_bias += column sums of d_y
//
// with x [rows, in_features], y [rows, out_features], weight [out_features, in_features] as PyTorch
// stores it, and bias [out_features]. Matrices have rank 2 and any strides; as_matrix() makes one
// of
// [..., features]. Each tensor is f32, bf16 or f16, in any combination, computed and summed in f32;
// or all are f64.
//
// Sums over more than 256 terms are made in blocks of 256, which are then added. Results have the
// same bits for any executor and number of threads, and a row of y or d_x has the same bits
// whatever other rows are computed with it. NaN and Inf propagate as in the plain loops.
//
// Products of two sides of one dtype are made as Precision says (rapt/precision.h). Sides of two
// dtypes are multiplied by FMA. So the kernel follows from the dtypes and the precision alone, and
// product_kernel() tells it. Tile registers and the 16-bit dot product may take products and sums
// of bf16 below 2^-126 for 0. Tile registers cannot multiply an f32 or f16 that is not finite,
// above 2^40, or below 2^-48 and not 0. Results whose row or column has such a term are computed by
// FMA, which costs a second pass.
//
// All functions throw Error before anything is written:
//   shape, dtype     shapes or dtypes that do not fit together
//   argument         an output that is missing or read-only, a null pointer with elements, a
//                    workspace that is too small, an unknown activation or precision
//   overflow         a tensor or workspace that 64 bits cannot address
//   overlap          an output that shares memory with an input, another output or itself
//   memory_limit     see Context
//   cancelled        see Context; outputs are unspecified then
#include <cstddef>
#include <span>

#include "rapt/activation.h"
#include "rapt/context.h"
#include "rapt/precision.h"
#include "rapt/tensor.h"

namespace rapt {

// Bias, activation and sum that are applied as y is stored, and how products are made.
struct ProductOptions {
  TensorView bias = {};  // [out_features]; absent: none
  Activation activation = Activation::none;
  // [rows, out_features], an output: x weight^T + bias, which the activation's gradient needs.
  // Absent: not stored.
  TensorView before_activation = {};
  bool add = false;  // adds the result to what y holds, for residual connections
  Precision precision = Precision::automatic;
};

// How products of sides of these dtypes are made: "fma", or the kernel class of tile registers or
// dot products, in the words of Plan::kernel. Throws Error(argument) for an unknown precision, and
// as bf16_dot() does.
const char* product_kernel(DType left, DType right, Precision precision = Precision::automatic);

// The bytes of workspace that are enough for each of the three products of these sizes and any
// precision. `dtype`: f64, or anything else for f32, bf16 and f16. Throws Error(argument) for
// negative sizes.
size_t product_workspace_bytes(int64_t rows, int64_t in_features, int64_t out_features, DType dtype,
                               const Context& context = {});

// y = activation(x weight^T + bias), or y + that. An empty workspace: the call allocates its own;
// otherwise it allocates nothing.
void multiply(const TensorView& x, const TensorView& weight, const TensorView& y,
              const ProductOptions& options = {}, const Context& context = {},
              std::span<std::byte> workspace = {});

// d_x = d_y weight, or d_x + that if `add`.
void multiply_gradient(const TensorView& d_y, const TensorView& weight, const TensorView& d_x,
                       bool add = false, const Context& context = {},
                       std::span<std::byte> workspace = {},
                       Precision precision = Precision::automatic);

// d_weight += d_y^T x, and d_bias [out_features] += the sums of d_y over its rows. Either may be
// absent.
void add_weight_gradient(const TensorView& d_y, const TensorView& x, const TensorView& d_weight,
                         const TensorView& d_bias = {}, const Context& context = {},
                         std::span<std::byte> workspace = {},
                         Precision precision = Precision::automatic);

// A weight in the order in which the products read it, made once for many products: the steps of a
// recurrence have few rows each, and would spend half their time on packing the weight.
enum class PackedFor : uint8_t { multiply, multiply_gradient };

// A packed weight. It refers to memory that pack_weight() was given.
struct PackedWeight {
  const void* panels = nullptr;  // f64, or f32 for f32, bf16, f16; then those of the kernel class
  int64_t out_features = 0, in_features = 0;
  DType dtype = DType::f32;  // of the weight
  PackedFor use = PackedFor::multiply;
  Precision precision = Precision::automatic;
};

// The bytes that are enough for a packed weight of any precision. `dtype` as above. Throws
// Error(argument, overflow).
size_t packed_weight_bytes(int64_t out_features, int64_t in_features, DType dtype, PackedFor use);

// Packs a weight [out_features, in_features] into the caller's memory, which must outlive the
// result. Throws Error as above.
PackedWeight pack_weight(const TensorView& weight, PackedFor use, std::span<std::byte> memory,
                         Precision precision = Precision::automatic);

// The products above, with the same bits. The workspace is the same, too. Throws Error(argument) if
// the weight was packed for the other product or for another precision.
void multiply(const TensorView& x, const PackedWeight& weight, const TensorView& y,
              const ProductOptions& options = {}, const Context& context = {},
              std::span<std::byte> workspace = {});
void multiply_gradient(const TensorView& d_y, const PackedWeight& weight, const TensorView& d_x,
                       bool add = false, const Context& context = {},
                       std::span<std::byte> workspace = {},
                       Precision precision = Precision::automatic);

// [..., features] as a matrix [rows, features], without a copy. Throws Error(shape) for a view of
// rank 0, or whose leading dimensions are not one run of rows at equal distances.
TensorView as_matrix(const TensorView& view);

}  // namespace rapt
