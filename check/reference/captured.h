#pragma once
// The captures (spec/captures.h) of one run of the reference, by their place in the tensors.
//
//   received(j)  = sum_i weight(i, j)          map(a, b) = the mean, sum or maximum of the weights
//   top weights  = the largest, 0 behind the last key        of rows a and columns b of a grid
#include <algorithm>

#include "check/reference/reference.h"
#include "check/spec/captures.h"

namespace check {

// Sorts the largest first, and a NaN before all numbers.
template <class Real>
void sort_falling(std::vector<Real>& values) {
  std::ranges::sort(values, [](Real a, Real b) {
    return std::isnan(a) ? !std::isnan(b) : !std::isnan(b) && a > b;
  });
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
            cell = std::max(cell, x);
          else
            cell += map.pooling == Pooling::mean ? x / pairs : x;
        }
      }
    });
  }
}

template <class Real>
struct Captured {
  Captured(const Sizes& of_problem, const Captures& captures)
      : sizes(of_problem), wanted(captures) {
    const auto zeros = [](int64_t count) { return std::vector<Real>(static_cast<size_t>(count)); };
    if (const auto& map = captures.map) {
      const auto chosen = static_cast<int64_t>(map->heads.size());
      cells = zeros((chosen == 0 ? sizes.heads : chosen) * map->rows * map->columns);
    }
    if (captures.received) received = zeros(sizes.heads * sizes.k_len);
  }

  void add(const Row<Real>& row) {
    output.insert(output.end(), row.output.begin(), row.output.end());
    lse.push_back(row.weighed.statistic);
    if (wanted.entropy) entropy.push_back(row.entropy);
    if (wanted.weights)
      for_weights_rows(*wanted.weights, sizes.q_len, row.head, row.index, [&](int64_t) {
        weights.insert(weights.end(), row.weights.begin(), row.weights.end());
      });
    if (wanted.top_k > 0) {
      std::vector<Real> sorted = row.weights;
      sort_falling(sorted);
      sorted.resize(static_cast<size_t>(wanted.top_k), Real{0});
      top_weights.insert(top_weights.end(), sorted.begin(), sorted.end());
    }
    if (wanted.received)
      for (size_t j = 0; j < row.weights.size(); ++j)
        received[static_cast<size_t>(row.head * sizes.k_len) + j] += row.weights[j];
    if (wanted.map) pool(*wanted.map, sizes, row.head, row.index, row.weights, cells);
  }

  const Sizes& sizes;
  const Captures& wanted;
  std::vector<Real> output, lse, entropy, weights, top_weights, cells, received;
};

}  // namespace check
