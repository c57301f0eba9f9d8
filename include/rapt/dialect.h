#pragma once
// Dialects translate attention calls of other projects into options of rapt. docs/dialects.md lists
// the functions.
//
//   rapt::DialectArguments words;         // as written for flash-attention
//   words.causal = true;
//   words.window_left = 511;
//   const rapt::DialectOptions call(rapt::dialect("flash-attn"), words);
//   auto result = rapt::scaled_dot_product_attention(q, k, v, call.options());
//
// A dialect is a row of data. Arguments that a project does not have are rejected, because their
// meaning would be a guess. Tensors keep the caller's layout: heads_first() returns the view that
// rapt needs.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "rapt/attention.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/not.h"
#include "rapt/score/softcap.h"

namespace rapt {

// The meaning of `true` in a boolean mask.
enum class MaskPolarity : uint8_t { none, true_attends, true_is_masked };  // none: takes no mask
inline constexpr const char* kMaskPolarityNames[] = {"none", "attends", "is masked"};

// The position of the first query among the keys, for causal and window masks.
enum class DialectAnchor : uint8_t {
  top_left,      // at key 0
  bottom_right,  // at key k_len - q_len
  past,          // after the keys of a cache: at key DialectArguments::past
  named,         // the call says which corner: DialectArguments::anchor
};
inline constexpr const char* kDialectAnchorNames[] = {"top-left", "bottom-right", "past", "named"};

// What the left bound w of a window counts.
enum class WindowCount : uint8_t {
  none,        // there is no window
  neighbours,  // keys before the query's own position: w + 1 keys with its own
  with_self,   // keys up to and with the query's own position: w keys
};
inline constexpr const char* kWindowCountNames[] = {"none", "neighbours", "with itself"};

// Where a softcap is applied.
enum class SoftcapPlace : uint8_t {
  none,
  before_bias_and_masks,
  between_bias_and_masks,  // it bounds the bias, too
};
inline constexpr const char* kSoftcapPlaceNames[] = {"none", "before bias and masks",
                                                     "between bias and masks"};

// The result of a query without a key.
enum class EmptyRow : uint8_t { zero, nan, mean_of_values };
inline constexpr const char* kEmptyRowNames[] = {"0", "NaN", "mean of values"};

// The logarithm of the lse; none: it is not returned.
enum class LseBase : uint8_t { none, e, two };
inline constexpr const char* kLseBaseNames[] = {"none", "e", "2"};

// The scale of a call that gives none.
enum class DialectScale : uint8_t { inverse_root, one };
inline constexpr const char* kDialectScaleNames[] = {"1/sqrt(head_dim)", "1"};

// The layout of a tensor: [..., H, n, d] or [..., n, H, d].
enum class DialectLayout : uint8_t { heads_first, length_first };
inline constexpr const char* kDialectLayoutNames[] = {"[B, H, n, d]", "[B, n, H, d]"};

// The effect of a tensor of key lengths.
enum class DialectLengths : uint8_t {
  none,     // the project has no such tensor
  plain,    // keys beyond the length are masked out, nothing else changes
  anchors,  // also, causal and window are anchored at the length instead of k_len
};
inline constexpr const char* kDialectLengthsNames[] = {"none", "plain", "move the anchor"};

struct Dialect {           // the conventions of one project
  const char* name;        // "pytorch"
  const char* function;    // the function, its project and version
  DialectLayout layout;    // of query, key, value and output
  DialectScale scale;      // the scale of a call that gives none
  MaskPolarity mask;       // the meaning of true
  bool mask_and_causal;    // both apply if a call has both
  bool bias;               // accepts numbers that are added to the scores
  DialectAnchor anchor;    // of causal and window
  WindowCount window;      // what the left bound counts
  bool window_right;       // has a right bound, which always counts neighbours
  SoftcapPlace softcap;    // where a softcap is applied
  DialectLengths lengths;  // the effect of key lengths
  bool pages;              // keys may lie in pages of a cache that a block table names
  LseBase lse;             // its logarithm
  double empty_lse;        // the lse of a query that may attend to no key
  EmptyRow empty;          // the output of such a query
};

// All dialects, in the order of docs/dialects.md.
std::span<const Dialect> dialects() noexcept;

// The dialect of this name. Throws Error(unknown_name) with a suggestion.
const Dialect& dialect(std::string_view name);

// A call with the arguments of the project; an absent argument is not given.
struct DialectArguments {
  std::optional<double> scale = {};  // multiplies the dot products
  bool causal = false;               // no key after the query's own position
  // Bounds of a window, at most 2^53; absent: none on that side, which others write as -1 or None.
  std::optional<int64_t> window_left = {};
  std::optional<int64_t> window_right = {};  // likewise, on the right
  TensorView mask = {};                      // boolean, broadcast to [..., q_len, k_len]
  TensorView bias = {};                      // numbers, broadcast to [..., q_len, k_len]
  TensorView lengths = {};                   // [B] i64: keys of each sequence
  // [B, most pages of a sequence] i32 or i64: the pages of a cache (rapt/cached_keys.h). Lengths
  // are then required, i32 or i64.
  TensorView block_table = {};
  std::optional<double> softcap = {};  // scores stay within +-softcap
  int64_t past = 0;                    // keys before the first query, for DialectAnchor::past
  std::optional<Anchor> anchor = {};   // for DialectAnchor::named; absent: top_left
};

// The options of rapt that mean the same as the arguments, with the masks that they point to.
class DialectOptions {
 public:
  // Throws Error(unsupported) for arguments that the project does not have, Error(argument) for a
  // value out of range.
  DialectOptions(const Dialect& dialect, const DialectArguments& arguments);
  DialectOptions(const DialectOptions&) = delete;  // options() points into it
  DialectOptions& operator=(const DialectOptions&) = delete;

  // For a call of rapt; they point into this object.
  const AttentionOptions& options() const noexcept { return options_; }

 private:
  Softcap softcap_;
  Boolean given_;
  Not not_given_{&given_};
  Causal last_;    // allows keys up to the last one that a query attends to
  Causal before_;  // allows keys up to the last one that is too far to the left
  Not not_before_{&before_};
  Lengths lengths_;
  AttentionOptions options_;
};

// The view [..., heads, length, dim] of a tensor in the dialect's layout; nothing is copied. Throws
// Error(shape) for fewer than three dimensions.
TensorView heads_first(const Dialect& dialect, const TensorView& tensor);

// Converts the results of a call with softmax, in place, to those that the project would return:
// the lse gets the project's base, and rows without keys (lse -inf) get the lse and the output that
// the project returns for them.
// `state` has output and statistic. `value` is that of the call, for a mean of all values. Throws
// Error(argument, shape, dtype, unsupported). If the dialect returns no lse, the lse is unchanged.
void translate_results(const Dialect& dialect, const AttentionState& state,
                       const TensorView& value);

}  // namespace rapt
