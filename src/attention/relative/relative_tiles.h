#pragma once
// Adds the products of distance tables to score tiles, and sums gradients by distance. A tile of
// `keys` and `queries` (a multiple of the lanes) has keys + queries - 1 distances, smallest first.
// The pair of key j and query i has distance number j + queries - 1 - i
// (kernels/vector/relative.simd.h).
#include "attention/relative/distance_products.h"

namespace rapt {

template <class E>
class RelativeTiles {
 public:
  RelativeTiles(const ForwardCall<E>& call, const RelativePlaces<E>& places,
                std::byte* scratch) noexcept
      : p_(call.problem),
        relative_(call.problem.relative),
        kernels_(call.kernels),
        places_(places),
        products_(call, places, scratch) {}

  void begin_head(const int64_t* index, const Head& place) noexcept {
    if (!relative_.tables()) return;
    offset_ = offset_of(relative_.given->anchor, place);
    key_ = products_.table(relative_.key, relative_.key_rows, p_.head_dim, index);
    query_ = products_.table(relative_.query, relative_.query_rows, p_.head_dim, index);
    value_ = products_.table(relative_.value, relative_.value_rows, p_.value_dim, index);
  }

  // The distances of the keys from queries at `width` positions.
  DistanceSpan span_of(Positions keys, Positions queries, int64_t width) const noexcept {
    return {products_.rows(), keys.start - (queries[width - 1] + offset_),
            (width - 1) * queries.step + keys.count};
  }

  // Adds to scores [keys][queries] the products of position_t [head_dim][queries] (which includes
  // the scale) with key_rows, and `factor` times the products of the keys with query_rows. Writes
  // the maxima to block_max.
  void add_scores(const void* position_t, DenseRows<E> key, E factor, int vectors,
                  Positions queries, Positions keys, E* scores, E* block_max) noexcept {
    if (relative_.key) add_products(key_, position_t, vectors, queries, keys, scores, block_max);
    if (!relative_.query) return;
    const int64_t width = products_.width_of(vectors);
    for_each_group(keys, [&](Positions group, int64_t at) {
      add_products_of_keys({key.data + at * key.stride, key.stride}, factor, queries, group, width,
                           scores + at * width);
    });
    kernels_.table.find_max(scores, keys.count, width, block_max);
  }
  // d_weights += the products of d_output_t with value_rows.
  void add_d_weights(const void* d_output_t, int vectors, Positions queries, Positions keys,
                     E* d_weights) noexcept {
    if (relative_.value)
      add_products(value_, d_output_t, vectors, queries, keys, d_weights,
                   products_.at(places_.unused_max));
  }

  // output_t [value_dim][queries] += weights [keys][queries] times value_rows. Pairs whose bit is
  // clear must have weight 0; bits null: no pair is masked out.
  void add_output(const E* weights, int vectors, Positions queries, Positions keys,
                  const uint64_t* bits, E* output_t) noexcept {
    if (!relative_.value) return;
    const DistanceSpan span = take(weights, vectors, queries, keys);
    add_rows(value_, span, vectors, queries, keys, bits, output_t);
  }
  // The same for one query with weights for some keys: column[d * step] +=.
  void add_output_of(int64_t query, const int32_t* keys, const E* weights, int64_t count, E* column,
                     int64_t step) noexcept {
    if (!relative_.value) return;
    for (int64_t c = 0; c < count; ++c) {
      const int32_t place = 0;
      const int64_t row = products_.rows().row(keys[c] - (query + offset_));
      kernels_.table.sparse.add_rows(products_.rows_at(value_, row, 1), &place, weights + c, 1,
                                     p_.value_dim, column, step);
    }
  }

  // Sums a tile by table row: by_row() [span.rows][queries].
  DistanceSpan take(const E* tile, int vectors, Positions queries, Positions keys) noexcept {
    const int64_t width = products_.width_of(vectors);
    const DistanceSpan span = span_of(keys, queries, width);
    E* const out = products_.by_distance();
    if (span.one_row()) {
      std::fill_n(out, width, E(0));
      kernels_.table.gradients.add_sums(tile, keys.count, width, out);
    } else {
      kernels_.table.relative.take_by_distance(tile, keys.count, width, out);
      products_.gather(span, width);
    }
    return span;
  }
  // sums_t [head_dim][queries] += by_row() times key_rows.
  void add_key_rows(const DistanceSpan& span, int vectors, Positions queries, Positions keys,
                    const uint64_t* bits, E* sums_t) noexcept {
    add_rows(key_, span, vectors, queries, keys, bits, sums_t);
  }
  const E* by_row(const DistanceSpan& span, int64_t lanes) const noexcept {
    return products_.by_row(span, lanes);
  }
  // For each row of by_row(), the queries with an unmasked pair; `bits` [keys], null: all pairs are
  // unmasked.
  const uint64_t* bits_of_rows(const DistanceSpan& span, int64_t width, Positions queries,
                               Positions keys, const uint64_t* bits) const noexcept {
    uint64_t* const out = products_.cleared_bits(span);
    for (int64_t i = 0; i < queries.count; ++i)
      for (int64_t j = 0; j < keys.count; ++j)
        if (!bits || (bits[j] >> i & 1))
          out[products_.rows().row(span.first + j + width - 1 - i) - span.low] |= uint64_t{1} << i;
    return out;
  }

  // Products with keys as lanes. A group is one vector of keys. Among the distances of a group and
  // some queries, the pair of key j and query i is at j + queries - 1 - i, too.
  template <class Visit>
  void for_each_group(Positions keys, const Visit& visit) const noexcept {
    const int64_t lanes = kernels_.table.lanes;
    for (int64_t at = 0; at < keys.count; at += lanes)
      visit(keys.part(at, std::min(at + lanes, keys.count)), at);
  }
  // Sums a tile [group][width] by table row of a key group: by_row() [span.rows][lanes].
  DistanceSpan take_of_keys(const E* tile, int64_t width, Positions queries,
                            Positions group) noexcept {
    const int64_t lanes = kernels_.table.lanes;
    const DistanceSpan span = span_of_keys(group, queries);
    E* const rows = products_.at(places_.by_query);  // [queries][lanes]
    E* const turned = rows + queries.count * lanes;  // the greatest first
    E* const out = products_.by_distance();
    std::fill_n(rows, queries.count * lanes, E(0));
    kernels_.table.store_rows[static_cast<int>(p_.result_dtype)](
        tile, group.count, width, nullptr, ~uint64_t{0}, queries.count, rows, lanes, 1);
    kernels_.table.relative.take_by_distance(rows, queries.count, lanes, turned);
    const int64_t last = queries.count + lanes - 2;  // in `turned` keys count as whole vectors do
    for (int64_t x = 0; x < span.count; ++x)
      std::copy_n(turned + (last - x) * lanes, lanes, out + x * lanes);
    products_.gather(span, lanes);
    return span;
  }
  // sums_t [head_dim][lanes] += by_row() times query_rows; bits [group], null: all.
  void add_query_rows(const DistanceSpan& span, Positions queries, Positions group,
                      const uint64_t* bits, E* sums_t) noexcept {
    products_.add_rows(
        query_, span, 1, [&] { return bits_of_keys(span, queries, group, bits); }, sums_t);
  }
  const uint64_t* bits_of_keys(const DistanceSpan& span, Positions queries, Positions group,
                               const uint64_t* bits) const noexcept {
    uint64_t* const out = products_.cleared_bits(span);
    for (int64_t j = 0; j < group.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        if (!bits || (bits[j] >> i & 1))
          out[products_.rows().row(span.first + j + queries.count - 1 - i) - span.low] |=
              uint64_t{1} << j;
    return out;
  }
  DenseRows<E> query_rows(int64_t low, int64_t count) const noexcept {
    return products_.rows_at(query_, low, count);
  }

 private:
  // Only for existing keys: windows of sums have no rows for others (backward/distance_sums.h).
  DistanceSpan span_of_keys(Positions group, Positions queries) const noexcept {
    return {products_.rows(), group.start - (queries.last() + offset_),
            queries.count + group.count - 1};
  }

  void add_products(const DistanceTable& table, const void* tile_t, int vectors, Positions queries,
                    Positions keys, E* scores, E* block_max) noexcept {
    const int64_t width = products_.width_of(vectors);
    const auto& kernel = kernels_.table.relative;
    if (queries.step != 1) {
      add_apart(table, tile_t, vectors, queries, keys, scores);
      kernels_.table.find_max(scores, keys.count, width, block_max);
      return;
    }
    const DistanceSpan span = span_of(keys, queries, width);
    products_.multiply(table, tile_t, vectors, span);
    (span.one_row() ? kernel.add_row : kernel.add_by_distance)(products_.by_distance(), keys.count,
                                                               width, scores, block_max);
  }

  // Queries that are not neighbours are processed one by one; only returned weights have them.
  void add_apart(const DistanceTable& table, const void* tile_t, int vectors, Positions queries,
                 Positions keys, E* scores) noexcept {
    const int64_t width = products_.width_of(vectors);
    const E* const out = products_.by_distance();
    for (int64_t i = 0; i < queries.count; ++i) {
      const DistanceSpan span(products_.rows(), keys.start - (queries[i] + offset_), keys.count);
      products_.multiply(table, tile_t, vectors, span);
      for (int64_t j = 0; j < keys.count; ++j)
        scores[j * width + i] += out[(span.one_row() ? 0 : j) * width + i];
    }
  }

  // scores [group][width] += the products of a group of keys with query_rows.
  void add_products_of_keys(DenseRows<E> key, E factor, Positions queries, Positions group,
                            int64_t width, E* scores) noexcept {
    const int64_t lanes = kernels_.table.lanes;
    E* const key_t = products_.at(places_.key_t);
    kernels_.table.fma[static_cast<int>(p_.result_dtype)]->pack_queries(
        key.data, key.stride, 1, group.count, p_.head_dim, factor, lanes, key_t);
    if (queries.step != 1) {
      for (int64_t i = 0; i < queries.count; ++i)
        add_products_of_query(key_t, queries.part(i, i + 1), group, width, scores + i);
      return;
    }
    const E* const rows = multiply_keys(key_t, queries, group);
    // As a bias: rows of queries, the last first.
    kernels_.table.add_bias[static_cast<int>(p_.result_dtype)](
        scores, rows + (queries.count - 1) * lanes, -lanes, 1, group.count, queries.count, width,
        products_.at(places_.bits), products_.at(places_.unused_max));
  }
  void add_products_of_query(const E* key_t, Positions query, Positions group, int64_t width,
                             E* scores) noexcept {
    const E* const row = multiply_keys(key_t, query, group);
    for (int64_t j = 0; j < group.count; ++j) scores[j * width] += row[j];
  }
  // [queries][lanes], the last query first.
  const E* multiply_keys(const E* key_t, Positions queries, Positions group) noexcept {
    const int64_t lanes = kernels_.table.lanes;
    const DistanceSpan span = span_of_keys(group, queries);
    products_.multiply(query_, key_t, 1, span);
    E* const out = products_.by_distance();
    if (span.one_row())
      for (int64_t x = 1; x < span.count; ++x) std::copy_n(out, lanes, out + x * lanes);
    E* const rows = products_.at(places_.by_query);
    kernels_.table.relative.take_by_distance(out, span.count, lanes, rows);
    return rows + (lanes - 1) * lanes;
  }

  // sums_t [dims][queries] += by_row() times rows of the table.
  void add_rows(DistanceTable& table, const DistanceSpan& span, int vectors, Positions queries,
                Positions keys, const uint64_t* bits, E* sums_t) noexcept {
    products_.add_rows(
        table, span, vectors,
        [&] { return bits_of_rows(span, products_.width_of(vectors), queries, keys, bits); },
        sums_t);
  }

  const Problem& p_;
  const Relative& relative_;
  const Kernels<E>& kernels_;
  const RelativePlaces<E>& places_;
  DistanceProducts<E> products_;
  DistanceTable key_, query_, value_;
  int64_t offset_ = 0;  // number of keys before the position of query 0
};

}  // namespace rapt
