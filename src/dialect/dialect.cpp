// The dialects as a table: how other libraries' calls map to rapt's options. This room translates
// calls and results; it may use the public headers and src/attention/call.
//
// Sources: PyTorch 2.13 (functional.scaled_dot_product_attention, nn.MultiheadAttention);
// flash-attention 2.8, docstrings of flash_attn_interface.py; jax.nn.dot_product_attention 0.10;
// ONNX Attention, opsets 23 to 25; transformers 5, masking_utils.py and eager_attention_forward;
// cudnn-frontend 1.14, docs/operations/Attention.md; FlashInfer 0.3, flashinfer.prefill;
// x-transformers 2, attend.py (Attend without flash, which has no softclamp).
#include "rapt/dialect.h"

#include <cmath>
#include <string>
#include <vector>

#include "rapt/catalogue.h"

namespace rapt {
namespace {

constexpr double kNone = -INFINITY;          // the lse of a row without keys
constexpr double kJaxFill = -2.38197633e38;  // 0.7 times the smallest f32, which JAX masks with

using A = DialectAnchor;
using E = EmptyRow;
using L = DialectLengths;
using M = MaskPolarity;
using W = WindowCount;
constexpr DialectLayout kHeads = DialectLayout::heads_first, kLength = DialectLayout::length_first;
constexpr DialectScale kRoot = DialectScale::inverse_root, kOne = DialectScale::one;
constexpr SoftcapPlace kNoCap = SoftcapPlace::none, kCap = SoftcapPlace::before_bias_and_masks,
                       kCapBias = SoftcapPlace::between_bias_and_masks;

// clang-format off
constexpr Dialect kDialects[] = {
  //                                                                                mask_and_causal       window,
  // name            function                               layout   scale  mask                 |  bias     anchor           right          softcap  lengths     lse            empty_lse  empty
  {"pytorch",       "torch.nn.functional.scaled_dot_product_attention, 2.13",
                                                            kHeads,  kRoot, M::true_attends,    true,  true,  A::top_left,     W::none,       false, kNoCap, L::none,    false, LseBase::none, kNone,     E::zero},
  {"pytorch-mha",   "torch.nn.MultiheadAttention, 2.13",    kHeads,  kRoot, M::true_is_masked,  true,  true,  A::top_left,     W::none,       false, kNoCap, L::none,    false, LseBase::none, kNone,     E::nan},
  {"flash-attn",    "flash_attn_func, flash-attention 2.1 and later",
                                                            kLength, kRoot, M::none,            true,  false, A::bottom_right, W::neighbours, true,  kCap,   L::anchors, true,  LseBase::e,    INFINITY,  E::zero},
  {"jax",           "jax.nn.dot_product_attention, 0.10",   kLength, kRoot, M::true_attends,    true,  true,  A::top_left,     W::neighbours, true,  kNoCap, L::plain,   false, LseBase::e,    kJaxFill,  E::mean_of_values},
  {"onnx",          "Attention, opsets 23 to 25",           kHeads,  kRoot, M::true_attends,    true,  true,  A::past,         W::neighbours, true,  kCap,   L::anchors, false, LseBase::none, kNone,     E::zero},
  {"huggingface",   "eager_attention_forward, transformers 5",
                                                            kHeads,  kRoot, M::true_attends,    true,  true,  A::past,         W::with_self,  false, kCap,   L::none,    false, LseBase::none, kNone,     E::mean_of_values},
  {"cudnn",         "Graph::sdpa, cudnn-frontend 1.14",     kHeads,  kOne,  M::none,            true,  true,  A::named,        W::with_self,  true,  kNoCap, L::anchors, false, LseBase::e,    kNone,     E::zero},
  {"flashinfer",    "single_prefill_with_kv_cache, FlashInfer 0.3",
                                                            kLength, kRoot, M::true_attends,    false, false, A::bottom_right, W::neighbours, false, kCap,   L::none,    false, LseBase::two,  kNone,     E::zero},
  {"x-transformers", "x_transformers.attend.Attend, 2",     kHeads,  kRoot, M::true_attends,    true,  true,  A::bottom_right, W::none,       false, kCapBias, L::none,  false, LseBase::none, kNone,     E::zero},
};
// clang-format on

}  // namespace

std::span<const Dialect> dialects() noexcept { return kDialects; }

const Dialect& dialect(std::string_view name) {
  std::vector<std::string_view> names;
  std::string known;
  for (const Dialect& one : kDialects) {
    if (name == one.name) return one;
    names.push_back(one.name);
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  const std::string guess = nearest(name, names);
  throw Error(ErrorCode::unknown_name,
              "there is no dialect \"" + std::string(name.substr(0, 40)) + "\"" +
                  (guess.empty() ? "." : "; did you mean " + guess + "?") + " Known: " + known);
}

TensorView heads_first(const Dialect& dialect, const TensorView& tensor) {
  if (tensor.rank < 3)
    throw Error(ErrorCode::shape, std::string("dialect ") + dialect.name + ": " +
                                      to_string(tensor.dims()) +
                                      "; expected heads, length and dim, three at least");
  return dialect.layout == DialectLayout::heads_first ? tensor : tensor.transposed(-3, -2);
}

}  // namespace rapt
