#pragma once
// Multi-head attention with its projections: PyTorch's nn.MultiheadAttention(batch_first=True),
// with grouped heads and every option of rapt's attention.
//
//   Q = x Wq^T + bq,   K = key_value Wk^T + bk,   V = value Wv^T + bv
//   O_h = attention(Q_h, K_g, V_g),   g = h / (num_heads / num_kv_heads)
//   y = [O_0 O_1 ...] Wo^T + bo
//
//   x          [..., length, embed_dim]; y and d_y as x
//   key_value  [..., k_len, kdim]; absent: x (self-attention)
//   value      [..., k_len, vdim]; absent: key_value
//
// With inner = num_heads head_dim and kv = num_kv_heads head_dim, the parameters are
//
//   in_proj_weight  [inner + 2 kv, embed_dim]: Wq, Wk, Wv, one after the other; or, where kdim or
//                   vdim is not embed_dim, q_proj_weight [inner, embed_dim], k_proj_weight
//                   [kv, kdim] and v_proj_weight [kv, vdim]
//   in_proj_bias    [inner + 2 kv]
//   bias_k, bias_v  [1, 1, kv], if `add_bias_kv`: a key and a value behind those of each sequence
//   out_proj        weight [embed_dim, inner], bias [embed_dim]
//   q_norm, k_norm  weight [head_dim], with `qk_norm`: an RmsNorm of each head's row of Q and of K
//                   before attention, and so before any rotation (Henry et al. 2020,
//                   arXiv:2010.04245, normalise by lengths; this form is that of Qwen3)
//   learned         learned tensors of attention's options (LearnedTensor)
//
// The leading dimensions of key_value and value have the rank of x's; each is equal or 1. Rows of
// x, y, key_value, value and their gradients lie at equal distances (as_matrix). All tensors have
// the dtype of the layer, except learned numbers of scores and normalisers: f32, or f64 for f64.
//
// Differences from PyTorch: in masks true = may attend (mask/mask.h), the opposite of nn.Multihead-
// Attention's attn_mask and key_padding_mask. A query that may attend to nothing gives bo; PyTorch
// gives NaN. Dropout draws other pairs (dropout.h). Weights are returned per head, not as a mean.
//
// With bias_k, attention has k_len + 1 keys: a bias and captures have a column for the last one. No
// mask excludes it, as in PyTorch; packed sequences are rejected.
//
// Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2; Ainslie et al. 2023,
// arXiv:2305.13245 (grouped heads).
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rapt/attention.h"
#include "rapt/catalogue.h"
#include "rapt/nn/dropout.h"
#include "rapt/nn/linear.h"
#include "rapt/nn/rms_norm.h"

namespace rapt::nn {

// A learned tensor that options refer to: a factor, slope or logit per head (head_numbers.h), a
// distance table (relative.h), a bias. Backward calls add its gradient wherever a tensor of the
// options is a dense view of `parameter.value`. A text makes these by itself (MultiHeadAttention-
// Spec); for an object, add one to `learned` and refer to it:
//
//   layer.learned.push_back({"scale", make_parameter(DType::f32, {12})});
//   HeadScale scale(layer.learned.back().parameter.value.view());
//   layer.options.scores = {scale};
struct LearnedTensor {
  std::string name;
  Parameter parameter;
};

struct MultiHeadAttention {
  Parameter in_proj_weight;
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;
  Parameter in_proj_bias, bias_k, bias_v;
  Linear out_proj;
  std::optional<RmsNorm> q_norm;  // of each head's row of Q
  std::optional<RmsNorm> k_norm;  // of each head's row of K; there if q_norm is
  std::vector<LearnedTensor> learned;

  // Options of every call: masks, scores, normaliser, scale, rotary, ... What they refer to must
  // outlive the layer. MultiHeadCall::options adds to them. Not here: output_dtype, dropout,
  // captures.
  AttentionOptions options;
  double dropout = 0;           // of weights, in training (run.training)
  uint64_t dropout_stream = 0;  // another one for each layer: see stream_seed() (dropout.h)

  int64_t embed_dim = 0, kdim = 0, vdim = 0;
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::vector<std::shared_ptr<const void>> owned;  // what texts made, which `options` refer to

  int64_t inner() const noexcept { return num_heads * head_dim; }
  int64_t kv() const noexcept { return num_kv_heads * head_dim; }
  int64_t appended_keys() const noexcept { return bias_k.defined() ? 1 : 0; }
  DType dtype() const noexcept { return out_proj.weight.value.dtype(); }

  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("in_proj_weight", layer.in_proj_weight);
    f("q_proj_weight", layer.q_proj_weight);
    f("k_proj_weight", layer.k_proj_weight);
    f("v_proj_weight", layer.v_proj_weight);
    f("in_proj_bias", layer.in_proj_bias);
    f("bias_k", layer.bias_k);
    f("bias_v", layer.bias_v);
    f("out_proj", layer.out_proj);
    if (layer.q_norm) f("q_norm", *layer.q_norm);
    if (layer.k_norm) f("k_norm", *layer.k_norm);
    for (auto& tensor : layer.learned) f(tensor.name.c_str(), tensor.parameter);
  }

  // What a backward call needs of its forward call.
  struct State {
    // Of self-attention: query, key and value side by side [..., length, inner + 2 kv]. Else, and
    // with bias_k, the query [..., length, inner].
    TensorView projections;
    TensorView key_value;  // [..., k_len + appended, 2 kv]; absent where projections hold them
    TensorView attention;  // [..., length, inner]
    TensorView statistic;  // [..., num_heads, length], f32 or f64: attention's statistic
    // With qk_norm: the rows that attention reads. The projections keep those before the norms.
    TensorView normed_query;  // [..., length, num_heads, head_dim]
    TensorView normed_key;    // [..., k_len, num_kv_heads, head_dim]
    RmsNorm::State q_norm;    // of q_norm
    RmsNorm::State k_norm;    // of k_norm
  };
};

// How a MultiHeadAttention differs from PyTorch's default.
struct MultiHeadAttentionSpec {
  int64_t num_kv_heads = 0;    // 0: num_heads; else a divisor of it
  int64_t head_dim = 0;        // 0: embed_dim / num_heads
  int64_t kdim = 0, vdim = 0;  // 0: embed_dim
  bool bias = true;            // in_proj_bias and out_proj.bias
  bool add_bias_kv = false;
  // A key and a value of zeros: the normaliser softmax_plus_one, which is the same without a key.
  // Only beside softmax and without scores.
  bool add_zero_attn = false;
  bool qk_norm = false;           // q_norm and k_norm; not beside add_bias_kv
  double qk_norm_epsilon = 1e-6;  // of both
  double dropout = 0;             // in [0, 1)
  uint64_t dropout_stream = 0;    // MultiHeadAttention::dropout_stream

  // Texts of the catalogue, whose objects the layer owns: "causal & window(15,0)", "softcap(30)",
  // "entmax15", "rotary(theta=500000)", "relative(key_rows=learned[17])". As a tensor with numbers
  // for each head, or of relative positions, `learned` makes a parameter [num_heads, ...] and
  // `shared` one [1, ...], for all heads: "head_scale(learned)", "t5_bias(learned[32])" with 32
  // buckets, "softmax_with_sink(learned)". Their names are "scores.0.scales", "normalizer.sinks",
  // "relative.key_rows". They begin where the variant does least: factors of 1, tables and sinks of
  // 0, ALiBi's own slopes, alphas of 1.5, KERPLE's amplitudes and rates of 1. initialize() (init.h)
  // keeps numbers of heads and draws tensors of relative positions.
  std::string mask = "";
  std::vector<std::string> scores = {};
  std::string normalizer = "";
  std::string rotary = "";
  std::string relative = "";
  // Other names of tensors in the texts; the views must outlive the layer.
  TensorSource tensors = {};
};

// Throws Error(argument) for sizes that do not fit together, Error(unknown_name, argument) for a
// text.
MultiHeadAttention make_multi_head_attention(int64_t embed_dim, int64_t num_heads,
                                             const MultiHeadAttentionSpec& spec = {},
                                             DType dtype = DType::f32);

// `x`: the shape of x. `key_value`: that of the call's key_value; none: self-attention.
MultiHeadAttention::State make_state(const MultiHeadAttention& layer, Shape x, Arena& arena,
                                     Shape key_value = {});

// What a call has beside x. The backward call takes the same inputs and options as the forward
// call; it ignores captures and `add`.
struct MultiHeadCall {
  TensorView key_value = {};
  TensorView value = {};  // only beside key_value; needed where vdim is not kdim
  // Beside the layer's: masks apply in addition, scores after the layer's. Other options replace
  // the layer's where they are set.
  AttentionOptions options = {};
  // Each is given exactly when `options` request it (AttentionOutputs). Heads are flat indices into
  // [..., num_heads].
  TensorView weights = {};      // [..., num_heads, rows, keys], or [heads, rows, keys]
  TensorView map = {};          // [..., num_heads, rows, columns], or [heads, rows, columns]
  TensorView top_keys = {};     // [..., num_heads, length, top_k] i64
  TensorView top_weights = {};  // [..., num_heads, length, top_k]
  TensorView entropy = {};      // [..., num_heads, length]
  TensorView received = {};     // [..., num_heads, keys]
  bool add = false;             // adds to what y holds
};

// Errors of the options are found after the projections are written: y is untouched then, and the
// state is unspecified.
void forward(const MultiHeadAttention& layer, const TensorView& x, const TensorView& y,
             const MultiHeadAttention::State& state, const Run& run,
             const MultiHeadCall& call = {});

// Gradients beside d_x; absent ones are not computed.
struct MultiHeadGradients {
  TensorView key_value = {};  // as key_value; of keys, and of values if the call has no `value`
  TensorView value = {};      // as value
  TensorView bias = {};       // of the bias of the options: its shape, f32 or f64; overwritten
};

// d_x, and the gradients of key_value and value, or what they hold + that if `add`. In self-
// attention d_x has all three parts. Scratch: rows x (2 inner + 2 kv) numbers and attention's
// workspace; with Memory::low in the context attention takes two passes (backward.h). For k_len of
// 4 embed_dim and more the heads are computed in groups where the gradients of all projections
// would exceed 64 MiB: a group has gradients of 32 MiB, or one key head. Not so beside qk_norm, a
// method, gradients of a bias or of relative positions, and in 16 bits. With rotary embedding or
// cosine attention every group still transforms the keys of all heads, into rows x kv numbers. d_x
// sums over the groups one after the other; their number depends on batch and length, so d_x of a
// sequence may have other bits alone than in a batch. Errors of the options are found before a
// gradient of a parameter changes; d_x is unspecified then.
void backward(MultiHeadAttention& layer, const TensorView& x, const TensorView& d_y,
              const MultiHeadAttention::State& state, const TensorView& d_x, const Run& run,
              bool add = false, const MultiHeadCall& call = {},
              const MultiHeadGradients& gradients = {});

}  // namespace rapt::nn
