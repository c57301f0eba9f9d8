// The public functions of the forward pass: scaled_dot_product_attention(), plan() and
// workspace_bytes().
//
// The .cpp files directly in src/attention are above all its rooms. In: the caller's tensors,
// options, context and workspace. Out: results in the caller's memory or in new tensors. They check
// a call (room call), plan it, lay out its workspace (plan, forward, backward, tangents), and run
// its passes; a call with a method they check and hand to it. They may use all rooms, the kernel
// tables, src/base and the methods' src/method/method_call.h.
#include <algorithm>
#include <memory>

#include "attention/forward/forward.h"
#include "attention/forward/forward_layout.h"
#include "attention/forward/grouped_heads.h"
#include "attention/plan/prepare.h"
#include "attention/tiles/key_walk.h"
#include "base/call_memory.h"
#include "base/check_argument.h"
#include "base/rare.h"
#include "method/method_call.h"

namespace rapt {
namespace {

template <class E>
Captures captures_of(const CheckedCall& call, const Kernels<E>& kernels, const Tiling& tiling) {
  Captures captures = requested_captures(call.problem, call.options);
  captures.kept = keeps_scores(call, kernels, tiling);
  return captures;
}

// Everything about a call that is known before its memory. Constructed in place: for a tiny problem
// a copy would take as long as the arithmetic.
template <class E>
struct PreparedForward : PreparedCall<E> {
  Tiling tiling;
  Captures captures;
  ForwardLayout<E> layout;

  explicit PreparedForward(const CheckedCall& call)
      : PreparedCall<E>(call, {PassKind::forward, 1}),
        tiling(tiling_of(call.problem, this->kernels, this->workers, call.context.memory,
                         may_share_rows(call), call.options.masks)),
        captures(captures_of(call, this->kernels, tiling)),
        layout(forward_layout(call, captures, tiling, this->kernels)) {}
  size_t workspace_bytes() const { return layout.bytes; }
};

// The same for a call with a method.
struct MethodForward {
  MethodCall call;
  Captures captures;
  MethodPlan plan;

  explicit MethodForward(const CheckedCall& checked)
      : call(checked),
        captures(requested_captures(checked.problem, checked.options)),
        plan(checked.options.method->plan(call)) {}
  size_t workspace_bytes() const { return workspace_bytes_of(plan); }
};

// Calls visit(call, prepared, grouped) with the call that runs, prepared for the element type in
// which it is computed, or for its method. `grouped` is null if it is the given call.
template <class Visit>
auto with_prepared(const CheckedCall& given, const Visit& visit) {
  if (rare(given.options.method != nullptr))
    return visit(given, MethodForward(given), static_cast<const GroupedCall*>(nullptr));
  return with_element_type(given, [&]<class E>(E) {
    const auto& catalogue = kernels<E>().normalizers;
    const int64_t heads = heads_of_group(given, hooks_of(given.options.normalizer, catalogue));
    if (!rare(heads != 1))
      return visit(given, PreparedForward<E>(given), static_cast<const GroupedCall*>(nullptr));
    const GroupedCall grouped(given, heads);
    return visit(grouped.call(), PreparedForward<E>(grouped.call()), &grouped);
  });
}

// The bits that are set in `words` [keys], of which the lowest `queries` may be.
int64_t count_pairs(const uint64_t* words, int64_t keys, int64_t queries) {
  int64_t pairs = 0;
  // Most keys have all queries or none, and counting bits takes a call where the CPU may lack the
  // instruction.
  for (int64_t j = 0; j < keys; ++j)
    pairs += words[j] == low_bits(queries) ? queries
             : words[j] == 0               ? 0
                                           : __builtin_popcountll(words[j]);
  return pairs;
}

// Counts the tiles and the unmasked pairs that the call will compute.
void count_tiles(const Problem& p, const Tiling& t, const AttentionOptions& options, Plan& plan) {
  std::unique_ptr<BoundMask[]> bound(
      new BoundMask[static_cast<size_t>(BoundMasks::slots(options.masks))]);
  std::unique_ptr<uint64_t[]> bits(new uint64_t[static_cast<size_t>(t.block_keys)]);
  int64_t index[kMaxRank];
  const auto each_tile = [&](int64_t q_len, const auto& visit) {
    for (int64_t first = 0; first < q_len; first += t.unit_queries)
      t.for_each_tile({first, 1, std::min(t.unit_queries, q_len - first)},
                      [&](int64_t, Positions queries, int, int64_t) { visit(queries); });
  };
  // Without masks all heads of a plain call are alike.
  const bool alike = options.masks.empty() && !p.pages.used();
  const int64_t heads = alike ? std::min<int64_t>(p.heads, 1) : p.heads;
  const int64_t counted = alike ? p.heads : 1;  // heads that each visit counts
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t s = 0; s < p.sequences; ++s) {
      p.index_of(head, index);
      const Sequence sequence = p.sequence(s, index);
      const int64_t blocks = t.blocks(sequence.k_len);
      if (options.masks.empty()) {
        each_tile(sequence.q_len, [&](Positions) { plan.tiles_computed += counted * blocks; });
        int64_t pairs;
        if (__builtin_mul_overflow(sequence.q_len, sequence.k_len, &pairs) ||
            __builtin_mul_overflow(counted, pairs, &pairs) ||
            __builtin_add_overflow(plan.allowed_scores, pairs, &plan.allowed_scores))
          plan.allowed_scores = INT64_MAX;
        continue;
      }
      const Head place{index, p.leading_rank, sequence.q_len, sequence.k_len};
      const BoundMasks bound_masks(options.masks, place, bound.get());
      each_tile(sequence.q_len, [&](Positions queries) {
        const KeyRange range = bound_masks.key_range(queries);
        int64_t computed = 0;
        for (KeyWalk walk(bound_masks, queries, range, t.block_keys); walk.next();) {
          const int64_t block_end = std::min(sequence.k_len, walk.begin() + t.block_keys);
          const int64_t begin = std::max(range.begin, walk.begin());
          const int64_t end = std::min(range.end, block_end);
          const Cover cover = bound_masks.cover(queries, {begin, 1, end - begin}, bits.get());
          int64_t allowed = cover == Cover::all ? queries.count * (end - begin) : 0;
          if (cover == Cover::some) allowed = count_pairs(bits.get(), end - begin, queries.count);
          if (allowed == 0) continue;
          ++computed;
          plan.allowed_scores += allowed;
          const int64_t whole = block_end - walk.begin();
          ++(allowed == queries.count * whole ? plan.tiles_computed : plan.tiles_partial);
        }
        plan.tiles_skipped += blocks - computed;
      });
    }
}

template <class E>
void run(const CheckedCall& call, const PreparedForward<E>& prepared, const Outputs& outputs,
         std::byte* scratch) {
  const ForwardCall<E> to_run(call, prepared.kernels, prepared.captures, outputs, prepared.tiling,
                              prepared.layout.score_tiles, scratch);
  run_forward(to_run, prepared.layout, call.context);
}

void run(const CheckedCall& call, const MethodForward& prepared, const Outputs& outputs,
         std::byte* scratch) {
  if (call.problem.heads == 0) return;
  call.options.method->forward(prepared.call, {prepared.captures, outputs}, scratch);
}

template <class Prepared>
void forward(const CheckedCall& given, const CheckedCall& call, const Prepared& prepared,
             const GroupedCall* grouped, const AttentionOutputs& given_outputs,
             std::span<std::byte> workspace) {
  const Captures& captures =
      rare(grouped != nullptr) ? grouped->given_captures() : prepared.captures;
  const Outputs checked = check_outputs(given, captures, given_outputs, workspace);
  const Workspace scratch(workspace, prepared.workspace_bytes());
  if (rare(grouped != nullptr))
    run(call, prepared, grouped->outputs(checked), scratch.begin());
  else
    run(call, prepared, checked, scratch.begin());
}

template <class E>
void plan_pass(const CheckedCall& call, const PreparedForward<E>& prepared, Plan& plan) {
  const Problem& p = call.problem;
  const Tiling& t = prepared.tiling;
  plan.isa = prepared.kernels.table.isa;
  plan.kernel = prepared.kernels.route.kernel;
  plan.statistic = prepared.kernels.normalizer.statistic;
  plan.tile_queries = t.cut(std::min(p.q_len, t.unit_queries)).vectors_of(0) * t.lanes;
  plan.block_keys = t.block_keys;
  plan.threads = t.workers;
  count_tiles(p, t, call.options, plan);
  plan.group_heads = p.group_heads;
}

void plan_pass(const CheckedCall& call, const MethodForward& prepared, Plan& plan) {
  const Method& method = *call.options.method;
  plan.isa = with_element_type(call, [](auto e) { return kernels<decltype(e)>().isa; });
  plan.kernel = prepared.plan.kernel;
  plan.statistic = method.scope().statistic;
  plan.threads = prepared.plan.threads;
  plan.allowed_scores = prepared.call.allowed_pairs();
  plan.method = method.declaration().name;
  plan.method_pairs = prepared.plan.pairs;
}

}  // namespace

AttentionState AttentionResult::state() & { return {output, statistic}; }

Plan plan(const TensorView& query, const TensorView& key, const TensorView& value,
          const AttentionOptions& options, const Context& context) {
  const CheckedCall given(query, key, value, options, context, Elements::not_read);
  return with_prepared(
      given, [&](const CheckedCall& call, const auto& prepared, const GroupedCall* grouped) {
        const Problem& p = call.problem;
        Plan plan;
        plan_pass(call, prepared, plan);
        plan.workspace_bytes = prepared.workspace_bytes();
        OutputSpec specs[kOutputs];
        describe_outputs(given.problem, grouped ? grouped->given_captures() : prepared.captures,
                         true, specs);
        plan.result_bytes = bytes_of_results(specs);
        const int64_t matrices[] = {p.heads, p.q_len, p.k_len};
        plan.matrix_bytes = bytes_of(matrices, p.result_dtype);
        return plan;
      });
}

size_t workspace_bytes(const TensorView& query, const TensorView& key, const TensorView& value,
                       const AttentionOptions& options, const Context& context) {
  const CheckedCall call(query, key, value, options, context, Elements::not_read);
  return with_prepared(call, [](const CheckedCall&, const auto& prepared, const GroupedCall*) {
    return prepared.workspace_bytes();
  });
}

void scaled_dot_product_attention(const TensorView& query, const TensorView& key,
                                  const TensorView& value, const AttentionOptions& options,
                                  const AttentionOutputs& outputs, std::span<std::byte> workspace,
                                  const Context& context) {
  const CheckedCall given(query, key, value, options, context, Elements::read);
  with_prepared(given,
                [&](const CheckedCall& call, const auto& prepared, const GroupedCall* grouped) {
                  forward(given, call, prepared, grouped, outputs, workspace);
                });
}

AttentionResult scaled_dot_product_attention(const TensorView& query, const TensorView& key,
                                             const TensorView& value,
                                             const AttentionOptions& options,
                                             const Context& context) {
  const CheckedCall given(query, key, value, options, context, Elements::read);
  if (options.add_received)
    fail(ErrorCode::argument, "add_received",
         "add_received in a call that allocates its results; give memory that holds the sums");
  return with_prepared(
      given, [&](const CheckedCall& call, const auto& prepared, const GroupedCall* grouped) {
        const size_t scratch = prepared.workspace_bytes();
        OutputSpec specs[kOutputs];
        describe_outputs(given.problem, grouped ? grouped->given_captures() : prepared.captures,
                         true, specs);
        check_memory_limit(add_or_max(scratch, bytes_of_results(specs)), context,
                           options.weights ? "; ask for fewer rows or heads of weights" : "");
        AttentionResult result;
        AttentionOutputs outputs;
        allocate_results(specs, result, outputs);
        outputs.state = result.state();
        Tensor workspace(DType::u8, {static_cast<int64_t>(scratch)});
        forward(given, call, prepared, grouped, outputs,
                std::as_writable_bytes(workspace.values<uint8_t>()));
        return result;
      });
}

}  // namespace rapt
