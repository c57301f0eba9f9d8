#pragma once
// Lists of many largest scores. A sorted list (captures.simd.h) shifts up to top_k scores per
// insertion. Here a score above the row's bound is appended in O(1). A full list is cut: its k-th
// largest score, found by bisection over the bits (candidate_rows.h), becomes the bound, and
// smaller scores are dropped. A cut reads the list a number of times that does not depend on k, and
// at least top_k / 2 scores enter before the next cut. A list is sorted once, after the last key.
//
// The order is that of the sorted lists: NaN counts as infinity, and of equal scores the earlier
// key is kept and stands first. Lists stay in the order of their keys until they are sorted.
#include "kernels/inlining.h"
#include "kernels/vector/rows.simd.h"
#include "rapt/normalizer/candidate_rows.h"

namespace rapt::RAPT_ISA {
namespace {

struct LongLists : CandidateRows {
  // Appends the scores of a tile to its lists, t.kept. bounds [queries] are -inf before the first
  // block; scores at or below the bound are dropped.
  template <class V, class E = typename V::Element>
  static void append_tile(Tile<E> t, int64_t top_k, E* bounds) noexcept {
    const int64_t keys = t.keys, first_key = t.key_positions.start;
    const int64_t at_once = smaller(kMostKeys, top_k / 2);
    for (int64_t first = 0; first < keys; first += at_once) {
      t.keys = smaller(at_once, keys - first);
      t.key_positions.start = first_key + first;
      for (uint64_t left = t.kept.open; left; left &= left - 1) {
        const int64_t i = __builtin_ctzll(left);
        if (t.kept.counts[i] + t.keys > t.kept.capacity) cut<V>(t, i, top_k, bounds[i]);
      }
      append<V>(t, bounds);
      t.scores += t.keys * t.queries;
    }
  }

  // Cuts and sorts the list of query i. `spare` has room for top_k scores and keys.
  template <class V, class E = typename V::Element>
  static void settle(Tile<E> t, int64_t i, int64_t top_k, E* bounds, E* spare,
                     int32_t* spare_keys) noexcept {
    cut<V>(t, i, top_k, bounds[i]);
    const Run<E> list{t.kept.scores + i * t.kept.stride, t.kept.keys + i * t.kept.stride};
    const int64_t count = t.kept.counts[i];
    Run<E> from = list, to{spare, spare_keys};
    for (int64_t width = 1; width < count; width *= 2) {
      for (int64_t begin = 0; begin < count; begin += 2 * width)
        merge(from, begin, smaller(count, begin + width), smaller(count, begin + 2 * width), to);
      const Run<E> merged = to;
      to = from, from = merged;
    }
    if (from.scores == list.scores) return;
    for (int64_t c = 0; c < count; ++c)
      list.scores[c] = from.scores[c], list.keys[c] = from.keys[c];
  }

 private:
  template <class E>
  struct Run {
    E* scores;
    int32_t* keys;
  };

  // Merges the falling runs [begin, middle) and [middle, end) of `from`; equal scores of the first
  // run come first. It does not branch on scores, because that would be unpredictable.
  template <class E>
  static void merge(Run<E> from, int64_t begin, int64_t middle, int64_t end, Run<E> to) noexcept {
    int64_t a = begin, b = middle, out = begin;
    for (; a < middle && b < end; ++out) {
      const bool later = from.scores[b] > from.scores[a];
      const int64_t at = later ? b : a;
      to.scores[out] = from.scores[at], to.keys[out] = from.keys[at];
      b += later, a += !later;
    }
    for (; a < middle; ++a, ++out) to.scores[out] = from.scores[a], to.keys[out] = from.keys[a];
    for (; b < end; ++b, ++out) to.scores[out] = from.scores[b], to.keys[out] = from.keys[b];
  }

  // Drops all but the top_k largest of the list of query i.
  template <class V, class E = typename V::Element>
  static void cut(Tile<E>& t, int64_t i, int64_t top_k, E& bound) noexcept {
    E* const scores = t.kept.scores + i * t.kept.stride;
    int32_t* const keys = t.kept.keys + i * t.kept.stride;
    const int64_t count = pad<V>(t, i);
    const V infinity = V::set(__builtin_inf());
    for (int64_t c = 0; c < count; c += V::kLanes) {
      const V score = V::load(scores + c);
      store(scores + c, select(equal(score, score), score, infinity));
    }
    if (count <= top_k) return;
    // At least top_k scores are above `lower`: the scores that the last cut has left.
    const E lower = bound == -E(__builtin_inf()) ? bound : next_below(bound);
    bound = next_above(cut_of_list<V>(scores, count, top_k, lower));
    const V least = V::splat(bound);
    // `room`: how many scores that equal the bound stay.
    int64_t room = top_k - count_above<V>(scores, count, bound), left = 0;
    for (int64_t c = 0; c < count; c += V::kLanes) {  // the padding is below the bound
      const V score = V::load(scores + c);
      uint64_t same = bits_of(equal(score, least));
      while (__builtin_popcountll(same) > room) same ^= uint64_t{1} << (63 - __builtin_clzll(same));
      room -= __builtin_popcountll(same);
      left += compress(bits_of(not_at_most(score, least)) | same, score, keys + c, scores + left,
                       keys + left);
    }
    t.kept.counts[i] = static_cast<int32_t>(left);
  }
};

}  // namespace
}  // namespace rapt::RAPT_ISA
