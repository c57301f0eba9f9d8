#pragma once
// LSH attention by its definition, for one head, given the buckets that the library found: who
// meets whom in which round, the softmax over the union, and its gradients. Of a wider T it is
// the truth; of the precision of the call it is the plain loop, whose error gives the tolerance.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "rapt/method/lsh.h"

namespace laws {

// A head: dense rows, and the keys [0, end(i)) that the masks allow query i.
struct LshHead {
  int64_t q_len = 0, k_len = 0, head_dim = 0, value_dim = 0;
  double scale = 1;
  bool weights = false;                                    // wanted
  std::vector<double> query, key, value, d_output, d_lse;  // key: unused if shared
  std::vector<int32_t> query_buckets, key_buckets;         // [rounds][rows]; -1: not hashed
  std::function<int64_t(int64_t)> end;
};

struct LshTruth {
  std::vector<double> output, lse, weights, d_query, d_key, d_value;
};

// The number of a row's chunk in a round, and that of the chunk before it.
struct ChunkOf {
  int64_t own = -1, before = -1;
};

inline std::vector<ChunkOf> chunks_of(const rapt::Lsh& lsh, const int32_t* buckets, int64_t rows) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rows; ++i)
    if (buckets[i] >= 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return buckets[a] < buckets[b]; });
  const int64_t chunk = std::min(lsh.chunk, std::max<int64_t>(rows, 1));
  const auto count = static_cast<int64_t>(order.size());
  std::vector<ChunkOf> chunks(static_cast<size_t>(rows));
  int64_t number = 0, within = 0;
  for (int64_t at = 0; at < count; ++at, ++within) {
    const int64_t row = order[static_cast<size_t>(at)];
    const bool begins = at > 0 && buckets[row] != buckets[order[static_cast<size_t>(at - 1)]];
    if (lsh.keys == rapt::LshKeys::separate) {
      chunks[static_cast<size_t>(row)] = {buckets[row], -1};
      continue;
    }
    if (lsh.cut == rapt::LshCut::row) {
      const int64_t last = (count - 1) / chunk, own = at / chunk;
      chunks[static_cast<size_t>(row)] = {own, own > 0 ? own - 1 : last > 0 ? last : -1};
      continue;
    }
    if (begins) number += 2, within = 0;
    if (within == chunk) ++number, within = 0;
    chunks[static_cast<size_t>(row)] = {number, number - 1};
  }
  return chunks;
}

// In how many rounds each pair meets, [q_len][k_len].
inline std::vector<int> meetings(const rapt::Lsh& lsh, const LshHead& h) {
  const bool shared = lsh.keys == rapt::LshKeys::shared;
  std::vector<int> met(static_cast<size_t>(h.q_len * h.k_len));
  for (int64_t r = 0; r < lsh.rounds; ++r) {
    const auto queries = chunks_of(lsh, h.query_buckets.data() + r * h.q_len, h.q_len);
    const auto keys =
        shared ? queries : chunks_of(lsh, h.key_buckets.data() + r * h.k_len, h.k_len);
    for (int64_t i = 0; i < h.q_len; ++i)
      for (int64_t j = 0; j < h.k_len; ++j) {
        const ChunkOf q = queries[static_cast<size_t>(i)];
        const int64_t k = keys[static_cast<size_t>(j)].own;
        if (k >= 0 && (k == q.own || k == q.before)) ++met[static_cast<size_t>(i * h.k_len + j)];
      }
  }
  return met;
}

template <class T>
LshTruth lsh_truth(const rapt::Lsh& lsh, const LshHead& h) {
  const bool shared = lsh.keys == rapt::LshKeys::shared;
  const bool once = lsh.duplicates == rapt::LshDuplicates::count_once;
  const int64_t dims = h.head_dim, values = h.value_dim;
  const auto rounded = [](const std::vector<double>& from) {
    return std::vector<T>(from.begin(), from.end());
  };
  const std::vector<T> query = rounded(h.query), value = rounded(h.value);
  const std::vector<T> d_output = rounded(h.d_output), d_lse = rounded(h.d_lse);
  std::vector<T> key = shared ? query : rounded(h.key);
  std::vector<T> inverse(static_cast<size_t>(h.k_len), T(1));
  if (shared)
    for (int64_t j = 0; j < h.k_len; ++j) {
      T square = 0;
      for (int64_t d = 0; d < dims; ++d) square += key[j * dims + d] * key[j * dims + d];
      inverse[j] = square == 0 ? T(0) : T(1) / std::sqrt(square);
      for (int64_t d = 0; d < dims; ++d) key[j * dims + d] *= inverse[j];
    }
  const std::vector<int> met = meetings(lsh, h);
  const auto numbers = [](int64_t count) { return std::vector<T>(static_cast<size_t>(count)); };
  std::vector<T> output = numbers(h.q_len * values), lse = numbers(h.q_len);
  std::vector<T> all_weights = numbers(h.weights ? h.q_len * h.k_len : 0);
  std::vector<T> d_query = numbers(h.q_len * dims), d_key = numbers(h.k_len * dims);
  std::vector<T> d_value = numbers(h.k_len * values);
  LshTruth truth;
  for (int64_t i = 0; i < h.q_len; ++i) {
    std::vector<int64_t> looked_at;
    std::vector<T> times, scores;
    const auto look_at = [&](int64_t j, int count) {
      T dot = 0;
      for (int64_t d = 0; d < dims; ++d) dot += query[i * dims + d] * key[j * dims + d];
      looked_at.push_back(j);
      times.push_back(static_cast<T>(count));
      scores.push_back(static_cast<T>(h.scale) * dot);
    };
    for (int64_t j = 0; j < h.end(i); ++j)
      if (const int count = met[i * h.k_len + j]; count > 0 && !(shared && j == i))
        look_at(j, once ? 1 : count);
    const bool hashed = !shared || h.query_buckets[i] >= 0;
    if (shared && looked_at.empty() && hashed && i < h.end(i))
      look_at(i, once ? 1 : static_cast<int>(lsh.rounds));
    if (looked_at.empty()) {
      lse[i] = -std::numeric_limits<T>::infinity();
      continue;
    }
    T most = scores[0], sum = 0;
    for (const T s : scores) most = std::max(most, s);
    std::vector<T> weights(scores.size());
    for (size_t c = 0; c < scores.size(); ++c)
      sum += weights[c] = times[c] * std::exp(scores[c] - most);
    lse[i] = most + std::log(sum);
    for (size_t c = 0; c < scores.size(); ++c) {
      weights[c] /= sum;
      if (h.weights) all_weights[i * h.k_len + looked_at[c]] = weights[c];
      for (int64_t d = 0; d < values; ++d)
        output[i * values + d] += weights[c] * value[looked_at[c] * values + d];
    }
    T delta = -d_lse[i];
    for (int64_t d = 0; d < values; ++d) delta += d_output[i * values + d] * output[i * values + d];
    for (size_t c = 0; c < scores.size(); ++c) {
      const int64_t j = looked_at[c];
      T d_weight = 0;
      for (int64_t d = 0; d < values; ++d) {
        d_weight += d_output[i * values + d] * value[j * values + d];
        d_value[j * values + d] += weights[c] * d_output[i * values + d];
      }
      const T d_dot = static_cast<T>(h.scale) * weights[c] * (d_weight - delta);
      for (int64_t d = 0; d < dims; ++d) {
        d_query[i * dims + d] += d_dot * key[j * dims + d];
        d_key[j * dims + d] += d_dot * query[i * dims + d];
      }
    }
  }
  if (shared)
    for (int64_t j = 0; j < h.k_len; ++j) {
      T along = 0;
      for (int64_t d = 0; d < dims; ++d) along += key[j * dims + d] * d_key[j * dims + d];
      for (int64_t d = 0; d < dims; ++d)
        d_query[j * dims + d] += (d_key[j * dims + d] - key[j * dims + d] * along) * inverse[j];
    }
  const auto as_double = [](const std::vector<T>& from) {
    return std::vector<double>(from.begin(), from.end());
  };
  truth.output = as_double(output), truth.lse = as_double(lse);
  truth.weights = as_double(all_weights);
  truth.d_query = as_double(d_query), truth.d_key = as_double(d_key);
  truth.d_value = as_double(d_value);
  return truth;
}

}  // namespace laws
