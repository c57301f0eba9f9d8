// Documents by ids. Bound: values[0], values[1] = elements from the tensors' data to the ids of
// this head's queries and keys; values[2] = 1 where the key ids never decrease.
#include "rapt/mask/documents.h"

#include <algorithm>
#include <string>

#include "mask/per_batch.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Documents, &Documents::query_ids>(
        "query_ids", "int64 [..., q_len]: the document of each query", kAnyNumber, {}, true),
    parameter<Documents, &Documents::key_ids>(
        "key_ids", "int64 [..., k_len]: the document of each key; default: as the queries"),
};

// The ids of one side of one head.
struct Ids {
  const int64_t* data;
  int64_t stride, length;
  int64_t operator[](int64_t position) const noexcept { return data[position * stride]; }
};

Ids ids_of(const TensorView& tensor, int64_t offset) noexcept {
  const int last = tensor.rank - 1;
  return {static_cast<const int64_t*>(tensor.data) + offset,
          tensor.shape[last] == 1 ? 0 : tensor.strides[last], tensor.shape[last]};
}

Ids query_ids_of(const Documents& mask, const BoundMask& bound) noexcept {
  return ids_of(mask.query_ids, bound.values[0]);
}
Ids key_ids_of(const Documents& mask, const BoundMask& bound) noexcept {
  return ids_of(mask.key_ids.defined() ? mask.key_ids : mask.query_ids, bound.values[1]);
}

struct Extremes {
  int64_t least, most;
};

Extremes extremes_of(const Ids& ids, Positions at) noexcept {
  Extremes e{ids[at.start], ids[at.start]};
  for (int64_t i = 1; i < at.count; ++i) {
    const int64_t id = ids[at[i]];
    e = {std::min(e.least, id), std::max(e.most, id)};
  }
  return e;
}

// The first position whose id is at least `id` or, with `above`, greater. The ids never decrease.
int64_t first_position(const Ids& ids, int64_t id, bool above) noexcept {
  int64_t begin = 0, end = ids.length;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const int64_t x = ids[middle];
    if (above ? x <= id : x < id)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// `what`: as in check_per_batch().
void check_ids(const char* what, const TensorView& ids, Shape leading, int64_t length,
               const char* side) {
  check_per_batch(what, ids, leading, 1);
  if (ids.shape[ids.rank - 1] != length)
    throw Error(ErrorCode::shape, std::string(what) + ": shape " + to_string(ids.dims()) +
                                      "; expected one id per " + side + ", " +
                                      std::to_string(length));
}

}  // namespace

const Declaration Documents::kDeclaration = {
    "documents", "a query attends to the keys of its own document (packed sequences, by ids)",
    "JAX segment ids; Krell et al. 2021, arXiv:2107.02027", kParameters};

void Documents::check(Shape leading, int64_t q_len, int64_t k_len) const {
  check_ids("mask documents: query_ids", query_ids, leading, q_len, "query");
  if (key_ids.defined()) {
    check_ids("mask documents: key_ids", key_ids, leading, k_len, "key");
  } else if (q_len != k_len) {
    throw Error(ErrorCode::argument, "mask documents: ids for " + std::to_string(q_len) +
                                         " queries and " + std::to_string(k_len) +
                                         " keys cannot be the same; give key_ids, too");
  }
}

void Documents::bind(const Head& head, BoundMask* bound) const noexcept {
  const TensorView& keys = key_ids.defined() ? key_ids : query_ids;
  bound->values[0] = offset_of(query_ids, head, 1);
  bound->values[1] = offset_of(keys, head, 1);
  const Ids ids = key_ids_of(*this, *bound);
  bool sorted = true;
  for (int64_t j = 1; sorted && j < head.k_len; ++j) sorted = ids[j - 1] <= ids[j];
  bound->values[2] = sorted;
}

KeyRange Documents::key_range(const BoundMask& bound, Positions queries) const noexcept {
  if (!bound.values[2]) return {0, bound.k_len};
  const Extremes wanted = extremes_of(query_ids_of(*this, bound), queries);
  const Ids ids = key_ids_of(*this, bound);
  return {first_position(ids, wanted.least, false), first_position(ids, wanted.most, true)};
}

KeyRange Documents::next_run(const BoundMask& bound, Positions queries,
                             int64_t from) const noexcept {
  if (bound.values[2]) return Mask::next_run(bound, queries, from);
  const Extremes wanted = extremes_of(query_ids_of(*this, bound), queries);
  const Ids ids = key_ids_of(*this, bound);
  const auto may_attend = [&](int64_t key) {
    return wanted.least <= ids[key] && ids[key] <= wanted.most;
  };
  // A walk goes block by block. Shorter gaps are not worth another question, and a search that ends
  // nowhere answers with a key that nobody may attend to.
  constexpr int64_t kShortGap = 64, kMostPassed = 4096;
  const int64_t last = std::min(bound.k_len, from + kMostPassed);
  int64_t begin = from;
  while (begin < last && !may_attend(begin)) ++begin;
  int64_t end = begin;
  for (int64_t key = begin; key < bound.k_len && key - end <= kShortGap; ++key)
    if (may_attend(key)) end = key + 1;
  return {begin, begin < bound.k_len ? std::max(end, begin + 1) : end};
}

Cover Documents::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const Extremes q = extremes_of(query_ids_of(*this, bound), queries);
  const Ids ids = key_ids_of(*this, bound);
  const Extremes k =
      bound.values[2] ? Extremes{ids[keys.start], ids[keys.last()]} : extremes_of(ids, keys);
  if (q.most < k.least || k.most < q.least) return Cover::none;
  return q.least == q.most && k.least == k.most ? Cover::all : Cover::some;
}

void Documents::exclude(const BoundMask& bound, Positions queries, Positions keys,
                        uint64_t* bits) const noexcept {
  const Ids query = query_ids_of(*this, bound), key = key_ids_of(*this, bound);
  uint64_t same = 0;  // the queries of the key's document
  for (int64_t j = 0; j < keys.count; ++j) {
    const int64_t id = key[keys[j]];
    if (j == 0 || id != key[keys[j - 1]]) {
      same = 0;
      for (int64_t i = 0; i < queries.count; ++i) same |= uint64_t{query[queries[i]] == id} << i;
    }
    bits[j] &= same;
  }
}

}  // namespace rapt
