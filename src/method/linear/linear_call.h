#pragma once
// Attention by feature maps: output_i = sum_j w_ij v_j / sum_j w_ij with w_ij = phi(q_i) .
// phi(k_j), computed as phi(q_i) . (sum_j phi(k_j) v_j), whose cost is linear in the number of
// tokens.
//
// This room, src/method/linear, computes it in chunks of 64 tokens, anchored at token 0. A state is
// the sum of phi(k) (v, 1) over the chunks before: [features, value_dim] and [features]. Within a
// chunk, a causal query weighs its keys one by one. Every product is one that exact attention has:
//
//   inputs of the feature map      scores of tokens against the rows of the projection
//   state += phi(k)^T v            the gradient of values
//   output = state^T phi(q)        the output of features as keys
//   weights within a chunk         the output of features as keys, keys as dimensions
//
// Powers. Features are phi = 2^power feature with an integer power per token. A state has a power,
// too: the largest of its tokens. Sums apply differences of powers, which are exact, so that later
// tokens change no bit of what earlier ones sum to.
//
// In: a MethodCall and a LinearModel. Out: results of the call. It may use src/method, the kernel
// tables and the threads of a call.
#include <algorithm>
#include <cmath>

#include "kernels/kernel_table.h"
#include "method/method_call.h"
#include "rapt/feature_map/own_features.h"

namespace rapt {

inline constexpr int64_t kChunk = 64;          // tokens; a bit each in a word
inline constexpr int64_t kFeatureBlock = 128;  // features that a product sums at once: they and the
                                               // columns of a state that it reads fit an L1

// The parameters of a method (favor, linear) that its sums depend on.
struct LinearModel {
  int map = 0;                       // index in FeatureMaps
  const OwnFeatures* own = nullptr;  // in its place; `map` is then one without a projection
  int64_t inputs = 0;                // of the map: rows of the projection, or head_dim
  int64_t features = 0;
  bool normalized = true;  // is the output divided by the sum of weights?
  // Of maps with a projection. A row w of it gives the exponent B w . x + A |w|^2 with
  // B = sqrt(1 - 4 A); `log_factor` is the logarithm of what the sum of weights is multiplied by.
  TensorView projection = {};  // [inputs, head_dim]; absent: drawn
  uint64_t seed = 0;
  bool orthogonal = true;
  double exponent = 0;  // A
  double log_factor = 0;
  // [..., features + 1, value_dim + 1]: sums of phi(k) (v, 1); in the last row, the first element
  // is their power of two. Absent: the state before the first token is 0; the one behind the last
  // is not wanted.
  TensorView initial_state = {}, final_state = {};
};

// What all passes of a call read.
template <class E>
struct LinearCall {
  const MethodCall& call;
  const Problem& p;
  const LinearModel& model;
  const KernelTable<E>& table;
  const LinearKernels<E>& kernels;
  const RouteKernels<E>& route;  // fma, of the inputs' dtype
  const FeatureMapKernels<E>& map;
  int vectors;                    // of a tile of tokens
  int64_t tile;                   // tokens of a tile; a divisor of kChunk
  E query_factor, key_factor;     // x = factor times the row
  const E* projection = nullptr;  // [inputs][head_dim]
  const E* offsets = nullptr;     // [inputs] of exponents; null: 0

  LinearCall(const MethodCall& of, const LinearModel& with)
      : call(of),
        p(of.problem),
        model(with),
        table(rapt::kernels<E>()),
        kernels(table.linear),
        route(*table.fma[static_cast<int>(p.dtype)]),
        map(kernels.maps[with.map]),
        vectors(route.widest() < 2 ? 1 : 2),
        tile(vectors * table.lanes),
        query_factor(static_cast<E>(std::copysign(std::sqrt(std::abs(p.scale)), p.scale))),
        key_factor(static_cast<E>(std::sqrt(std::abs(p.scale)))) {}

  const ProductKernels<E>& products() const noexcept { return route.products[vectors - 1]; }
  // The route whose packing reads rows of a dtype: outputs may be f32 beside inputs of 16 bits.
  const RouteKernels<E>& route_of_rows(DType dtype) const noexcept {
    return *table.fma[static_cast<int>(dtype)];
  }
  // Pairs within chunks, at most: those that are weighed one by one.
  int64_t pairs() const noexcept {
    int64_t pairs = 0;
    if (!call.causal() || !__builtin_mul_overflow(p.q_len, p.heads * kChunk, &pairs)) return pairs;
    return INT64_MAX;
  }
  // Do features have powers?
  bool powers() const noexcept { return map.projects; }
};

// Calls visit(E()) with the element type of the sums.
template <class Visit>
auto with_element_of_sums(const MethodCall& call, const Visit& visit) {
  if (call.problem.result_dtype == DType::f64) return visit(double());
  return visit(float());
}

constexpr int64_t chunks_of(int64_t tokens) noexcept { return (tokens + kChunk - 1) / kChunk; }

}  // namespace rapt
