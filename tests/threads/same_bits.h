#pragma once
// Comparison of results in f32, bit by bit.
#include <cstring>

#include "rapt/attention.h"

namespace threads {

inline bool same_bits(const rapt::AttentionResult& a, const rapt::AttentionResult& b) {
  const auto same = [](const rapt::Tensor& x, const rapt::Tensor& y) {
    const auto p = x.values<float>(), q = y.values<float>();
    return p.size() == q.size() && std::memcmp(p.data(), q.data(), p.size_bytes()) == 0;
  };
  return same(a.output, b.output) && same(a.statistic, b.statistic);
}

}  // namespace threads
