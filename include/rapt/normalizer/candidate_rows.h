#pragma once
// The lists of candidates of sparse normalisers (tile.h): per query, the scores that may still get
// a weight, with their keys. What a normaliser does with them begins with these words:
//
//   append      the scores of a block above a bound of their row
//   keep_above  what is left of a list above another bound
//   cut_of_list the bound that the k largest of a list are above
//
// A NaN is above any bound. Templates over V: any other function that is not inlined would be one
// for all instruction sets.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct CandidateRows {
 protected:
  // Fewer candidates than this are not worth a search for what can be dropped.
  static constexpr int32_t kEnough = 64;
  // Keys of a block, at most.
  static constexpr int64_t kMostKeys = 128;
  // Queries of a tile, at most.
  static constexpr int64_t kMostQueries = 64;

  // Before the first block: lists without a score; `enough`: from how many on some are dropped.
  template <class V>
  static void empty_lists(Tile<typename V::Element>& t, int32_t enough = kEnough) noexcept {
    for (int64_t i = 0; i < t.queries; ++i) t.kept.counts[i] = 0, t.kept.enough[i] = enough;
  }

  // Is there so much on the list of query i that something should be dropped? Of how many keys a
  // block has for the tile, a row's list must not know: for the longest there is room.
  template <class V>
  static bool is_full(const Tile<typename V::Element>& t, int64_t i) noexcept {
    const int64_t count = t.kept.counts[i];
    if (count > t.kept.enough[i]) return true;
    return t.kept.capacity < t.head->k_len && count + kMostKeys > t.kept.capacity;
  }

  // Puts -inf behind the list of query i, for whole vectors; returns how long it is.
  template <class V>
  static int64_t pad(const Tile<typename V::Element>& t, int64_t i) noexcept {
    const int64_t count = t.kept.counts[i];
    store(t.kept.scores + i * t.kept.stride + count, V::set(-__builtin_inf()));
    return count;
  }

  // Which of the lanes from candidate c on are none, but padding, is not to be told by their
  // numbers: of a row whose scores are all NaN, -inf is as good as any.
  template <class V>
  static uint64_t lanes_before(int64_t c, int64_t count) noexcept {
    return count - c < V::kLanes ? (uint64_t{1} << (count - c)) - 1 : ~uint64_t{0};
  }

  // Drops the candidates of query i at or below the limit; returns how many are left.
  template <class V, class E = typename V::Element>
  static int64_t keep_above(Tile<E>& t, int64_t i, E limit) noexcept {
    E* const scores = t.kept.scores + i * t.kept.stride;
    int32_t* const keys = t.kept.keys + i * t.kept.stride;
    const V lowest = V::splat(limit);
    const int64_t count = pad<V>(t, i);
    int64_t left = 0;
    for (int64_t c = 0; c < count; c += V::kLanes) {
      const V score = V::load(scores + c);
      left += compress(bits_of(not_at_most(score, lowest)) & lanes_before<V>(c, count), score,
                       keys + c, scores + left, keys + left);
    }
    t.kept.counts[i] = static_cast<int32_t>(left);
    return left;
  }

  // Of the `count` scores of a padded list, those above the limit.
  template <class V, class E = typename V::Element>
  static int64_t count_above(const E* scores, int64_t count, E limit) noexcept {
    const V lowest = V::splat(limit);
    int64_t above = 0;
    for (int64_t c = 0; c < count; c += V::kLanes)
      above += __builtin_popcountll(bits_of(not_at_most(V::load(scores + c), lowest)));
    return above;
  }

  // The largest number that at least k of the `count` scores of a padded list are above, which
  // they are above `cut`, too: found by halving the interval of floating-point numbers that it is
  // in, by their bits. Any numbers, in as many steps as they have bits at most.
  template <class V, class E = typename V::Element>
  static E cut_of_list(const E* scores, int64_t count, int64_t k, E cut) noexcept {
    // At least k scores are above `low`, fewer above `high`.
    int64_t low = order_of(cut), high = order_of(largest_of<V>(scores, count));
    while (low + 1 < high) {
      const int64_t middle =
          low +
          static_cast<int64_t>((static_cast<uint64_t>(high) - static_cast<uint64_t>(low)) / 2);
      (count_above<V>(scores, count, from_order<E>(middle)) >= k ? low : high) = middle;
    }
    return from_order<E>(low);
  }

  // The number after a cut: the k-th largest score itself.
  template <class E>
  [[gnu::always_inline]] static E next_above(E cut) noexcept {
    return from_order<E>(order_of(cut) + 1);
  }
  template <class E>
  [[gnu::always_inline]] static E next_below(E number) noexcept {
    return from_order<E>(order_of(number) - 1);
  }

  // Of a padded list; -inf of an empty one.
  template <class V, class E = typename V::Element>
  static E largest_of(const E* scores, int64_t count) noexcept {
    V most = V::set(-__builtin_inf());
    for (int64_t c = 0; c < count; c += V::kLanes) most = max(V::load(scores + c), most);
    E lane[V::kLanes];
    store(lane, most);
    for (int64_t i = 1; i < V::kLanes; ++i)
      if (lane[i] > lane[0]) lane[0] = lane[i];
    return lane[0];
  }

  // Calls visit(begin, end) for the parts of a list, whose sums are added to that of the list:
  // errors grow with the length of a part and the number of parts, not with their product.
  template <class V, class Visit>
  static void for_each_part(int64_t count, const Visit& visit) noexcept {
    for (int64_t begin = 0; begin < count; begin += kSummedScores)
      visit(begin, count - begin < kSummedScores ? count : begin + kSummedScores);
  }

  // The sum of the lanes, by halves.
  template <class V, class E = typename V::Element>
  static E total(V v) noexcept {
    E lane[V::kLanes];
    store(lane, v);
    for (int64_t n = V::kLanes / 2; n > 0; n /= 2)
      for (int64_t i = 0; i < n; ++i) lane[i] += lane[i + n];
    return lane[0];
  }

  // The scores of a block above the bounds [queries] of their rows. Few are taken one by one; of
  // many, a square of keys and queries is transposed, and each row compressed.
  template <class V>
  static void append(Tile<typename V::Element>& t, const typename V::Element* bounds) noexcept {
    const int64_t keys = t.keys, step = t.queries;
    uint64_t found[kMostKeys];
    for (int64_t x = 0; x < step; x += V::kLanes) {
      const uint64_t open = t.kept.open >> x;
      const V bound = V::load(bounds + x);
      const typename V::Element* const scores = t.scores + x;
      for (int64_t first = 0; first < keys; first += kMostKeys) {
        const int64_t some = keys - first < kMostKeys ? keys - first : kMostKeys;
        int64_t count = 0;
        for (int64_t j = 0; j < some; ++j) {
          const V score = V::load(scores + (first + j) * step);
          found[j] = bits_of(not_at_most(score, bound)) & open;
          count += __builtin_popcountll(found[j]);
        }
        if (count == 0) continue;
        if (count < some * V::kLanes / kFewInMany)
          append_few<V>(t, x, first, some, found);
        else
          append_many<V>(t, x, first, some, open, bounds + x);
      }
    }
  }

 private:
  static constexpr int64_t kSummedScores = 128;  // as a block of keys: a sum of its own
  // Of which share of the scores it pays to compress rows.
  static constexpr int64_t kFewInMany = 16;

  // The place of a number in the order of all: what is next to it is next to it there.
  [[gnu::always_inline]] static int64_t order_of(float x) noexcept {
    const auto bits = __builtin_bit_cast(int32_t, x);
    return bits < 0 ? INT32_MIN - int64_t{bits} - 1 : bits;
  }
  [[gnu::always_inline]] static int64_t order_of(double x) noexcept {
    const auto bits = __builtin_bit_cast(int64_t, x);
    return bits < 0 ? INT64_MIN - bits - 1 : bits;
  }
  template <class E>
  [[gnu::always_inline]] static E from_order(int64_t order) noexcept {
    if constexpr (sizeof(E) == 4)
      return __builtin_bit_cast(float,
                                static_cast<int32_t>(order < 0 ? INT32_MIN - order - 1 : order));
    else
      return __builtin_bit_cast(double, order < 0 ? INT64_MIN - order - 1 : order);
  }

  template <class V>
  static void append_few(Tile<typename V::Element>& t, int64_t x, int64_t first, int64_t keys,
                         const uint64_t* found) noexcept {
    const Candidates<typename V::Element> kept = t.kept;
    const auto first_key = static_cast<int32_t>(t.key_positions.start + first);
    const typename V::Element* s = t.scores + first * t.queries + x;
    for (int64_t j = 0; j < keys; ++j, s += t.queries)
      for (uint64_t left = found[j]; left; left &= left - 1) {
        const int64_t i = __builtin_ctzll(left);
        const int64_t at = (x + i) * kept.stride + kept.counts[x + i]++;
        kept.scores[at] = s[i];
        kept.keys[at] = first_key + static_cast<int32_t>(j);
      }
  }

  template <class V>
  static void append_many(Tile<typename V::Element>& t, int64_t x, int64_t first, int64_t keys,
                          uint64_t open, const typename V::Element* bound) noexcept {
    using E = typename V::Element;
    const Candidates<E> kept = t.kept;
    for (int64_t j = 0; j < keys; j += V::kLanes) {
      const E* const s = t.scores + (first + j) * t.queries + x;
      int32_t numbers[V::kLanes];
      V square[V::kLanes];  // of the keys, then of the queries
      for (int64_t y = 0; y < V::kLanes; ++y) {
        numbers[y] = static_cast<int32_t>(t.key_positions.start + first + j + y);
        square[y] = j + y < keys ? V::load(s + y * t.queries) : V::set(-__builtin_inf());
      }
      transpose(square);
      for (int64_t i = 0; i < V::kLanes; ++i) {
        if (!(open >> i & 1)) continue;
        int32_t& count = kept.counts[x + i];
        const int64_t at = (x + i) * kept.stride + count;
        const uint64_t above_bound = bits_of(not_at_most(square[i], V::splat(bound[i])));
        count += static_cast<int32_t>(
            compress(above_bound, square[i], numbers, kept.scores + at, kept.keys + at));
      }
    }
  }
};

}  // namespace rapt
