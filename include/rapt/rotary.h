#pragma once
// Rotary position embedding: each pair of dimensions of a row x at position m is rotated by an
// angle that grows with m, so that the product of a query and a key depends on their distance:
//
//   (x_a, x_b) -> magnitude (x_a cos m f_i - x_b sin m f_i, x_b cos m f_i + x_a sin m f_i)
//   f_i = theta^(-2 i / dims),   i = 0 .. dims / 2 - 1
//
// Pairs (a, b): halves (i, i + dims / 2), as in Llama and GPT-NeoX ("rotate_half"), or interleaved
// (2 i, 2 i + 1), as in GPT-J and the paper. The two differ in the order of dimensions: weights
// that were trained with one give wrong results with the other. Dimensions from `dims` on are
// unchanged (partial rotary).
//
// Scalings, for texts longer than those of the training (the formulas of Hugging Face's
// modeling_rope_utils.py; s = factor, L = original_length):
//   linear   f_i / s                                                   Chen et al. 2023,
//            arXiv:2306.15595
//   ntk      theta s^(dims / (dims - 2)) for theta. Dynamic NTK at length l: s = factor l / L -
//            (factor - 1)
//   yarn     f_i / s for long wavelengths, f_i for short ones, a ramp between; magnitude =
//            attention_factor, 0.1 ln s + 1 by default                 Peng et al. 2023,
//            arXiv:2309.00071
//   llama3   f_i for wavelengths shorter than L / high_frequency_factor, f_i / s for those longer
//            than L / low_frequency_factor, smooth between             Llama Team 2024,
//            arXiv:2407.21783
//
// Several axes (pictures, video): sections[k] dimensions are rotated by the position on axis k.
//
// Frequencies, angles, sines and cosines are computed in f64, so that positions beyond 10^6 are as
// exact as the first. Rows are rotated in f32 (f64 for f64) and rounded once. The error of an angle
// m f is at most about m f 2^-53: 10^-10 at m = 10^6. Counted positions above 2^53 are rejected.
// Positions from a tensor are not: there the angles of high frequencies are meaningless, but equal
// for equal positions.
//
// Source: Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.2.2.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rapt/declaration.h"
#include "rapt/tensor.h"

namespace rapt {

// Which dimensions are rotated as a pair.
enum class RotaryPairs : uint8_t { halves, interleaved };
inline constexpr const char* kRotaryPairsNames[] = {"halves", "interleaved"};

// How frequencies change for texts longer than those of the training.
enum class RotaryScaling : uint8_t { none, linear, ntk, yarn, llama3 };
inline constexpr const char* kRotaryScalingNames[] = {"none", "linear", "ntk", "yarn", "llama3"};

// The meaning of the sections of several axes.
enum class RotaryAxes : uint8_t {
  apart,   // each is a separate rotary embedding: its own frequencies from 1 on and its own pairs
           // (axial, as in vision transformers)
  shared,  // parts of one embedding: each section has the next pairs and frequencies of the whole
           // (multimodal, Qwen2-VL's mrope_section, which counts pairs)
};
inline constexpr const char* kRotaryAxesNames[] = {"apart", "shared"};

inline constexpr int kMostRotaryAxes = 3;  // time, row and column

// A rotary embedding, without the positions.
struct Rotary {
  double theta = 10000;                         // base of the frequencies, at least 1
  int64_t dims = 0;                             // rotated, the first of head_dim; even; 0: all
  RotaryPairs pairs = RotaryPairs::halves;      // as the weights were trained with
  RotaryScaling scaling = RotaryScaling::none;  // as the weights were trained with
  double factor = 1;                            // of every scaling
  double original_length = 8192;                // yarn, llama3: the longest text of the training
  double beta_fast = 32;        // yarn: f_i with at least this many turns in original_length stays
  double beta_slow = 1;         // yarn: f_i with at most this many turns becomes f_i / s
  bool truncate = true;         // yarn: the ramp begins and ends at whole pairs (gpt-oss: no)
  double attention_factor = 0;  // yarn: 0: 0.1 ln s + 1
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  // Dimensions of each axis, even; their sum is `dims`. All 0: one axis.
  int64_t sections[kMostRotaryAxes] = {};
  RotaryAxes axes = RotaryAxes::apart;  // the meaning of sections
  // Precomputed cosines and sines, instead of theta and all scalings: [positions, dims / 2] or
  // [batch ..., positions, dims / 2], of the rows' dtype or f32. A position is an index; one axis
  // only.
  TensorView cos_cache = {};
  TensorView sin_cache = {};  // as cos_cache

  static const Declaration kDeclaration;
};

// The positions of rows [..., n, head_dim]: row i is at `start + step i`, or at values[..., i].
struct RotaryPositions {
  // i64 [n], or [batch ..., n] with the first leading dimensions of the rows, each equal or 1, so
  // that [B, n] serves rows of [B, H, n, head_dim]. With several axes it is required: [..., n,
  // axes].
  TensorView values = {};
  int64_t start = 0;  // position of the first row
  int64_t step = 1;   // from row to row
};

// Returns rotated rows [..., n, head_dim] (f32, f64, bf16, f16; any strides). Throws Error(shape,
// dtype, argument, overflow), Error(unsupported) for caches together with sections, std::bad_alloc.
Tensor rotary_embedding(const TensorView& rows, const Rotary& rotary,
                        const RotaryPositions& positions = {});

// Writes the rotated rows into the caller's memory, which has the rows' shape and dtype. It is
// either the rows themselves (same address and strides), or does not overlap them. An empty
// workspace: the call allocates its own; otherwise it allocates nothing. Also throws
// Error(overlap), Error(argument) for a workspace that is too small.
void rotary_embedding(const TensorView& rows, const Rotary& rotary,
                      const RotaryPositions& positions, const TensorView& output,
                      std::span<std::byte> workspace = {});

// The bytes of workspace that are enough for rows of this head_dim and dtype.
size_t rotary_workspace_bytes(const TensorView& rows, const Rotary& rotary);

// The gradient of the rows, from the gradient d_output of the rotated rows: the inverse rotation,
// times the magnitude. Dtypes, shapes and errors as above.
Tensor rotary_embedding_backward(const TensorView& d_output, const Rotary& rotary,
                                 const RotaryPositions& positions = {});
void rotary_embedding_backward(const TensorView& d_output, const Rotary& rotary,
                               const RotaryPositions& positions, const TensorView& d_rows);

// Views a tensor [..., n, num_heads * head_dim], as projections return it, as [..., num_heads, n,
// head_dim]. Throws Error(shape) if num_heads does not divide the last dimension.
TensorView split_heads(const TensorView& view, int64_t num_heads);

// The frequencies of the pairs, [dims / 2] f64, for a head_dim; sections one after the other.
// Throws Error as rotary_embedding() does for its options.
Tensor rotary_frequencies(const Rotary& rotary, int64_t head_dim);

// The factor of rotated rows: yarn's attention factor, else 1.
double rotary_magnitude(const Rotary& rotary);

}  // namespace rapt
