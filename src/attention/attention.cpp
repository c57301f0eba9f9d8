// The verbs of the library: scaled_dot_product_attention() and plan().
#include <algorithm>
#include <memory>
#include <string>

#include "attention/forward.h"
#include "attention/visible.h"

namespace rapt {
namespace {

int workers_of(const Context& context) {
  const int workers = context.executor ? context.executor->concurrency() : 1;
  if (workers < 1)
    throw Error(ErrorCode::argument, "the executor's concurrency is " + std::to_string(workers) +
                                         "; expected at least 1");
  return workers;
}

template <class E>
const NormalizerKernels<E>& normalizer_of(const KernelTable<E>& table, const NormalizerRef& ref) {
  return table.normalizers[ref.index];
}

template <class E>
ScratchLayout layout_of_call(const Problem& p, const AttentionOptions& options) {
  const KernelTable<E>& table = kernels<E>();
  return layout_of(p, tiling_of(p, table), normalizer_of(table, options.normalizer),
                   Visible::slots(options.masks));
}

size_t workspace_of_call(const Problem& p, const AttentionOptions& options,
                         const Context& context) {
  return bytes_for(p.dtype == DType::f64 ? layout_of_call<double>(p, options)
                                         : layout_of_call<float>(p, options),
                   workers_of(context));
}

template <class E>
void forward(const Problem& p, const AttentionOptions& options, const Outputs& outputs,
             std::byte* workspace, const Context& context) {
  const KernelTable<E>& table = kernels<E>();
  const NormalizerKernels<E>& normalizer = normalizer_of(table, options.normalizer);
  const Tiling tiling = tiling_of(p, table);
  const ScratchLayout layout = layout_of(p, tiling, normalizer, Visible::slots(options.masks));
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  const ForwardCall<E> call{
      p,  table,         normalizer,      options.normalizer.object,
      {}, options.masks, options.weights, outputs,
      {}, tiling,        layout,          workspace + (64 - address % 64) % 64};
  run_forward(call, context);
}

// Counts tiles and allowed pairs as the conductor will meet them.
template <class E>
void count_tiles(const Problem& p, const AttentionOptions& options, Plan& plan) {
  const Tiling t = tiling_of(p, kernels<E>());
  std::unique_ptr<BoundMask[]> bound(
      new BoundMask[static_cast<size_t>(Visible::slots(options.masks))]);
  std::unique_ptr<uint64_t[]> bits(new uint64_t[static_cast<size_t>(t.block_keys)]);
  int64_t index[kMaxRank];
  const int64_t blocks = t.blocks(p.k_len);
  if (options.masks.empty()) {
    const int64_t tiles = p.q_len / t.tile_queries + (p.q_len % t.tile_queries != 0);
    plan.tiles_computed = p.heads * tiles * blocks;
    plan.allowed_scores = p.heads * p.q_len * p.k_len;
    return;
  }
  for (int64_t head = 0; head < p.heads; ++head) {
    p.index_of(head, index);
    const Head place{index, p.leading_rank, p.q_len, p.k_len};
    const Visible visible(options.masks, place, bound.get());
    for (int64_t q = 0; q < p.q_len; q += t.tile_queries) {
      const Positions queries{q, 1, std::min(t.tile_queries, p.q_len - q)};
      const KeyRange range = visible.key_range(queries);
      int64_t computed = 0;
      for (int64_t b = range.begin / t.block_keys; b * t.block_keys < range.end; ++b) {
        const int64_t begin = std::max(range.begin, b * t.block_keys);
        const int64_t end = std::min(range.end, (b + 1) * t.block_keys);
        const Cover cover = visible.cover(queries, {begin, 1, end - begin}, bits.get());
        int64_t allowed = cover == Cover::all ? queries.count * (end - begin) : 0;
        if (cover == Cover::some)
          for (int64_t j = 0; j < end - begin; ++j)
            allowed += __builtin_popcountll(bits[static_cast<size_t>(j)]);
        if (allowed == 0) continue;
        ++computed;
        plan.allowed_scores += allowed;
        const int64_t whole = std::min(p.k_len, (b + 1) * t.block_keys) - b * t.block_keys;
        ++(allowed == queries.count * whole ? plan.tiles_computed : plan.tiles_partial);
      }
      plan.tiles_skipped += blocks - computed;
    }
  }
}

template <class E>
void describe(const Problem& p, const AttentionOptions& options, Plan& plan) {
  const KernelTable<E>& table = kernels<E>();
  const Tiling t = tiling_of(p, table);
  plan.isa = table.isa;
  plan.kernel = "tile";
  plan.statistic = normalizer_of(table, options.normalizer).statistic;
  plan.tile_queries = t.tile_queries;
  plan.block_keys = t.block_keys;
  count_tiles<E>(p, options, plan);
}

// Bytes of tensors of these shapes; the largest number instead of an overflow.
size_t bytes_of(std::initializer_list<int64_t> lengths, DType dtype) {
  size_t bytes = static_cast<size_t>(size_of(dtype));
  for (const int64_t n : lengths)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(n), &bytes)) return SIZE_MAX;
  return bytes;
}

size_t add_or_max(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

size_t result_bytes(const Problem& p, const AttentionOptions& options) {
  const RequestedWeights w = requested_weights(p, options.weights);
  const size_t output = bytes_of({p.heads, p.q_len, p.value_dim}, p.dtype);
  const size_t statistic = bytes_of({p.heads, p.q_len}, p.dtype);
  const size_t weights = bytes_of({w.heads, w.row_end - w.row_begin, p.k_len}, p.dtype);
  return add_or_max(output, add_or_max(statistic, weights));
}

}  // namespace

AttentionState AttentionResult::state() & {
  AttentionState state{output, statistic};
  if (extra.defined()) state.extra = extra;
  return state;
}

Plan plan(const TensorView& query, const TensorView& key, const TensorView& value,
          const AttentionOptions& options, const Context& context) {
  const Problem p = make_problem(query, key, value, options);
  Plan plan;
  p.dtype == DType::f64 ? describe<double>(p, options, plan) : describe<float>(p, options, plan);
  plan.workspace_bytes = workspace_of_call(p, options, context);
  plan.result_bytes = result_bytes(p, options);
  plan.matrix_bytes = bytes_of({p.heads, p.q_len, p.k_len}, p.dtype);
  return plan;
}

size_t workspace_bytes(const TensorView& query, const TensorView& key, const TensorView& value,
                       const AttentionOptions& options, const Context& context) {
  return workspace_of_call(make_problem(query, key, value, options), options, context);
}

void scaled_dot_product_attention(const TensorView& query, const TensorView& key,
                                  const TensorView& value, const AttentionOptions& options,
                                  const AttentionOutputs& given, std::span<std::byte> workspace,
                                  const Context& context) {
  const Problem p = make_problem(query, key, value, options);
  require_data(query, key, value, options);
  const Outputs outputs = check_outputs(p, query, key, value, options, given, workspace);
  const size_t needed = workspace_of_call(p, options, context);
  if (workspace.size() < needed)
    throw Error(ErrorCode::argument, "workspace of " + std::to_string(workspace.size()) +
                                         " bytes; workspace_bytes() asks for " +
                                         std::to_string(needed));
  if (p.dtype == DType::f64)
    forward<double>(p, options, outputs, workspace.data(), context);
  else
    forward<float>(p, options, outputs, workspace.data(), context);
}

AttentionResult scaled_dot_product_attention(const TensorView& query, const TensorView& key,
                                             const TensorView& value,
                                             const AttentionOptions& options,
                                             const Context& context) {
  const Problem p = make_problem(query, key, value, options);
  require_data(query, key, value, options);
  const size_t scratch = workspace_of_call(p, options, context);
  const size_t needed = add_or_max(scratch, result_bytes(p, options));
  if (context.memory_limit >= 0 && needed > static_cast<size_t>(context.memory_limit))
    throw Error(ErrorCode::memory_limit,
                "needs " + std::to_string(needed) + " bytes; the limit is " +
                    std::to_string(context.memory_limit) +
                    (options.weights ? "; ask for fewer rows or heads of weights" : ""));
  int64_t shape[kMaxRank + 2];
  const auto tensor = [&](int rank) {
    return Tensor(p.dtype, Shape(shape, static_cast<size_t>(rank)));
  };
  for (int i = 0; i < p.leading_rank; ++i) shape[i] = p.leading[i];
  shape[p.leading_rank] = p.q_len;
  shape[p.leading_rank + 1] = p.value_dim;
  AttentionResult result;
  result.output = tensor(p.leading_rank + 2);
  result.statistic = tensor(p.leading_rank + 1);
  if (options.weights) result.weights = tensor(weights_shape(p, *options.weights, shape));
  Tensor workspace(DType::u8, {static_cast<int64_t>(scratch)});
  const std::span<uint8_t> bytes = workspace.values<uint8_t>();
  AttentionOutputs outputs{result.state()};
  if (options.weights) outputs.weights = result.weights;
  scaled_dot_product_attention(query, key, value, options, outputs, std::as_writable_bytes(bytes),
                               context);
  return result;
}

}  // namespace rapt
