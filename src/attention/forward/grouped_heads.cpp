// Which calls are grouped, and the grouped call.
#include "attention/forward/grouped_heads.h"

#include <algorithm>
#include <numeric>

#include "attention/call/learned_parameters.h"
#include "attention/plan/tiling.h"

namespace rapt {
namespace {

// Slots of masks on the stack, to compare what masks bind for the heads of a group.
constexpr int64_t kMostSlots = 32;

// Rows of a group at most. With this many, products take longer than reading the keys.
constexpr int64_t kMostRows = 128;

// The neighbouring heads that share the rows of an operand.
int64_t sharing_heads(const Problem& p, const Operand& rows) {
  const int last = p.leading_rank - 1;
  return rows.lead_strides[last] == 0 ? p.leading[last] : rows.heads_per_group;
}

bool equal_masks(std::span<const Mask* const> masks, const Head& head, const BoundMask* first,
                 BoundMask* slots) {
  const BoundMasks bound(masks, head, slots);
  const int64_t count = BoundMasks::slots(masks);
  return std::equal(slots, slots + count, first, [](const BoundMask& a, const BoundMask& b) {
    return a.mask == b.mask && a.data == b.data && std::equal(a.values, a.values + 4, b.values);
  });
}

// Whether the masks bind the same for all heads of each group.
bool masks_ignore_heads(const Problem& p, std::span<const Mask* const> masks, int64_t group) {
  if (masks.empty()) return true;
  if (BoundMasks::slots(masks) > kMostSlots) return false;
  BoundMask first[kMostSlots], other[kMostSlots];
  int64_t index[kMaxRank];
  for (int64_t head = 0; head < p.heads; ++head) {
    p.index_of(head, index);
    const Head place{index, p.leading_rank, p.q_len, p.sequence(0, index).k_len, p.leading};
    if (head % group == 0)
      static_cast<void>(BoundMasks(masks, place, first));
    else if (!equal_masks(masks, place, first, other))
      return false;
  }
  return true;
}

bool has_tensors(const NormalizerRef& normalizer) {
  bool any = false;
  for_each_tensor_of(normalizer,
                     [&](const char*, const TensorView& view) { any |= view.defined(); });
  return any;
}

// Whether a grouped call has the row transform: rotation of queries alone. Keys that are
// transformed would be transformed for groups, not for heads.
bool groups_rows(const RowTransform& rows) {
  return !rows.cosine && !rows.adds_biases && !rows.transforms_key;
}

}  // namespace

const Declaration GroupMask::kDeclaration = {
    "group", "Rows of several heads attend as the queries of each head do.", "", {}};

void GroupMask::bind(const Head& head, BoundMask* bound) const noexcept {
  int64_t index[kMaxRank];
  std::copy_n(head.index, head.rank, index);
  index[head.rank - 1] *= group_;
  const Head first{index, head.rank, given_.q_len, head.k_len, given_.leading};
  static_cast<void>(BoundMasks(masks_, first, bound + 1));
}

Cover GroupMask::cover(const BoundMask& bound, Positions, Positions keys) const noexcept {
  bool all = true;
  const BoundMask* slot = &bound + 1;
  for (const Mask* mask : masks_) {
    const Cover cover = mask->cover(*slot, queries(), keys);
    if (cover == Cover::none) return Cover::none;
    all &= cover == Cover::all;
    slot += mask->bound_slots();
  }
  return all ? Cover::all : Cover::some;
}

void GroupMask::exclude(const BoundMask& bound, Positions rows, Positions keys,
                        uint64_t* bits) const noexcept {
  constexpr int64_t kKeys = 64;  // at a time
  uint64_t allowed[kKeys];
  const BoundMasks parts = parts_of(bound);
  const int64_t count = given_.q_len, first = rows.start % count;
  uint64_t heads = 0;  // bit i: a head begins there, if the rows begin with one
  for (int64_t i = 0; i < kMaxTileQueries; i += count) heads |= uint64_t{1} << i;
  // A bit per query, rotated so that it begins with that of the first row, and repeated per head.
  const auto bits_of_rows = [&](uint64_t of_queries) {
    of_queries &= low_bits(count);
    return ((of_queries >> first | of_queries << (count - first)) & low_bits(count)) * heads;
  };
  for (int64_t j = 0; j < keys.count; j += kKeys) {
    const Positions some = keys.part(j, std::min(j + kKeys, keys.count));
    const Cover cover = parts.cover(queries(), some, allowed);
    if (cover == Cover::all) continue;
    for (int64_t i = 0; i < some.count; ++i)
      bits[j + i] &= cover == Cover::none ? 0 : bits_of_rows(allowed[i]);
  }
}

template <class E>
int64_t heads_of_group(const CheckedCall& call, const NormalizerKernels<E>& normalizer) {
  const Problem& p = call.problem;
  const AttentionOptions& o = call.options;
  if (p.q_len < 1 || p.q_len > kFewQueries || p.k_len == 0 || p.heads == 0 || p.leading_rank == 0 ||
      p.query_starts || (p.pages.used() && p.leading_rank == 1) || p.drop_below > 0 ||
      !groups_rows(p.rows) || p.relative.any())
    return 1;
  if (o.map || normalizer.custom || (has_tensors(o.normalizer) && !normalizer.head_in_begin))
    return 1;
  // Weights and received attention come from the main pass (kept_scores.h).
  if ((o.weights || o.received) && (normalizer.settle || !wants_weights_of_few(call))) return 1;
  // A score of the caller's own would be called with the positions of other lanes. kPlaceless does
  // not count there, because a struct may inherit it from a score of the catalogue.
  for (const ScoreRef& score : o.scores)
    if (score.custom.template of<E>()) return 1;
  // Every thread that the work pays for gets a group, or a share of the keys of a group. Bits do
  // not depend on the size of groups.
  const int64_t threads = Workers(work_of(p), call.context).worthwhile();
  const int64_t shares = may_share_rows(call) ? chunks_of_rows(p, normalizer) : 1;
  const int64_t least = std::min(ceil_div(threads, shares), p.heads);
  const int64_t sharing = std::gcd(sharing_heads(p, p.key), sharing_heads(p, p.value));
  int64_t group = std::min(sharing, kMostRows / p.q_len);
  while (group > 1 && (sharing % group != 0 || p.heads / group < least)) --group;
  return group > 1 && masks_ignore_heads(p, o.masks, group) ? group : 1;
}
template int64_t heads_of_group(const CheckedCall&, const NormalizerKernels<float>&);
template int64_t heads_of_group(const CheckedCall&, const NormalizerKernels<double>&);

GroupedCall::GroupedCall(const CheckedCall& given, int64_t heads)
    : heads_(heads),
      last_(given.problem.leading_rank - 1),
      mask_(given.options.masks, given.problem, heads),
      options_(options_of(given)),
      given_captures_(requested_captures(given.problem, given.options)),
      call_(given, problem_of(given), options_) {}

// The rows of a group, `queries` per head, become rows of a head.
void GroupedCall::group_rows(Operand& rows, int64_t queries) const noexcept {
  const int64_t head_stride = rows.lead_strides[last_];
  if (queries == 1) {
    rows.row_stride = head_stride;
  } else if (head_stride != queries * rows.row_stride) {
    rows.run_rows = queries;
    rows.run_stride = head_stride;
  }
  rows.lead_strides[last_] *= heads_;
}

Problem GroupedCall::problem_of(const CheckedCall& given) const {
  Problem p = given.problem;
  const int64_t queries = p.q_len;
  p.group_heads = heads_;
  p.leading[last_] /= heads_;
  p.heads /= heads_;
  p.q_len *= heads_;
  group_rows(p.query, queries);
  if (p.has_bias) group_rows(p.bias, queries);
  for (Operand* shared : {&p.key, &p.value})
    shared->heads_per_group = std::max<int64_t>(shared->heads_per_group / heads_, 1);
  return p;
}

AttentionOptions GroupedCall::options_of(const CheckedCall& given) const {
  AttentionOptions options = given.options;
  if (!options.masks.empty()) options.masks = {&mask_};
  if (options.weights) options.weights->row_end = kToEnd;
  return options;
}

Outputs GroupedCall::outputs(const Outputs& given) const noexcept {
  Outputs grouped = given;
  for (Operand* rows : {&grouped.output, &grouped.statistic, &grouped.weights, &grouped.entropy,
                        &grouped.top_keys, &grouped.top_weights})
    if (rows->data) group_rows(*rows, call_.problem.head_queries());
  if (grouped.received.data) grouped.received.lead_strides[last_] *= heads_;
  return grouped;
}

}  // namespace rapt
