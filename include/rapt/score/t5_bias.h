#pragma once
// T5's relative position bias: s' = s + table[bucket(j - i)] with i counted by the anchor
// (anchor.h). Near distances have a bucket each. Farther distances share buckets, whose widths grow
// by a constant factor up to max_distance. With n the buckets of one direction and e = n / 2, a
// distance d gets
//
//   d < e     d
//   else      e + floor(ln(d / e) / ln(max_distance / e) (n - e)), at most n - 1
//
//   direction = both   keys at or before the query use the first half of the buckets, keys after
//                      it the second half: an encoder
//   direction = past   keys after the query share bucket 0 with the query's own position: a decoder
//
//   table  [..., heads, buckets], f32 or f64 (head_numbers.h): the weight of Hugging Face's
//          relative_attention_bias, [buckets, heads], transposed (a view does it)
//
// T5 does not scale its scores: use this bias with scale = 1.
// Source: Raffel et al. 2019, arXiv:1910.10683, section 2.1 and its code.
#include "rapt/anchor.h"
#include "rapt/head_numbers.h"
#include "rapt/score/score.h"

namespace rapt {

enum class T5Direction : uint8_t { both, past };
inline constexpr const char* kT5DirectionNames[] = {"both", "past"};

struct T5Bias {
  TensorView table;  // must be given
  int64_t max_distance = 128;
  T5Direction direction = T5Direction::both;
  Anchor anchor = Anchor::top_left;

  static const Declaration kDeclaration;
  static constexpr bool kUsesBefore = false, kUsesAfter = false;
  void check() const;

  T5Bias() = default;
  explicit T5Bias(const TensorView& numbers) : table(numbers) {}

  // The bucket of a key `ahead` positions after the query (negative: before it).
  [[gnu::always_inline]] int64_t bucket(int64_t ahead) const noexcept {
    int64_t n = buckets(), first = 0;
    if (direction == T5Direction::both) {
      n /= 2;
      if (ahead > 0) first = n;
    } else if (ahead > 0) {
      ahead = 0;
    }
    const int64_t d = ahead < 0 ? -ahead : ahead, exact = n / 2;
    if (d < exact) return first + d;
    if (d >= max_distance) return first + n - 1;
    // Computed in double, so that the first distance of each bucket, and the ones next to it, get
    // the right bucket.
    const double e = static_cast<double>(exact);
    const int64_t far =
        exact + static_cast<int64_t>(__builtin_log(static_cast<double>(d) / e) /
                                     __builtin_log(static_cast<double>(max_distance) / e) *
                                     static_cast<double>(n - exact));
    return first + (far < n ? far : n - 1);
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    const int64_t begin = head_offset(table, 1, *t.head), step = table.strides[table.rank - 1];
    add_numbers<V>(t, [&](int64_t b) { return number_at(table, begin + b * step); });
  }

  // ds'/ds = 1, ds'/dtable = 1 in the pair's bucket.
  template <class V>
  void backward(const typename V::Element*, const typename V::Element*,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    add_gradient<V>(t, t.scores, sums);
  }
  template <class V>
  void tangent(const typename V::Element*, Tile<typename V::Element>& t,
               const double* numbers) const noexcept {
    add_numbers<V>(t, [&](int64_t b) { return numbers[b]; });
  }
  template <class V>
  void backward_tangent(const typename V::Element*, const typename V::Element*,
                        Tile<typename V::Element>& t, typename V::Element* d_tangents,
                        const double*, typename V::Element* sums) const noexcept {
    add_gradient<V>(t, d_tangents, sums);
  }

 private:
  static constexpr int64_t kKeys = 64;     // keys that share a table of distances
  static constexpr int64_t kQueries = 64;  // the widest tile

  [[gnu::always_inline]] int64_t buckets() const noexcept { return table.shape[table.rank - 1]; }

  // The distances j - i of some keys of a tile, and their buckets.
  struct Run {
    int64_t begin, count;  // its keys, counted within the tile
    int64_t first;         // j - i of the last query and the first key
    int64_t query_step, key_step;
    bool far;  // all are in bucket `only`
    int64_t only;
    // [distances], for steps of 1. Query i and key j of the run are at (last query - i) + j.
    int16_t bucket_at[kKeys + kQueries];
  };
  template <class E, class Visit>
  [[gnu::always_inline]] void for_each_run(const Tile<E>& t, const Visit& visit) const noexcept {
    const Positions queries = t.query_positions, keys = t.key_positions;
    const int64_t width = t.queries, o = offset_of(anchor, *t.head);
    Run run;
    run.query_step = queries.step, run.key_step = keys.step;
    for (run.begin = 0; run.begin < t.keys; run.begin += kKeys) {
      run.count = t.keys - run.begin < kKeys ? t.keys - run.begin : kKeys;
      run.first = keys[run.begin] - (queries[width - 1] + o);
      const int64_t last = keys[run.begin + run.count - 1] - (queries[0] + o);
      run.far = run.first >= max_distance || last <= -max_distance ||
                (direction == T5Direction::past && run.first >= 0);
      run.only = bucket(run.first);
      if (!run.far)
        for (int64_t x = 0; x < width + run.count - 1; ++x)
          run.bucket_at[x] = static_cast<int16_t>(bucket(run.first + x));
      visit(run);
    }
  }
  // The bucket of query i and key j of the run, without the table of distances.
  [[gnu::always_inline]] int64_t bucket_of(const Run& run, int64_t width, int64_t i,
                                           int64_t j) const noexcept {
    return run.far ? run.only
                   : bucket(run.first + run.query_step * (width - 1 - i) + run.key_step * j);
  }

  template <class V, class Number>
  [[gnu::always_inline]] void add_numbers(const Tile<typename V::Element>& t,
                                          const Number& number) const noexcept {
    using E = typename V::Element;
    const int64_t width = t.queries;
    E* const scores = t.scores;
    for_each_run(t, [&](const Run& run) {
      E* const begin = scores + run.begin * width;
      if (run.far) {
        const V value = V::set(number(run.only));
        for (int64_t at = 0; at < run.count * width; at += V::kLanes)
          store(begin + at, add(V::load(begin + at), value));
        return;
      }
      if (run.query_step != 1 || run.key_step != 1) {
        for (int64_t j = 0; j < run.count; ++j)
          for (int64_t i = 0; i < width; ++i)
            begin[j * width + i] += static_cast<E>(number(bucket_of(run, width, i, j)));
        return;
      }
      // Queries rise along the lanes, so distances fall: the table is reversed.
      E values[kKeys + kQueries];
      const int64_t distances = width + run.count - 1;
      for (int64_t x = 0; x < distances; ++x)
        values[distances - 1 - x] = static_cast<E>(number(run.bucket_at[x]));
      for (int64_t j = 0; j < run.count; ++j)
        for (int64_t i = 0; i < width; i += V::kLanes) {
          E* const at = begin + j * width + i;
          store(at, add(V::load(at), V::load(values + run.count - 1 - j + i)));
        }
    });
  }
  template <class V>
  void add_gradient(const Tile<typename V::Element>& t, const typename V::Element* gradients,
                    typename V::Element* sums /* [buckets][queries] */) const noexcept {
    const int64_t width = t.queries;
    for_each_run(t, [&](const Run& run) {
      const auto* const begin = gradients + run.begin * width;
      if (run.far) {
        for (int64_t i = 0; i < width; i += V::kLanes) {
          auto* const sum = sums + run.only * width + i;
          V total = V::load(sum);
          for (int64_t j = 0; j < run.count; ++j)
            total = add(total, V::load(begin + j * width + i));
          store(sum, total);
        }
        return;
      }
      const bool steps = run.query_step != 1 || run.key_step != 1;
      for (int64_t j = 0; j < run.count; ++j)
        for (int64_t i = 0; i < width; ++i) {
          const int64_t b = steps ? bucket_of(run, width, i, j) : run.bucket_at[width - 1 - i + j];
          sums[b * width + i] += begin[j * width + i];
        }
    });
  }
};

}  // namespace rapt
