#pragma once
// Forward mode and second derivatives of scaled dot-product attention, in O(n) memory.
//
// A tangent is the rate of change of a number when the inputs change: query by query', key by key',
// and so on. The caller chooses these. With the symbols of rapt/backward.h, S the scores before the
// normaliser, Z = scale Q K^T, K and V of the query's own group, and a prime for tangents:
//
//   Z'   = scale (Q' K^T + Q K'^T) + scale' Q K^T
//   S'   = dS/dZ o Z' + sum over parameters of dS/dparameter parameter' + bias'
//          (BiasOrder::before_scores: bias' is part of Z' instead)
//   lse' = rowsum(P o S'),   P' = P o (S' - lse')
//   O'   = (P' o keep / (1 - p)) V + (P o keep / (1 - p)) V'
//
// P' and, below, dS' are those of softmax; see backward.h for other normalisers.
//
// This is the product of the Jacobian and a vector (attention_jvp). The tangents of the backward
// pass, "forward over reverse", are the product of the Hessian of any loss and a vector
// (attention_backward_jvp), with slope = dS/dZ:
//
//   dP'     = keep / (1 - p) o (dO' V^T + dO V'^T)
//   delta'  = rowsum(P' o dP + P o dP') - dlse'
//   dS'     = P' o (dP - delta) + P o (dP' - delta')
//   dZ'     = slope o dS' + slope' o dS
//   dV'     = (P' o keep / (1 - p))^T dO + (P o keep / (1 - p))^T dO'
//   dQ'     = scale (dZ' K + dZ K') + scale' dZ K
//   dK'     = scale (dZ'^T Q + dZ^T Q') + scale' dZ^T Q
//   dscale' = sum(dZ' o (Q K^T) + dZ o (Q' K^T + Q K'^T))
//   dbias'  = dS' (with BiasOrder::before_scores: dZ'), summed as dbias; the tangents of parameter
//             gradients are summed as those gradients
//
// For a loss whose d_output depends on the output, d_output' is the Hessian of the loss times the
// O' that attention_jvp returns. With d_output' = 0 the result is the second derivative of the
// attention alone.
// Source: the product rule, applied to Dao et al. 2022, arXiv:2205.14135, appendix B.2; forward
// over reverse: Pearlmutter 1994, "Fast exact multiplication by the Hessian", Neural Computation 6.
//
// All options of the backward pass are supported: masks, grouped heads, broadcast dimensions, f32,
// f64 and 16 bits (computed in f32), strides, packed sequences, bias, scores, dropout of the same
// pairs. Exceptions: see attention_jvp(). Masked pairs contribute nothing, even if they hold NaN. A
// query without a key has tangents 0, and so has the gradient of a key without a query. The bits
// are the same for any number of threads and any executor.
//
// Memory beside the results: three numbers per query, and per thread the arrays of a tile of
// queries and a few blocks of keys.
#include <span>

#include "rapt/backward.h"

namespace rapt {

// Tangents of the inputs, each of the shape and dtype of its primal, with any strides. An absent
// tangent is 0.
struct InputTangents {
  TensorView query = {};  // [..., q_len, head_dim]
  TensorView key = {};    // [..., k_len, head_dim]
  TensorView value = {};  // [..., k_len, value_dim]
  TensorView bias = {};   // only with options.bias
  double scale = 0;       // also where the scale is the default one
  // [parameters], in the order of GradientOutputs::d_score_parameters; empty: 0
  std::span<const double> score_parameters = {};
};

// Tangents of d_output and d_statistic, with the shapes of BackwardInputs. An absent tangent is 0.
struct OutputTangents {
  TensorView d_output = {};     // [..., q_len, value_dim]
  TensorView d_statistic = {};  // [..., q_len]
};

// The results of attention_jvp().
struct StateTangents {
  Tensor output;     // [..., q_len, value_dim], the dtype of state.output
  Tensor statistic;  // [..., q_len], of lse; f32, or f64 for f64
};

// Tangents of the results of a forward call with these inputs and options. `state` holds the output
// and the statistic of that call. Captures are ignored. Takes about 2.5 times the work of the
// forward call.
//
// Throws Error as scaled_dot_product_attention(), and Error(argument) for a missing output or lse,
// for tangents of a bias or of score parameters that the call does not have; Error(shape, dtype)
// for a state or tangents of another problem; Error(unsupported) for a normaliser or score without
// tangents, for options.method, options.rotary and options.cosine.
StateTangents attention_jvp(const TensorView& query, const TensorView& key, const TensorView& value,
                            const AttentionOptions& options, const AttentionState& state,
                            const InputTangents& tangents, const Context& context = {});

// Tangents of the gradients that scaled_dot_product_attention_backward() returns for these inputs
// and this request (its `passes` are ignored, and `heads` must be all): d_query', d_key', ..., each
// with the shape and dtype of its gradient. Takes about 5 times the work of the backward call.
//
// Throws Error as that call, and as attention_jvp(); Error(unsupported) for d_weights.
Gradients attention_backward_jvp(const TensorView& query, const TensorView& key,
                                 const TensorView& value, const AttentionOptions& options,
                                 const BackwardInputs& inputs, const InputTangents& tangents,
                                 const OutputTangents& output_tangents,
                                 const BackwardRequest& request = {}, const Context& context = {});

}  // namespace rapt
