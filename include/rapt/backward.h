#pragma once
// Gradients of scaled dot-product attention, for every option of the forward call, in O(n) memory.
//
// With P the weights, S the scores after scale, score functions, bias and masks, and K' = K, V' = V
// of the query's own group (Dao et al. 2022, arXiv:2205.14135, appendix B.2; Dao 2023,
// arXiv:2307.08691, section 2.3.2):
//
//   dV    = (P o keep / (1 - p))^T dO                     keep, p: dropout (rapt/dropout.h)
//   dP    = keep / (1 - p) o (dO V^T) + dW                dW: gradient of returned weights
//   delta = rowsum(dO o O) + rowsum(P o dW) - dlse
//   dS    = P o (dP - delta)
//   dbias = dS, summed over the dimensions that the bias is broadcast along
//   dZ    = dS through the score functions, Z = scale Q K^T; or, with BiasOrder::before_scores,
//           Z = scale Q K^T + bias, and dbias is the sum of dZ
//   dQ    = scale dZ K,   dK = scale dZ^T Q,   dscale = sum(dZ o (Q K^T))
//
// This dS is that of softmax. Normalisers whose weights depend on their own score alone have no
// delta: dS is the derivative of the weight times dP (include/rapt/normalizer/). The delta of
// sparse normalisers is the mean of dP weighted by the slopes of the weights
// (normalizer/row_threshold.h).
//
// Gradients of inputs that are broadcast or shared by a group of heads are summed over the heads
// that read them. Masked pairs contribute nothing, even if they hold NaN. A query without a key has
// zero gradients, and so has a key without a query. An unmasked NaN always propagates.
//
// All sums are f32 (f64 for f64), whatever the dtype of the inputs. Where tile registers or dot
// products multiply bf16 (Precision::automatic), P and dZ are rounded to bf16, by at most 2^-8 of
// each, as the weights of the forward pass are. The bits of all gradients are the same for any
// number of threads and any executor, in one pass or two, and whichever other gradients are
// requested. They are also the same alone or in a batch, except for sums over the heads of a batch
// and for dropout, and the same for all heads at once or for a range of them. The order of every
// sum follows from lengths and head sizes alone, and there are no atomic additions.
//
// delta is as exact as the output. For 16-bit inputs an f32 output (options.output_dtype) makes
// d_query, d_key and d_scale more exact; its dO is not rounded to bf16, and all products use FMA.
// The backward pass cannot detect the output or lse of another call if the shape fits: the
// gradients are then wrong.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rapt/attention.h"

namespace rapt {

// The number of passes over the pairs. Both choices give the same bits.
enum class BackwardPasses : uint8_t {
  one,  // five products per pair. Workspace for each head at work (one per thread, or one that all
        // threads share): q_len (2 head_dim + value_dim) numbers; with rotary or cosine q_len (3
        // head_dim + value_dim); with biases of options.relative about q_len (5 head_dim +
        // value_dim). Gradients of keys and values that are narrower than f32 add k_len (head_dim
        // + value_dim). Gradients of a table of options.relative add about min(parts distances,
        // q_len + k_len) dims, with parts = min(q_len, k_len) / 512, at least 1, at most 32
  two,  // seven products (1.4 times the work). The workspace that grows with the lengths is one
        // number per query
};

// Heads that follow one another along the last leading dimension.
struct HeadRange {
  int64_t first = 0;  // its index along that dimension
  int64_t count = 0;  // 0, with first 0: all heads
};

// Which gradients are requested, and how they are computed.
struct BackwardRequest {
  bool query = true, key = true, value = true;
  bool bias = false;                // only with options.bias
  bool scale = false;               // also if the scale is the default one; together with
                                    // query_rows of options.relative only in one pass
  bool score_parameters = false;    // of options.scores: softcap's cap, slopes of all heads
  std::optional<DType> dtype = {};  // of d_query, d_key, d_value; default: the query's; or f32
  BackwardPasses passes = BackwardPasses::one;
  bool normalizer_parameters = false;  // those of options.normalizer: the logits of sinks
  bool relative = false;               // of all tensors of options.relative; only in one pass
  // The heads that are computed: a few at a time need less memory. d_output, d_query, d_key and
  // d_value have the matrices of these heads alone; all other tensors are those of the whole call.
  // Gradients of scale and parameters are sums over these heads.
  HeadRange heads = {};
};

// The forward state and the gradients of its results; all are only read. `state.output` and
// `state.statistic` (lse) come from a forward call with the same inputs and options.
struct BackwardInputs {
  AttentionState state;
  TensorView d_output = {};     // [..., q_len, value_dim], as state.output in shape and dtype, or
                                // with the heads of request.heads alone
  TensorView d_statistic = {};  // [..., q_len], f32 (f64 for f64): gradient of lse; absent: 0
  TensorView d_weights = {};    // of the weights of options.weights, with their shape and dtype;
                                // absent: 0. Not for WeightsStage::scores
};

// The outputs of a call with the caller's memory. Each member must be given exactly if its gradient
// is requested. d_query, d_key and d_value have the shapes of query, key and value, or with
// request.heads those of the matrices that these heads read.
struct GradientOutputs {
  TensorView d_query = {};  // the query's dtype or request.dtype; also d_key and d_value
  TensorView d_key = {};
  TensorView d_value = {};
  TensorView d_bias = {};   // the shape of the bias; f32, or f64 for f64
  TensorView d_scale = {};  // [] f64
  // [parameters] f64, in the order of options.scores and, within one score, of its declaration:
  // real parameters, and all elements of tensors with numbers per head (head_numbers.h), row-major
  TensorView d_score_parameters = {};
  TensorView d_normalizer_parameters = {};  // [parameters] f64, the same for options.normalizer
  // With the shapes of the tensors of options.relative, one for each tensor that is given; f32, or
  // f64 for f64
  TensorView d_key_rows = {};
  TensorView d_query_rows = {};
  TensorView d_value_rows = {};
  TensorView d_content_bias = {};
  TensorView d_position_bias = {};
};

// The results of the simple call; gradients that are not requested are absent.
struct Gradients {
  Tensor d_query, d_key, d_value, d_bias, d_scale;  // as GradientOutputs; if wanted
  Tensor d_score_parameters;                        // as GradientOutputs; if wanted
  Tensor d_normalizer_parameters;                   // as GradientOutputs; if wanted
  Tensor d_key_rows, d_query_rows, d_value_rows;    // as GradientOutputs; if wanted
  Tensor d_content_bias, d_position_bias;           // as GradientOutputs; if wanted
};

// Bytes of workspace that the backward pass needs. Throws as plan() and as the call.
[[nodiscard]] size_t backward_workspace_bytes(const TensorView& query, const TensorView& key,
                                              const TensorView& value,
                                              const AttentionOptions& options = {},
                                              const BackwardRequest& request = {},
                                              const Context& context = {});

// The simple call: allocates its results and its workspace. `options` are those of the forward
// call. Captures (map, top_k, entropy, received) are ignored, and so is `weights` without
// inputs.d_weights; but a method rejects captures that its scope lacks in this call, too.
//
// Throws Error as scaled_dot_product_attention(), and
//   Error(argument)      for a missing output, lse or d_output; for d_weights without
//                        options.weights; for a gradient of a bias, of score parameters, of
//                        normaliser parameters or of relative positions that the call does not have
//   Error(shape, dtype)  for a state or gradients of another problem
//   Error(overlap)       for gradients that overlap an input, the workspace, each other or
//                        themselves
//   Error(unsupported)   for a normaliser or score without a backward pass; for parameters of a
//                        normaliser that have no gradients; for d_weights of returned scores; for
//                        d_query or d_key of rows that heads share if rotary embedding rotates
//                        these rows by different positions; in two passes for request.relative and,
//                        beside query_rows, request.scale; for options that options.method does not
//                        accept, and for gradients that it does not have (method/method.h); for a
//                        part of the heads with options.method, with gradients of a bias or of
//                        relative positions, or if other heads share a requested gradient
Gradients scaled_dot_product_attention_backward(const TensorView& query, const TensorView& key,
                                                const TensorView& value,
                                                const AttentionOptions& options,
                                                const BackwardInputs& inputs,
                                                const BackwardRequest& request = {},
                                                const Context& context = {});

// The call for engines: writes into the caller's memory, uses the caller's workspace (at least
// backward_workspace_bytes(), any alignment) and allocates nothing, as the forward call of this
// kind. Every element of the gradients is overwritten, not added to.
void scaled_dot_product_attention_backward(
    const TensorView& query, const TensorView& key, const TensorView& value,
    const AttentionOptions& options, const BackwardInputs& inputs, const BackwardRequest& request,
    const GradientOutputs& outputs, std::span<std::byte> workspace, const Context& context = {});

}  // namespace rapt
