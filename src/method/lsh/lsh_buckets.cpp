// lsh_buckets(): the buckets that a call with these tensors finds.
#include <algorithm>
#include <span>
#include <vector>

#include "attention/plan/prepare.h"
#include "base/call_memory.h"
#include "base/check_argument.h"
#include "method/lsh/hashed_heads.h"

namespace rapt {
namespace {

Tensor bucket_tensor(const Problem& p, int64_t rounds, int64_t rows) {
  std::vector<int64_t> shape(p.leading, p.leading + p.leading_rank);
  shape.insert(shape.end(), {rounds, rows});
  return Tensor(DType::i32, shape);
}

// Copies the buckets of a head; rows that were not hashed get -1.
void copy_buckets(const LshSide& side, int64_t rounds, int64_t hashed, std::byte* memory,
                  int32_t* to) {
  for (int64_t r = 0; r < rounds; ++r, to += side.rows) {
    std::copy_n(side.buckets.in(memory, r), hashed, to);
    std::fill(to + hashed, to + side.rows, -1);
  }
}

template <class E>
void find_all(const MethodCall& call, const Lsh& lsh, const LshSizes& sizes, LshBuckets& found) {
  HashedHeads<E> hashed(call, lsh, sizes);
  ScratchPlanner<Per::component> head_plan;
  ScratchPlanner<Per::worker> worker_plan;
  hashed.place(head_plan, worker_plan);
  Tensor head_memory(DType::u8, {static_cast<int64_t>(head_plan.total())});
  Tensor worker_memory(DType::u8, {static_cast<int64_t>(worker_plan.total())});
  const std::span head_bytes = std::as_writable_bytes(head_memory.values<uint8_t>());
  const std::span worker_bytes = std::as_writable_bytes(worker_memory.values<uint8_t>());
  const Workspace of_head(head_bytes, head_bytes.size());
  const Workspace of_worker(worker_bytes, worker_bytes.size());
  std::byte* const memory = of_head.begin();
  std::byte* const worker = of_worker.begin();
  const Problem& p = call.problem;
  for (int64_t head = 0; head < p.heads; ++head) {
    hashed.draw_rotations(head, memory);
    for (int64_t task = 0; task < hashed.tasks_of_rows(); ++task)
      hashed.hash_rows(head, task, memory, worker);
    copy_buckets(hashed.query_side(), sizes.rounds, hashed.hashed_queries(head), memory,
                 found.query.values<int32_t>().data() + head * sizes.rounds * p.q_len);
    if (!hashed.shared())
      copy_buckets(hashed.key_side(), sizes.rounds, call.reach(head).keys, memory,
                   found.key.values<int32_t>().data() + head * sizes.rounds * p.k_len);
  }
}

}  // namespace

LshBuckets lsh_buckets(const TensorView& query, const TensorView& key, const TensorView& value,
                       const AttentionOptions& options) {
  const auto* const lsh = dynamic_cast<const Lsh*>(options.method);
  if (!lsh)
    fail(ErrorCode::argument, "method",
         "lsh_buckets: options.method is not an Lsh; expected the method of the call");
  const Context context;
  const CheckedCall checked(query, key, value, options, context, Elements::read);
  const MethodCall call(checked);
  const Problem& p = call.problem;
  const LshSizes sizes = lsh_sizes(*lsh, p.k_len, size_of(p.result_dtype));
  LshBuckets found;
  found.buckets = sizes.buckets();
  found.factors[0] = sizes.factors[0], found.factors[1] = sizes.factors[1];
  found.query = bucket_tensor(p, sizes.rounds, p.q_len);
  if (lsh->keys == LshKeys::separate) found.key = bucket_tensor(p, sizes.rounds, p.k_len);
  with_element_type(checked, [&]<class E>(E) { find_all<E>(call, *lsh, sizes, found); });
  return found;
}

}  // namespace rapt
