#pragma once
// LSH attention, the algorithm of Reformer: a query is compared only with keys that a hash puts
// near it, in several rounds. The result is the softmax over the union of all pairs looked at:
//
//   round r:   bucket_r(x) = argmax [x R_r; -x R_r]     R_r: normal [head_dim, buckets / 2]
//              rows in the order (bucket, position), cut into chunks
//   pairs:     M = all (i, j) that meet in some round and that the masks allow
//   output_i = sum_{j: (i, j) in M} softmax_j(scale q_i k_j) v_j,   lse_i: that of the same sum
//
// *Shared* keys: query and key are one view; k_j = q_j / |q_j| (0 where 1 / |q_j| overflows). A
// token does not attend to itself, unless it attends to nothing else. Rows of a chunk meet those of
// their own chunk and of the one before. *Separate* keys: both are hashed by the same rotations,
// and a query meets the keys of its bucket; q_len and k_len may differ, and `chunk` decides the
// buckets alone.
//
// More than 128 buckets are pairs of two hashes with even numbers of buckets near the square root,
// whose product is at least `buckets`. A row whose projections are not finite goes to the last
// bucket. Rows beyond a length (mask lengths) are not hashed; shared, such a query has no key.
//
// With more rounds M grows to all pairs, and the result becomes exact attention (of shared keys:
// with these keys and without a token itself). With `count_all` it does not: a pair that meets
// in several rounds counts as often, as in Trax and Hugging Face.
//
// Returned weights and maps are those of the pairs looked at, 0 for all others; scores are -inf for
// these.
//
// Gradients are exact for the pairs looked at; the hash has none. Shared keys: d_query has the
// gradients of both sides, d_key does not exist. The backward pass needs the forward call's seed.
// Source: Kitaev, Kaiser & Levskaya 2020, arXiv:2001.04451.
#include "rapt/method/method.h"

namespace rapt {

struct AttentionOptions;

// Where the keys of LSH attention come from.
enum class LshKeys : uint8_t {
  shared,    // query and key are one view; keys are queries divided by their lengths
  separate,  // the key of the call
};
// Where chunks of shared keys begin.
enum class LshCut : uint8_t {
  row,     // every `chunk` rows of the sorted row; the first chunk follows the last. Later tokens
           // shift the borders of chunks, so they decide which earlier keys a query meets
  bucket,  // anew with each bucket: a causal result has the same bits whatever follows
};
// How a pair that meets in several rounds counts.
enum class LshDuplicates : uint8_t {
  count_once,  // in the first round alone
  count_all,   // in each of them
};

class Lsh final : public Method {
 public:
  int64_t rounds = 4;                                    // 1 to 64
  int64_t chunk = 64;                                    // rows of a chunk; of n or more: one chunk
  int64_t buckets = 0;                                   // of a round, even; 0: two per chunk
  LshKeys keys = LshKeys::shared;                        // query and key are one view, or two
  LshCut cut = LshCut::row;                              // where chunks of shared keys begin
  LshDuplicates duplicates = LshDuplicates::count_once;  // how pairs of several rounds count
  // Rotations follow from the seed, the index on the last leading dimension and the round.
  int64_t seed = 0;
  // [rounds, head_dim, columns], f32 or f64, finite: rotations of all heads instead of the seed's.
  // columns: half the buckets, or half of both factors, those of the first one first.
  TensorView rotations = {};

  Lsh() = default;
  explicit Lsh(int64_t number_of_rounds) : rounds(number_of_rounds) {}

  static const Declaration kDeclaration;
  static const MethodScope kScope;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  const MethodScope& scope() const noexcept override { return kScope; }
  void check(const MethodCall& call) const override;
  MethodPlan plan(const MethodCall& call) const override;
  void forward(const MethodCall& call, const MethodResults& results,
               std::byte* scratch) const override;
  MethodPlan plan_backward(const MethodCall& call, const WantedGradients& wanted) const override;
  void backward(const MethodCall& call, const MethodGradients& gradients,
                std::byte* scratch) const override;
};

// The buckets that a call found.
struct LshBuckets {
  Tensor query;             // [..., rounds, q_len] i32: 0 <= bucket < buckets; -1: not hashed
  Tensor key;               // [..., rounds, k_len] i32; absent for shared keys
  int64_t buckets = 0;      // of a round: the product of the factors
  int64_t factors[2] = {};  // buckets of each hash; the second is 1 if there is one hash
};

// The buckets of a call with these tensors and options, whose method is an Lsh. Leading dimensions
// are those of the output. Throws Error as the call does, and Error(argument) for another method.
LshBuckets lsh_buckets(const TensorView& query, const TensorView& key, const TensorView& value,
                       const AttentionOptions& options);

}  // namespace rapt
