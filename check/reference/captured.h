#pragma once
// The captures (spec/captures.h) of one run of the reference. A map pools the weights of rows a and
// columns b of a grid into their mean, sum or maximum.
#include <algorithm>
#include <functional>
#include <utility>

#include "check/reference/reference.h"
#include "check/spec/captures.h"

namespace check {

// The weights of a row in the order of a list of its `top_k` largest scores: a NaN counts as +inf,
// of equal scores the earlier key is first, and a key whose score is -inf is not listed. 0 behind
// the last key.
template <class Real>
std::vector<Real> listed_weights(const Row<Real>& row, int64_t top_k) {
  std::vector<std::pair<Real, Real>> listed;  // scores and weights
  for (const Pair<Real>& pair : row.pairs)
    if (pair.score != -kInfinityOf<Real>)
      listed.emplace_back(std::isnan(pair.score) ? kInfinityOf<Real> : pair.score, pair.weight);
  std::ranges::stable_sort(listed, std::greater<>(), &std::pair<Real, Real>::first);
  listed.resize(static_cast<size_t>(top_k));
  std::vector<Real> weights;
  for (const auto& [score, weight] : listed) weights.push_back(weight);
  return weights;
}

// Visits every index at which `wanted` holds `value`. An empty `wanted` means all: visits `value`.
template <class Visit>
void for_places(const std::vector<int64_t>& wanted, int64_t value, const Visit& visit) {
  if (wanted.empty()) return visit(value);
  for (size_t place = 0; place < wanted.size(); ++place)
    if (wanted[place] == value) visit(static_cast<int64_t>(place));
}

// Visits the rows of the weights' tensor that hold row `index` of `head`, if any.
template <class Visit>
void for_weights_rows(const WeightsWanted& wanted, int64_t q_len, int64_t head, int64_t index,
                      const Visit& visit) {
  const int64_t end = wanted.end < 0 ? q_len : wanted.end;
  const int64_t rows =
      wanted.rows.empty() ? end - wanted.begin : static_cast<int64_t>(wanted.rows.size());
  for_places(wanted.heads, head, [&](int64_t h) {
    if (!wanted.rows.empty())
      for_places(wanted.rows, index, [&](int64_t r) { visit(h * rows + r); });
    else if (index >= wanted.begin && index < end)
      visit(h * rows + index - wanted.begin);
  });
}

// Adds the numbers `of_keys` of a row of `head` to those of the keys [heads, k_len].
template <class Number>
void add_received(const Sizes& sizes, int64_t head, const std::vector<Number>& of_keys,
                  std::vector<Number>& received) {
  const auto first = static_cast<size_t>(head * sizes.k_len);
  for (size_t j = 0; j < of_keys.size(); ++j) received[first + j] += of_keys[j];
}

// Adds the numbers `of_keys` of row `index` of `head` to their cells [heads, rows, columns]. With
// Pooling::max, a cell becomes the maximum of both.
template <class Number>
void pool(const MapWanted& map, const Sizes& sizes, int64_t head, int64_t index,
          const std::vector<Number>& of_keys, std::vector<Number>& cells) {
  for (int64_t a = 0; a < map.rows; ++a) {
    const int64_t begin = a * sizes.q_len / map.rows, end = (a + 1) * sizes.q_len / map.rows;
    if (index < begin || index >= end) continue;
    for_places(map.heads, head, [&](int64_t h) {
      for (int64_t b = 0; b < map.columns; ++b) {
        const int64_t first = b * sizes.k_len / map.columns,
                      last = (b + 1) * sizes.k_len / map.columns;
        Number& cell = cells[static_cast<size_t>((h * map.rows + a) * map.columns + b)];
        const auto pairs = static_cast<Number>((end - begin) * (last - first));
        for (int64_t j = first; j < last; ++j) {
          const Number x = of_keys[static_cast<size_t>(j)];
          if (map.pooling == Pooling::max)
            cell = x <= cell || std::isnan(cell) ? cell : x;
          else
            cell += map.pooling == Pooling::mean ? x / pairs : x;
        }
      }
    });
  }
}

// The cells of a map, and of what each key receives: sums over rows.
inline size_t count_of_map(const Captures& captures, const Sizes& sizes) {
  if (!captures.map) return 0;
  const auto chosen = static_cast<int64_t>(captures.map->heads.size());
  const int64_t heads = chosen == 0 ? sizes.heads : chosen;
  return static_cast<size_t>(heads * captures.map->rows * captures.map->columns);
}
inline size_t count_of_received(const Captures& captures, const Sizes& sizes) {
  return captures.received ? static_cast<size_t>(sizes.heads * sizes.k_len) : 0;
}

// Adds a row to the results.
template <class Real>
void add_row(const Row<Real>& row, const Captures& captures, Result<Real>& result) {
  const auto append = [](std::vector<Real>& to, const std::vector<Real>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  append(result.output, row.output);
  result.lse.push_back(row.weighed.statistic);
  if (captures.entropy) result.entropy.push_back(row.entropy);
  if (captures.weights)
    for_weights_rows(*captures.weights, result.sizes.q_len, row.head, row.index,
                     [&](int64_t) { append(result.weights, row.weights); });
  if (captures.top_k > 0) append(result.top_weights, listed_weights(row, captures.top_k));
  if (captures.received) add_received(result.sizes, row.head, row.weights, result.received);
  if (captures.map) pool(*captures.map, result.sizes, row.head, row.index, row.weights, result.map);
}

}  // namespace check
