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
  past,          // behind the keys of a cache: DialectArguments::past
  named,         // the call says which corner: DialectArguments::anchor
};
inline constexpr const char* kDialectAnchorNames[] = {"top-left", "bottom-right", "past", "named"};

// What the left bound w of a window counts.
enum class WindowCount : uint8_t {
  none,        // has no window
  neighbours,  // keys before the query's own position: w + 1 keys with it
  with_self,   // keys with the query's own position: w keys
};
inline constexpr const char* kWindowCountNames[] = {"none", "neighbours", "with itself"};

// Where a softcap stands.
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

// Keys of each sequence, as numbers.
enum class DialectLengths : uint8_t {
  none,     // takes none
  plain,    // keys beyond it are excluded, nothing else changes
  anchors,  // causal and window count from the end of the sequence instead of k_len
};
inline constexpr const char* kDialectLengthsNames[] = {"none", "plain", "move the anchor"};

struct Dialect {           // the conventions of one project
  const char* name;        // "pytorch"
  const char* function;    // of which project and version
  DialectLayout layout;    // of query, key, value and output
  DialectScale scale;      // of a call that gives none
  MaskPolarity mask;       // what true says
  bool mask_and_causal;    // do both apply where a call has both?
  bool bias;               // does it take numbers that are added to the scores?
  DialectAnchor anchor;    // of causal and window
  WindowCount window;      // what its left bound counts
  bool window_right;       // has it a right bound? Always of neighbours
  SoftcapPlace softcap;    // where a softcap is applied
  DialectLengths lengths;  // what lengths of keys do
  LseBase lse;             // of which logarithm
  double empty_lse;        // lse of a query that may attend to nothing
  EmptyRow empty;          // its output
};

// All, in the order of docs/dialects.md.
std::span<const Dialect> dialects() noexcept;

// By its name. Throws Error(unknown_name) with a suggestion.
const Dialect& dialect(std::string_view name);

// A call in the words of the project; what is absent is not asked for.
struct DialectArguments {
  std::optional<double> scale = {};  // multiplies the dot products
  bool causal = false;               // no key behind the query's own position
  // Bounds of a window, at most 2^53; absent: none on that side, what others say as -1 or None.
  std::optional<int64_t> window_left = {};
  std::optional<int64_t> window_right = {};  // likewise
  TensorView mask = {};                      // boolean, broadcast to [..., q_len, k_len]
  TensorView bias = {};                      // numbers, likewise
  TensorView lengths = {};                   // [B] i64: keys of each sequence
  std::optional<double> softcap = {};        // scores stay within +-softcap
  int64_t past = 0;                          // keys before the first query, for DialectAnchor::past
  std::optional<Anchor> anchor = {};         // for DialectAnchor::named; absent: top_left
};

// Options that mean what the arguments mean in the dialect, with the masks that they point to.
class DialectOptions {
 public:
  // Throws Error(unsupported) for what the project does not have, Error(argument) for a value out
  // of range.
  DialectOptions(const Dialect& dialect, const DialectArguments& arguments);
  DialectOptions(const DialectOptions&) = delete;  // options() points into it
  DialectOptions& operator=(const DialectOptions&) = delete;

  // For a call of rapt; they point into this object.
  const AttentionOptions& options() const noexcept { return options_; }

 private:
  Softcap softcap_;
  Boolean given_;
  Not not_given_{&given_};
  Causal last_;    // the last key that is seen
  Causal before_;  // the last key that is too far to the left
  Not not_before_{&before_};
  Lengths lengths_;
  AttentionOptions options_;
};

// [..., heads, length, dim] of a tensor in the dialect's layout; nothing is copied. Throws
// Error(shape) for fewer than three dimensions.
TensorView heads_first(const Dialect& dialect, const TensorView& tensor);

// Turns the results of a call with softmax into what the project would have returned, in place: the
// lse to its base, and rows whose lse is -inf, which are those without keys, to its number and
// output. `state` has output and statistic; `value` is that of the call, for a mean of all values.
// Throws Error(argument, shape, dtype, unsupported): a dialect that returns no lse leaves it.
void translate_results(const Dialect& dialect, const AttentionState& state,
                       const TensorView& value);

}  // namespace rapt
