// Arguments that would be destroyed before the call reads them do not compile. Compiled only.
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "rapt/rapt.h"

namespace {

using namespace rapt;

template <class T, class... From>
constexpr bool takes = std::is_constructible_v<T, From...>;

// Lists of heads and rows refer to a container that outlives them, not to a temporary.
static_assert(takes<Indices, std::vector<int64_t>&> && takes<Indices, const std::vector<int64_t>&>);
static_assert(takes<Indices, int64_t (&)[3]> && takes<Indices, std::array<int64_t, 2>&>);
static_assert(takes<Indices, std::span<int64_t>> && takes<Indices, std::span<const int64_t>>);
static_assert(takes<Indices, Indices> && takes<Indices, Indices&>);
static_assert(!takes<Indices, std::vector<int64_t>> && !takes<Indices, const std::vector<int64_t>>);
static_assert(!takes<Indices, std::array<int64_t, 2>> && !takes<Indices, std::vector<int>&>);

// Masks keep views, and a view does not keep its tensor alive.
static_assert(takes<Lengths, Tensor&> && takes<Lengths, const Tensor&>);
static_assert(takes<Lengths, TensorView> && !takes<Lengths, Tensor>);
static_assert(takes<Prefix, Tensor&> && !takes<Prefix, Tensor> && takes<Prefix, int>);
static_assert(takes<Boolean, Tensor&> && !takes<Boolean, Tensor>);
static_assert(takes<Documents, Tensor&> && !takes<Documents, Tensor>);
static_assert(takes<Documents, Tensor&, TensorView> && !takes<Documents, Tensor, Tensor&>);
static_assert(!takes<Documents, Tensor&, Tensor> && !takes<Documents, Tensor, Tensor>);
static_assert(takes<DocumentsByStarts, Tensor&> && !takes<DocumentsByStarts, Tensor>);
static_assert(takes<DocumentsByStarts, Tensor&, Tensor&>);
static_assert(!takes<DocumentsByStarts, Tensor&, Tensor>);
static_assert(takes<Blocks, int, int, Tensor&, Tensor&>);
static_assert(!takes<Blocks, int, int, Tensor&, Tensor>);
static_assert(!takes<Blocks, int, int, Tensor, Tensor&>);

// A cache in the caller's memory refers to it, and views of a cache refer to the cache.
static_assert(takes<KeyValueCache, KeyValueCacheOptions, Tensor&, Tensor&>);
static_assert(takes<KeyValueCache, KeyValueCacheOptions, TensorView, TensorView>);
static_assert(!takes<KeyValueCache, KeyValueCacheOptions, Tensor&, Tensor>);
static_assert(!takes<KeyValueCache, KeyValueCacheOptions, Tensor, Tensor&>);
template <class Cache>
concept HasViews = requires(Cache&& cache) {
  std::forward<Cache>(cache).views();
};
static_assert(HasViews<KeyValueCache&> && HasViews<const KeyValueCache&>);
static_assert(!HasViews<KeyValueCache> && !HasViews<const KeyValueCache>);

// References to scores and normalisers reject temporaries, and objects of the other kind.
static_assert(takes<ScoreRef, Softcap&> && !takes<ScoreRef, Softcap>);
static_assert(takes<NormalizerRef, Softmax&> && !takes<NormalizerRef, Softmax>);
static_assert(!takes<ScoreRef, Softmax&> && !takes<NormalizerRef, Softcap&>);
// The same holds for custom scores and normalisers.
struct Half {
  template <class E>
  E operator()(E s, const auto&) const {
    return s / 2;
  }
};
using OwnScore = CustomScore<Half, Half>;
using OwnWeights = CustomWeights<Half>;
using OwnShares = CustomShares<Half, Half>;
static_assert(takes<ScoreRef, OwnScore&> && !takes<ScoreRef, OwnScore>);
static_assert(takes<NormalizerRef, OwnWeights&> && !takes<NormalizerRef, OwnWeights>);
static_assert(takes<NormalizerRef, OwnShares&> && !takes<NormalizerRef, const OwnShares>);
static_assert(!takes<ScoreRef, OwnShares&> && !takes<NormalizerRef, OwnScore&>);
// A call uses objects as const, so a check() that is not const would never be called.
struct ChecksItself {
  void check() const {}
};
struct ChangesItself {
  void check() {}
};
static_assert(detail::checked_while_const<ChecksItself> && detail::checked_while_const<Softmax>);
static_assert(!detail::checked_while_const<ChangesItself>);
static_assert(std::is_convertible_v<const MadeScore&, ScoreRef>);
static_assert(std::is_convertible_v<MadeScore&, ScoreRef>);
static_assert(!std::is_convertible_v<MadeScore, ScoreRef>);
static_assert(takes<ScoreList, std::vector<ScoreRef>&> && takes<MaskList, std::vector<Mask*>&>);

// Constraints test declarations only. These functions show that the accepted types compile.
[[maybe_unused]] MaskList masks_of(std::span<const Mask* const> masks) { return masks; }
[[maybe_unused]] MaskList masks_of(const std::vector<const Mask*>& masks) { return masks; }
[[maybe_unused]] ScoreList scores_of(std::span<const ScoreRef> scores) { return scores; }
[[maybe_unused]] ScoreList scores_of(const std::vector<ScoreRef>& scores) { return scores; }
[[maybe_unused]] Indices indices_of(std::span<const int64_t> list) { return list; }
[[maybe_unused]] Indices indices_of(const std::vector<int64_t>& list) { return list; }
[[maybe_unused]] ScoreList score_of(const MadeScore& made) { return {made}; }

}  // namespace
