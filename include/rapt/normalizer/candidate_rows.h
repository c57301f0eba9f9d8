#pragma once
// The lists of candidates of sparse normalisers (tile.h): per query, the scores that may still get
// a weight, with their keys. The basic operations are
//
//   append       adds the scores of a block that are above a bound of their row
//   keep_above   drops the candidates of a list that are not above a bound
//   cut_of_list  finds the largest bound that k scores of a list are above
//
// A NaN is above any bound. All functions are templates over V or always inlined: any other
// function would be one weak symbol for all instruction sets.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct CandidateRows {
 protected:
  // With fewer candidates, a search for what can be dropped does not pay.
  static constexpr int32_t kEnough = 64;
  // Keys of a block, at most.
  static constexpr int64_t kMostKeys = 128;
  // Queries of a tile, at most.
  static constexpr int64_t kMostQueries = 64;

  // Empties the lists before the first block. `enough`: with more candidates than this, some are
  // dropped.
  template <class V>
  static void empty_lists(Tile<typename V::Element>& t, int32_t enough = kEnough) noexcept {
    for (int64_t i = 0; i < t.queries; ++i) t.kept.counts[i] = 0, t.kept.enough[i] = enough;
  }

  // Whether candidates of query i should be dropped. The answer must not depend on how many keys
  // the block has for this tile, so it assumes a block of the largest length.
  template <class V>
  static bool is_full(const Tile<typename V::Element>& t, int64_t i) noexcept {
    const int64_t count = t.kept.counts[i];
    if (count > t.kept.enough[i]) return true;
    return t.kept.capacity < t.head->k_len && count + kMostKeys > t.kept.capacity;
  }

  // Appends -inf to the list of query i, up to a whole vector; returns its length without padding.
  template <class V>
  static int64_t pad(const Tile<typename V::Element>& t, int64_t i) noexcept {
    const int64_t count = t.kept.counts[i];
    store(t.kept.scores + i * t.kept.stride + count, V::set(-__builtin_inf()));
    return count;
  }

  // The lanes from candidate c on that hold candidates, as bits; the others hold padding. Scores
  // cannot tell: in a row whose scores are all NaN, the padding's -inf may pass a comparison, too.
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

  // The number of scores above the limit, among the `count` scores of a padded list.
  template <class V, class E = typename V::Element>
  static int64_t count_above(const E* scores, int64_t count, E limit) noexcept {
    const V lowest = V::splat(limit);
    int64_t above = 0;
    for (int64_t c = 0; c < count; c += V::kLanes)
      above += __builtin_popcountll(bits_of(not_at_most(V::load(scores + c), lowest)));
    return above;
  }

  // The largest number that at least k of the `count` scores of a padded list are above. At least k
  // scores must be above `cut`. Found by bisection over the bit patterns of floating-point numbers,
  // in at most as many steps as a number has bits, for any scores.
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

  // The next floating-point number above a cut: the k-th largest score itself.
  template <class E>
  [[gnu::always_inline]] static E next_above(E cut) noexcept {
    return from_order<E>(order_of(cut) + 1);
  }
  // The next floating-point number below one.
  template <class E>
  [[gnu::always_inline]] static E next_below(E number) noexcept {
    return from_order<E>(order_of(number) - 1);
  }

  // The largest score of a padded list; -inf for an empty list.
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

  // Calls visit(begin, end) for the parts of a list. The caller sums each part and adds it to the
  // sum of the list, so that errors grow with the length of a part plus the number of parts, not
  // with their product.
  template <class V, class Visit>
  static void for_each_part(int64_t count, const Visit& visit) noexcept {
    for (int64_t begin = 0; begin < count; begin += kSummedScores)
      visit(begin, count - begin < kSummedScores ? count : begin + kSummedScores);
  }

  // The sum of the lanes, by halving.
  template <class V, class E = typename V::Element>
  static E total(V v) noexcept {
    E lane[V::kLanes];
    store(lane, v);
    for (int64_t n = V::kLanes / 2; n > 0; n /= 2)
      for (int64_t i = 0; i < n; ++i) lane[i] += lane[i + n];
    return lane[0];
  }

  // Appends the scores of a block that are above the bounds [queries] of their rows. Few scores are
  // appended one by one. If there are many, squares of keys and queries are transposed, and each
  // row is compressed.
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
  static constexpr int64_t kSummedScores = 128;  // of a part, as in a block of keys
  // Compressing rows pays if at least 1 in this many scores is appended.
  static constexpr int64_t kFewInMany = 16;

  // Maps a floating-point number to an integer, so that neighbours have neighbouring integers.
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
      V square[V::kLanes];  // a vector per key; once transposed, a vector per query
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
