// Global tokens; the rule is in the header. Bound: values[0] = o; values[1] = elements from the
// tensor's data to the first position of this batch that is not -1; values[2] = how many there are.
#include "rapt/mask/global.h"

#include <algorithm>
#include <string>

#include "mask/per_batch.h"

namespace rapt {
namespace {

constexpr Range kGlobalCount{0, 9007199254740992.0};  // 2^53: exact as a double

constexpr Parameter kParameters[] = {
    parameter<Global, &Global::count>("count", "the first positions, which are global",
                                      kGlobalCount),
    parameter<Global, &Global::anchor>(
        "anchor", "which corner of the matrix the diagonal runs through", kAnyNumber, kAnchorNames),
    parameter<Global, &Global::positions>(
        "positions",
        "instead, int64 [..., g]: the global positions of each batch, rising; -1: none"),
};

constexpr const char* kExamples[] = {"16", "1", "3,bottom-right"};

// Rising positions: 0 to size - 1, or those of a list.
struct Tokens {
  const int64_t* list;  // null: all from 0 on
  int64_t stride, size;

  int64_t operator[](int64_t i) const noexcept { return list ? list[i * stride] : i; }

  // How many are below `position`.
  int64_t below(int64_t position) const noexcept {
    return list ? place_of(*this, 0, size, position) : std::clamp<int64_t>(position, 0, size);
  }

  // Calls visit(i) for the i-th of some positions where it is a token's. Looks at the tokens
  // between the first and the last position, or at the positions, whichever are fewer.
  template <class Visit>
  void for_each_among(Positions at, const Visit& visit) const noexcept {
    const int64_t begin = below(at.start), end = below(at.last() + 1);
    if (end - begin > at.count) {
      for (int64_t i = 0; i < at.count; ++i) {
        const int64_t t = below(at[i]);
        if (t < size && (*this)[t] == at[i]) visit(i);
      }
      return;
    }
    for (int64_t t = begin; t < end; ++t) {
      const int64_t past = (*this)[t] - at.start;
      if (past % at.step == 0) visit(past / at.step);
    }
  }

  // How many of some positions are those of tokens.
  int64_t among(Positions at) const noexcept {
    if (at.step == 1) return below(at.last() + 1) - below(at.start);
    const auto before = [at](int64_t end) {
      return std::clamp<int64_t>(queries_before(end - at.start, at), 0, at.count);
    };
    if (!list) return before(size) - before(0);
    int64_t count = 0;
    for_each_among(at, [&](int64_t) { ++count; });
    return count;
  }
};

Tokens tokens_of(const Global& mask, const BoundMask& bound) noexcept {
  const TensorView& list = mask.positions;
  if (!list.defined()) return {nullptr, 0, bound.values[2]};
  return {static_cast<const int64_t*>(list.data) + bound.values[1], list.strides[list.rank - 1],
          bound.values[2]};
}

// The positions of queries among the keys.
Positions placed(Positions queries, const BoundMask& bound) noexcept {
  queries.start += bound.values[0];
  return queries;
}

}  // namespace

const Declaration Global::kDeclaration = {
    "global", "global tokens attend to all keys, and all queries attend to them",
    "Beltagy et al. 2020, arXiv:2004.05150, section 3.1", kParameters, kExamples};

void Global::check(Shape leading, int64_t q_len, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  if (!positions.defined()) return;
  if (count != 0)
    throw Error(ErrorCode::argument, "mask global: a count of " + std::to_string(count) +
                                         " and a tensor of positions; expected one of them");
  check_per_batch("mask global: positions", positions, leading, 1);
  const int64_t most = std::max(q_len, k_len) - 1, width = positions.shape[positions.rank - 1];
  int64_t visited = 0, before = -1;
  for_each_of(positions, [&](int64_t position) {
    if (visited++ % width == 0) before = -1;
    if (position < -1 || position > most)
      throw Error(ErrorCode::argument, "mask global: position " + std::to_string(position) +
                                           "; expected 0 to " + std::to_string(most) +
                                           ", the last of queries and keys, or -1 for none");
    if (position <= before && position != -1)
      throw Error(ErrorCode::argument, "mask global: position " + std::to_string(position) +
                                           " after " + std::to_string(before) +
                                           "; expected rising positions, -1 (none) before them");
    if (position == -1 && before != -1)
      throw Error(ErrorCode::argument, "mask global: -1 (none) after position " +
                                           std::to_string(before) +
                                           "; expected it before the positions of its batch");
    before = position;
  });
}

void Global::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(anchor, *bound);
  bound->values[2] = count;
  if (!positions.defined()) return;
  const int64_t stride = positions.strides[positions.rank - 1];
  bound->values[1] = offset_of(positions, head, 1);
  bound->values[2] = positions.shape[positions.rank - 1];
  const int64_t none = tokens_of(*this, *bound).below(0);
  bound->values[1] += none * stride;
  bound->values[2] -= none;
}

KeyRange Global::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const Tokens tokens = tokens_of(*this, bound);
  if (tokens.among(placed(queries, bound)) > 0) return {0, bound.k_len};
  const int64_t keys = tokens.below(bound.k_len);
  return keys == 0 ? KeyRange{0, 0} : KeyRange{tokens[0], tokens[keys - 1] + 1};
}

KeyRange Global::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  const Tokens tokens = tokens_of(*this, bound);
  if (tokens.among(placed(queries, bound)) > 0) return {from, bound.k_len};
  const int64_t keys = tokens.below(bound.k_len), next = tokens.below(from);
  if (next >= keys) return {bound.k_len, bound.k_len};
  if (!tokens.list) return {from, keys};
  return {tokens[next], tokens[end_of_run(tokens, next, keys) - 1] + 1};
}

Cover Global::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const Tokens tokens = tokens_of(*this, bound);
  const int64_t of_queries = tokens.among(placed(queries, bound)), of_keys = tokens.among(keys);
  if (of_queries == queries.count || of_keys == keys.count) return Cover::all;
  return of_queries == 0 && of_keys == 0 ? Cover::none : Cover::some;
}

void Global::exclude(const BoundMask& bound, Positions queries, Positions keys,
                     uint64_t* bits) const noexcept {
  const Tokens tokens = tokens_of(*this, bound);
  uint64_t to_all = 0;  // the queries that attend to all keys
  tokens.for_each_among(placed(queries, bound), [&](int64_t i) { to_all |= uint64_t{1} << i; });
  int64_t cleared = 0;
  const auto clear_before = [&](int64_t end) {
    for (; cleared < end; ++cleared) bits[cleared] &= to_all;
  };
  tokens.for_each_among(keys, [&](int64_t j) {
    clear_before(j);
    cleared = j + 1;
  });
  clear_before(keys.count);
}

}  // namespace rapt
