#pragma once
// Scaled dot-product attention: output = softmax(scale * query key^T + bias, masked) value,
// exactly, in O(n) memory; approximately only by options.method.
//
// Shapes (f32, f64, bf16 or f16, all of one dtype):
//   query  [..., q_len, head_dim]      head_dim >= 1; q_len >= 0
//   key    [..., k_len, head_dim]      k_len >= 0
//   value  [..., k_len, value_dim]     value_dim >= 0, independent of head_dim
//   output [..., q_len, value_dim]
// Leading dimensions broadcast from the right: each is equal or 1, missing ones count as 1. On the
// third-last axis (heads), the number of key and value heads may also divide the number of query
// heads: query head h then uses key head h / (num_heads / num_kv_heads).
//
// Conventions that other libraries handle differently (docs/semantics.md has the table):
//   masks           true = may attend; several masks are combined by "and"
//   masked pairs    are left out, not given a large negative score: a masked NaN never reaches an
//                   output, an unmasked NaN always propagates
//   no key at all   output 0, lse -inf, weights 0
//   lse             natural logarithm
//   row transforms  rows of query and key are divided by their lengths (cosine), then rotated by
//                   their positions (rotary), before they are multiplied
//   relative        products with distance tables are part of the dot product, before scale
//   scores          score functions (softcap) change the scaled product in the given order
//   bias            added after the score functions, or before them (BiasOrder); -inf masks the
//                   pair out, whatever the score functions return
//   scale           multiplies the dot product; any finite value, negative and zero included
//
// 16-bit inputs are accumulated in f32, and lse, weights and captures are f32. With
// Precision::automatic, bf16 may use the machine's tile registers or 16-bit dot product, which
// round the weights to bf16 (plan().kernel says so). Then even an f32 output has errors of about
// 2^-9 of the values that it averages. f16 is computed like f32; only Precision::fast loses digits.
//
// Limits of f32: a score beyond 2.36e38 (the largest float / log2 e) overflows to an infinity. So
// does such a product of the scale and an element of the query (or of the query and the key, where
// bf16 is multiplied directly). An output overflows when 256 times the sum of its keys' values
// does, because weights reach 2^8 before they are normalised.
//
// Layout: the head axis comes before the sequence axis, [B, H, n, d]. For [B, n, H, d]
// (flash-attention, JAX) pass query.transposed(1, 2) and so on, also for the output; no copy is
// made.
//
// Inputs may have any strides. Outputs must not overlap an input, each other or themselves. Outputs
// may be columns of one matrix, such as d_query, d_key and d_value. With inputs, address ranges are
// compared, so an output that interleaves with an input in one buffer is rejected. Bits do not
// depend on the executor, and a row's bits do not depend on other rows or on masked keys
// (DESIGN.md).
//
// Every function may be called from any number of threads at once. Calls may share inputs, masks,
// scores, options and an executor that allows it, because a call changes none of them. Each call
// needs outputs and a workspace of its own.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>

#include "rapt/cached_keys.h"
#include "rapt/context.h"
#include "rapt/cosine.h"
#include "rapt/dropout.h"
#include "rapt/mask/mask.h"
#include "rapt/method/method.h"
#include "rapt/normalizer/custom_normalizer.h"
#include "rapt/precision.h"
#include "rapt/relative.h"
#include "rapt/rotary.h"
#include "rapt/score/custom_score.h"
#include "rapt/state.h"
#include "rapt/tensor.h"
#include "rapt/variants.h"

namespace rapt {

// The hooks of a variant of your own, by the element type of the computation; null: no hooks for
// that type.
template <template <class> class Kernels>
struct CustomKernels {
  const Kernels<float>* f32 = nullptr;   // for f32, bf16 and f16
  const Kernels<double>* f64 = nullptr;  // for f64

  // The hooks for float or double.
  template <class E>
  const Kernels<E>* of() const noexcept {
    if constexpr (std::is_same_v<E, double>)
      return f64;
    else
      return f32;
  }
};

// A normaliser of the catalogue, or your own.
template <class N>
concept NormalizerType = requires {
  N::kMergeable;
}
|| CustomNormalizerType<N>;

// A normaliser by reference: `options.normalizer = my_softmax;`. A call rejects a normaliser that
// is not in the catalogue and does not have the hooks of custom_normalizer.h.
struct NormalizerRef {
  int index = -1;      // its position in Normalizers; -1: not in the catalogue
  const void* object;  // must outlive the call
  const Declaration* declaration;
  bool mergeable = false;
  Statistic statistic = Statistic::none;
  CustomKernels<NormalizerKernels> custom;  // its hooks, if it is your own
  void (*check)(const void* normalizer) =
      nullptr;  // throws if its parameters contradict each other

  template <NormalizerType N>
  NormalizerRef(const N& normalizer)
      : object(&normalizer), declaration(detail::declaration_of(normalizer)) {
    if constexpr (CustomNormalizerType<N>) {
      mergeable = detail::mergeable_of<N>();
      statistic = detail::statistic_of<N>();
      custom = {detail::custom_normalizer<N, float>(), detail::custom_normalizer<N, double>()};
    } else {
      index = index_in<N>(Normalizers{});
      mergeable = N::kMergeable;
      statistic = N::kStatistic;
    }
    static_assert(detail::checked_while_const<N>, "check() of a normaliser must be const");
    if constexpr (requires { normalizer.check(); })
      check = [](const void* n) { static_cast<const N*>(n)->check(); };
  }
  template <NormalizerType N>
  NormalizerRef(const N&& normalizer) = delete;  // would be gone before the call
};

inline constexpr Softmax kSoftmax{};  // the default normaliser

// The masks of a call, combined by "and": `options.masks = {&causal, &lengths};`. Pointers are
// copied; the masks must outlive the call.
class MaskList {
 public:
  static constexpr size_t kMost = 16;  // so that options need no memory of their own

  MaskList() = default;
  MaskList(std::initializer_list<const Mask*> masks)
      : MaskList(Pointers(masks.begin(), masks.size())) {}
  // Any contiguous range of pointers. Throws Error(argument) for more than kMost.
  template <class Range>
  requires std::is_convertible_v<const Range&, std::span<const Mask* const>> MaskList(
      const Range& masks)
      : MaskList(Pointers(masks)) {}

  operator std::span<const Mask* const>() const noexcept { return {masks_, size_}; }
  const Mask* const* begin() const noexcept { return masks_; }
  const Mask* const* end() const noexcept { return masks_ + size_; }
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }

 private:
  struct Pointers : std::span<const Mask* const> {
    using std::span<const Mask* const>::span;
    Pointers(std::span<const Mask* const> masks) : std::span<const Mask* const>(masks) {}
  };
  explicit MaskList(Pointers masks);

  const Mask* masks_[kMost] = {};
  size_t size_ = 0;
};

// A score function of the catalogue, or your own.
template <class S>
concept ScoreType = !NormalizerType<S> && (index_in<S>(Scores{}) >= 0 || CustomScoreType<S>);

// A score by reference; it must outlive the call. Scores are in include/rapt/score/.
struct ScoreRef {
  int index = -1;  // its position in Scores; -1: not in the catalogue
  const void* object = nullptr;
  const Declaration* declaration = nullptr;
  // Throws if its parameters contradict each other or the leading dimensions of the output; null:
  // the ranges of the declaration suffice.
  void (*check)(const void* score, Shape leading) = nullptr;
  CustomKernels<ScoreKernels> custom = {};  // its hooks, if it is your own

  ScoreRef() = default;
  template <ScoreType S>
  ScoreRef(const S& score) : object(&score), declaration(detail::declaration_of(score)) {
    static_assert(detail::checked_while_const<S>, "check() of a score must be const");
    if constexpr (requires { score.check(Shape()); })
      check = [](const void* s, Shape leading) { static_cast<const S*>(s)->check(leading); };
    else if constexpr (requires { score.check(); })
      check = [](const void* s, Shape) { static_cast<const S*>(s)->check(); };
    if constexpr (CustomScoreType<S>)
      custom = {detail::custom_score<S, float>(), detail::custom_score<S, double>()};
    else
      index = index_in<S>(Scores{});
  }
  template <ScoreType S>
  ScoreRef(const S&& score) = delete;  // would be gone before the call
};

// The score functions of a call, applied one after the other: `options.scores = {softcap};`.
class ScoreList {
 public:
  static constexpr size_t kMost = 8;

  ScoreList() = default;
  ScoreList(std::initializer_list<ScoreRef> scores)
      : ScoreList(References(scores.begin(), scores.size())) {}
  // Any contiguous range of references. Throws Error(argument) for more than kMost.
  template <class Range>
  requires std::is_convertible_v<const Range&, std::span<const ScoreRef>> ScoreList(
      const Range& scores)
      : ScoreList(References(scores)) {}

  operator std::span<const ScoreRef>() const noexcept { return {scores_, size_}; }
  const ScoreRef* begin() const noexcept { return scores_; }
  const ScoreRef* end() const noexcept { return scores_ + size_; }
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }

 private:
  struct References : std::span<const ScoreRef> {
    using std::span<const ScoreRef>::span;
    References(std::span<const ScoreRef> scores) : std::span<const ScoreRef>(scores) {}
  };
  explicit ScoreList(References scores);

  ScoreRef scores_[kMost] = {};
  size_t size_ = 0;
};

// Where the bias is added. A softcap that comes after the bias bounds the bias, too.
enum class BiasOrder : uint8_t {
  after_scores,   // softcap(scale qk) + bias: flash-attention, ONNX since 1.22, Hugging Face
  before_scores,  // softcap(scale qk + bias): x-transformers, ONNX 1.18 to 1.21
};
inline constexpr const char* kBiasOrderNames[] = {"after-scores", "before-scores"};

// Several sequences in one tensor, one after the other ("variable length", flash-attention's
// cu_seqlens): sequence s has the queries [query_starts[s], query_starts[s + 1]) of the second-last
// axis and the keys [key_starts[s], key_starts[s + 1]). Each is a separate problem: positions,
// masks, anchors and top_keys count from its start, and it has the bits of a separate call. There
// are two exceptions. Dropout counts positions in the whole tensors. And if a separate call would
// be so short that it takes another kernel class, the bits are those of a call with
// options.invariant. Results have the shapes of one sequence of all queries and keys. A bias, masks
// that read tensors, weights and maps are rejected with Error(unsupported), because their positions
// would be those of the whole tensors.
struct PackedSequences {
  TensorView query_starts = {};  // [sequences + 1] i64, from 0 to q_len, never decreasing
  TensorView key_starts = {};    // [sequences + 1] i64; absent: the same as the queries'

  bool defined() const noexcept { return query_starts.defined(); }
};

// Rotary embedding of query and key within the call. It gives the bits of a call with rows that
// rotary_embedding() has rotated, but needs no copy of the queries. Rotated rows are rounded to
// their dtype, whatever the precision. The workspace holds a copy of the keys.
struct FusedRotary {
  const Rotary* embedding = nullptr;  // must outlive the call; null: none
  // In packed sequences, positions count from the start of each; a tensor of positions has the
  // length of the whole.
  RotaryPositions query = {};
  RotaryPositions key = {};  // the same for keys
  bool rotate_key = true;    // false: keys are already rotated, as in a cache; `key` must be unset
};

// Types of lists of indices: any list, and lists that are not temporaries.
template <class List>
concept IndexList = std::is_convertible_v<List, std::span<const int64_t>>;
template <class List>
concept LastingIndexList = IndexList<List> &&
    (std::is_lvalue_reference_v<List> ||
     std::ranges::enable_borrowed_range<std::remove_cv_t<List>>);

// A reference to indices that the caller keeps: `request.heads = my_vector;`.
struct Indices : std::span<const int64_t> {
  Indices() = default;
  template <LastingIndexList List>
  Indices(List&& list) : std::span<const int64_t>(list) {}
  template <IndexList List>
  Indices(List&& list) = delete;  // would be gone before the call: give it a name
};

inline constexpr int64_t kToEnd = -1;  // the end of a range of rows: after the last row

// What the rows of a WeightsRequest contain.
enum class WeightsStage : uint8_t {
  weights,  // weights; 0 for masked pairs
  scores,   // scores: after scale, score functions and bias; -inf for masked pairs
};

// Which weights to return: all, or those of some rows and heads. They cost a second pass over the
// scores of these rows, and only their own memory. All weights of at most 16 queries per head take
// no second pass, unless a map is requested, too, or the normaliser is sparse or your own.
struct WeightsRequest {
  int64_t row_begin = 0;
  int64_t row_end = kToEnd;  // kToEnd: q_len
  // Flat indices into the leading dimensions of the output, in any order, with repetitions; they
  // must outlive the call. Empty: all heads, and the weights have the leading dimensions of the
  // output.
  Indices heads = {};
  // Chosen rows, in any order, instead of row_begin and row_end. Empty: the range.
  Indices rows = {};
  WeightsStage stage = WeightsStage::weights;  // or scores instead
};

// How the pairs of a cell are pooled into one number.
enum class Pool : uint8_t { mean, max, sum };
inline constexpr const char* kPoolNames[] = {"mean", "max", "sum"};

// The weights as a small map: cell (a, b) pools the rows [a q_len / rows, (a + 1) q_len / rows) and
// the keys [b k_len / columns, (b + 1) k_len / columns), rounded down. Masked pairs count as weight
// 0, and the mean is over all pairs of the cell. Takes a second pass over the scores.
struct MapRequest {
  int64_t rows = 0;     // 1 to q_len
  int64_t columns = 0;  // 1 to k_len
  Pool pool = Pool::mean;
  Indices heads = {};  // as in WeightsRequest
};

struct AttentionOptions {            // how a call computes, and which results it returns
  std::optional<double> scale = {};  // default: 1 / sqrt(head_dim)
  MaskList masks = {};
  TensorView bias = {};  // [..., q_len or 1, k_len or 1], query's dtype or f32
  ScoreList scores = {};
  // Without a bias, or without scores, both orders are the same call, bit for bit.
  BiasOrder bias_order = BiasOrder::after_scores;
  NormalizerRef normalizer = kSoftmax;
  std::optional<DType> output_dtype = {};  // default: the query's; f32 is possible for bf16 and f16
  Precision precision = Precision::automatic;
  // One kernel class for all sizes, so that a row's bits do not depend on q_len and k_len. Without
  // it, on sets with tile registers, calls with fewer than 1,024 pairs of a query and a key use
  // FMA. In this version other sets have one class per dtype and precision. If a later version has
  // more, calls with `invariant` keep their bits.
  bool invariant = false;
  PackedSequences packed = {};
  CachedKeys cache = {};              // keys and values of sequences in a cache: rapt/cached_keys.h
  Dropout dropout = {};               // dropout of weights: rapt/dropout.h
  std::optional<Cosine> cosine = {};  // first: rows of query and key are divided by their lengths
  FusedRotary rotary = {};            // then: rows of query and key are rotated by their positions
  RelativePositions relative = {};    // distance tables: rapt/relative.h

  // Captures: further results, without the q_len x k_len matrix.
  std::optional<WeightsRequest> weights = {};  // default: none
  std::optional<MapRequest> map = {};
  // For each query the keys of its top_k largest scores, of equal scores the earlier key first; at
  // most k_len. Needs no second pass; scratch grows with top_k.
  int64_t top_k = 0;
  bool entropy = false;  // per query -sum_j w_j ln w_j, in nats; 0 for a row without keys
  // For each key and query head, the sum of its weights over the queries. Needs a second pass, or,
  // for at most 16 queries per head, scratch for the weights if they are not returned.
  bool received = false;
  // With `received`: the sums are added to what outputs.received holds, for totals over many calls.
  // Error(argument) without `received`, and in calls that allocate their results.
  bool add_received = false;

  // How attention is computed when it is not computed exactly: rapt/method/. Null: exactly. The
  // method must outlive the call. It rejects by name whatever it does not accept.
  const Method* method = nullptr;
};

// The outputs of a call with the caller's memory. `state.output` is required, `state.statistic` may
// be absent. Every other member must be given exactly if the option of its name requests it
// (top_keys and top_weights: top_k). Leading dimensions (...) are those of the output; dtypes are
// those of AttentionResult.
struct AttentionOutputs {
  AttentionState state;
  TensorView weights = {};      // [..., rows, k_len], or [heads, rows, k_len] for chosen heads
  TensorView map = {};          // [..., rows, columns], or [heads, rows, columns]
  TensorView top_keys = {};     // [..., q_len, top_k] i64, largest first; -1: no more keys allowed
  TensorView top_weights = {};  // [..., q_len, top_k]; 0 where there is no key
  TensorView entropy = {};      // [..., q_len]
  TensorView received = {};     // [..., k_len]; read, too, with options.add_received
};

// The results of a call. All but output and top_keys are f32, or f64 for f64.
struct AttentionResult {
  Tensor output;       // [..., q_len, value_dim], the query's dtype or options.output_dtype
  Tensor statistic;    // [..., q_len]: the natural-log lse for softmax
  Tensor weights;      // if wanted: [..., rows, k_len], or [heads, rows, k_len] for chosen heads
  Tensor map;          // if wanted: [..., rows, columns], or [heads, rows, columns]
  Tensor top_keys;     // if wanted: [..., q_len, top_k] i64
  Tensor top_weights;  // if wanted: [..., q_len, top_k]
  Tensor entropy;      // if wanted: [..., q_len]
  Tensor received;     // if wanted: [..., k_len]

  // Views of output and statistic, for merge(). They must not outlive the result.
  AttentionState state() &;
  AttentionState state() && = delete;
};

// What a call would do and need. Data pointers of query, key, value, bias, parameters per head and
// distance tables may be null. A plan reads only tensors of masks, starts of packed sequences,
// positions that index rotary caches, and parameters per head that have a range.
struct Plan {
  const char* isa = "";  // the instruction set, as lscpu spells it
  // The kernel class: "tile" (by FMA), "few queries" (the same products and bits for a few queries,
  // read as they are stored), "tile of bf16 dot products", "tile registers, six products".
  const char* kernel = "";
  Statistic statistic = Statistic::none;  // what the statistic means
  int64_t tile_queries = 0, block_keys = 0;
  int threads = 1;             // the most that work on the call, the caller included
  int64_t tiles_computed = 0;  // no pair of the tile is masked
  int64_t tiles_partial = 0;   // computed, some pairs are masked
  int64_t tiles_skipped = 0;   // not computed
  int64_t allowed_scores = 0;  // unmasked pairs (query, key) in all heads, at most 2^63 - 1
  size_t workspace_bytes = 0;  // scratch, for all threads
  size_t result_bytes = 0;     // of all results of the simple call
  size_t matrix_bytes = 0;     // of the q_len x k_len matrices of all heads, in f32 or f64
  int64_t group_heads = 1;     // heads with few queries that are computed as queries of one head
  const char* method = "";     // the name of options.method; "": exact attention
  // Pairs whose scores a method computes, at most; with exact attention, 0. Plans of methods have
  // no tiles.
  int64_t method_pairs = 0;
};

// Throws Error(shape, dtype, argument, overflow, unsupported, unknown_name).
Plan plan(const TensorView& query, const TensorView& key, const TensorView& value,
          const AttentionOptions& options = {}, const Context& context = {});

// plan().workspace_bytes alone, without counting tiles. It is valid for calls with tensors of these
// shapes and strides, these options, with the same query_starts and lengths of packed sequences,
// and this context; others may need more or less. Throws as plan().
[[nodiscard]] size_t workspace_bytes(const TensorView& query, const TensorView& key,
                                     const TensorView& value, const AttentionOptions& options = {},
                                     const Context& context = {});

// The simple call: allocates its results and its workspace.
// Throws Error as plan() and Error(memory_limit, cancelled), std::bad_alloc.
AttentionResult scaled_dot_product_attention(const TensorView& query, const TensorView& key,
                                             const TensorView& value,
                                             const AttentionOptions& options = {},
                                             const Context& context = {});

// The call for engines: writes into the caller's memory and uses the caller's workspace (at least
// workspace_bytes(), any alignment). Allocates nothing, once the process has chosen its kernels and
// the library's threads, if they are used, have started. Views of outputs may have any strides with
// which elements do not overlap. Throws Error as above and Error(overlap). If it throws, nothing
// was written, except after Error(cancelled) or if the executor throws.
void scaled_dot_product_attention(const TensorView& query, const TensorView& key,
                                  const TensorView& value, const AttentionOptions& options,
                                  const AttentionOutputs& outputs, std::span<std::byte> workspace,
                                  const Context& context = {});

}  // namespace rapt
