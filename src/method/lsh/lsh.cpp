// The declaration of LSH attention, its checks, and the two passes by element type.
#include "rapt/method/lsh.h"

#include <cmath>
#include <string>

#include "attention/plan/prepare.h"
#include "base/check_argument.h"
#include "method/lsh/lsh_backward.h"
#include "method/lsh/lsh_forward.h"

namespace rapt {
namespace {

constexpr const char* kKeysNames[] = {"shared", "separate"};
constexpr const char* kCutNames[] = {"row", "bucket"};
constexpr const char* kDuplicatesNames[] = {"count-once", "count-all"};
constexpr const char* kMasks[] = {"causal", "lengths"};

constexpr Parameter kParameters[] = {
    parameter<Lsh, &Lsh::rounds>("rounds", "hashes of each row", {1, kMostLshRounds}),
    parameter<Lsh, &Lsh::chunk>("chunk", "rows of a chunk", {1, 1 << 30}),
    parameter<Lsh, &Lsh::buckets>("buckets", "buckets of a round, even; 0: two per chunk",
                                  {0, kMostLshBuckets}),
    parameter<Lsh, &Lsh::keys>("keys", "shared: query and key are one view; or separate",
                               kAnyNumber, kKeysNames),
    parameter<Lsh, &Lsh::cut>("cut", "where chunks of shared keys begin", kAnyNumber, kCutNames),
    parameter<Lsh, &Lsh::duplicates>("duplicates", "how a pair of several rounds counts",
                                     kAnyNumber, kDuplicatesNames),
    parameter<Lsh, &Lsh::seed>("seed", "of the rotations", kAnyInteger),
    parameter<Lsh, &Lsh::rotations>(
        "rotations", "[rounds, head_dim, columns]: rotations of all heads, not the seed's"),
};

// With separate keys, which calls of any query and key accept.
constexpr const char* kExamples[] = {"keys=separate", "2,8,keys=separate",
                                     "rounds=3,buckets=4,keys=separate,seed=5"};

// Rows have 32-bit positions, and numbers of chunks are up to twice as large.
constexpr int64_t kMostRows = (int64_t{1} << 30) - 1;

void check_shared_view(const CheckedCall& call) {
  const TensorView &q = call.query, &k = call.key;
  bool same = q.data == k.data && q.rank == k.rank && q.dtype == k.dtype;
  for (int i = 0; same && i < q.rank; ++i)
    same = q.shape[i] == k.shape[i] && (q.strides[i] == k.strides[i] || q.shape[i] <= 1);
  if (!same)
    throw Error(ErrorCode::argument,
                "method lsh: shared keys, but query and key are two views; give the query as the "
                "key, or choose keys=separate");
}

void check_rotations(const Lsh& lsh, const LshSizes& sizes, const Problem& p) {
  const TensorView& r = lsh.rotations;
  if (r.dtype != DType::f32 && r.dtype != DType::f64)
    throw Error(ErrorCode::dtype, std::string("method lsh: rotations are ") + name_of(r.dtype) +
                                      "; expected f32 or f64");
  const int64_t expected[] = {sizes.rounds, p.head_dim, sizes.columns};
  if (to_string(r.dims()) != to_string(expected))
    throw Error(ErrorCode::shape,
                "method lsh: rotations have the shape " + to_string(r.dims()) +
                    "; expected [rounds, head_dim, columns] = " + to_string(expected));
  if (!r.data) return;  // a plan
  for (int64_t i = 0; i < expected[0]; ++i)
    for (int64_t d = 0; d < expected[1]; ++d)
      for (int64_t c = 0; c < expected[2]; ++c) {
        const int64_t at = i * r.strides[0] + d * r.strides[1] + c * r.strides[2];
        const double number = r.dtype == DType::f64 ? static_cast<const double*>(r.data)[at]
                                                    : static_cast<const float*>(r.data)[at];
        if (!std::isfinite(number))
          throw Error(ErrorCode::argument, "method lsh: rotations hold " + std::to_string(number) +
                                               " in round " + std::to_string(i) +
                                               "; expected finite numbers");
      }
}

const char* kernel_of(const Lsh& lsh) {
  return lsh.keys == LshKeys::shared ? "lsh: chunks of shared keys"
                                     : "lsh: buckets of separate keys";
}

}  // namespace

const Declaration Lsh::kDeclaration = {
    "lsh", "queries meet the keys that a random hash puts near them (Reformer)",
    "Kitaev et al. 2020, arXiv:2001.04451", kParameters, kExamples};

const MethodScope Lsh::kScope = {
    .masks = kMasks, .weights = true, .map = true, .d_statistic = true};

void Lsh::check(const MethodCall& call) const {
  const Problem& p = call.problem;
  if (buckets % 2 != 0)
    throw Error(ErrorCode::argument, "method lsh: " + std::to_string(buckets) +
                                         " buckets; expected an even number, or 0");
  if (p.q_len > kMostRows || p.k_len > kMostRows)
    throw Error(ErrorCode::overflow, "method lsh: " + std::to_string(std::max(p.q_len, p.k_len)) +
                                         " rows; expected at most " + std::to_string(kMostRows));
  if (keys == LshKeys::shared) check_shared_view(call.checked);
  if (rotations.defined()) check_rotations(*this, lsh_sizes(*this, p.k_len, 1), p);
}

MethodPlan Lsh::plan(const MethodCall& call) const {
  return with_element_type(call.checked, [&]<class E>(E) {
    const LshForward<E> forward(call, *this);
    return MethodPlan{kernel_of(*this), forward.workspace_bytes(), forward.workers(),
                      forward.pairs()};
  });
}

void Lsh::forward(const MethodCall& call, const MethodResults& results, std::byte* scratch) const {
  with_element_type(call.checked,
                    [&]<class E>(E) { LshForward<E>(call, *this).run(results.outputs, scratch); });
}

MethodPlan Lsh::plan_backward(const MethodCall& call, const WantedGradients& wanted) const {
  if (keys == LshKeys::shared && wanted.key)
    throw Error(
        ErrorCode::unsupported,
        "method lsh: d_key of shared keys; d_query holds the gradient of both sides, so set "
        "request.key to false",
        "key");
  return with_element_type(call.checked, [&]<class E>(E) {
    const LshBackward<E> backward(call, *this, wanted);
    return MethodPlan{.kernel = kernel_of(*this),
                      .workspace_bytes = backward.workspace_bytes(),
                      .threads = backward.workers()};
  });
}

void Lsh::backward(const MethodCall& call, const MethodGradients& gradients,
                   std::byte* scratch) const {
  with_element_type(call.checked, [&]<class E>(E) {
    LshBackward<E>(call, *this, gradients.wanted).run(gradients, scratch);
  });
}

}  // namespace rapt
