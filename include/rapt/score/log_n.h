#pragma once
// Log-n scaling: s' = s ln n / ln length. It keeps weights from becoming flat as the number n of
// keys grows, so that a model can process longer sequences than it was trained on.
//
//   count = keys      n = k_len
//   count = position  n = the number of keys up to the query's own position, at least 1, where the
//                     last query has the position of the last key. A bottom-right causal mask
//                     leaves the query this many keys
//   length            the training length, at which the factor is 1; 0: the factor is ln n
//
// Nothing here is learned; for a learned factor per head use head_scale.
// Source: Chiang & Cholak 2022, arXiv:2202.12172, section 5.3 (keys); Nakanishi 2025,
// arXiv:2501.19399, equation 3 (position).
#include "rapt/score/score.h"

namespace rapt {

enum class LogCount : uint8_t { keys, position };
inline constexpr const char* kLogCountNames[] = {"keys", "position"};

struct LogN {
  LogCount count = LogCount::keys;
  int64_t length = 0;  // 0, or at least 2

  static const Declaration kDeclaration;
  static constexpr bool kUsesBefore = false, kUsesAfter = false;
  void check() const;

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    multiply<V>(t, t.scores);
  }
  template <class V>
  void backward(const typename V::Element*, const typename V::Element*,
                Tile<typename V::Element>& t, typename V::Element*) const noexcept {
    multiply<V>(t, t.scores);
  }
  template <class V>
  void tangent(const typename V::Element*, Tile<typename V::Element>& t,
               const double*) const noexcept {
    multiply<V>(t, t.scores);
  }
  template <class V>
  void backward_tangent(const typename V::Element*, const typename V::Element*,
                        Tile<typename V::Element>& t, typename V::Element* d_tangents,
                        const double*, typename V::Element*) const noexcept {
    multiply<V>(t, t.scores);
    multiply<V>(t, d_tangents);
  }

 private:
  // Multiplies scores, gradients or tangents by the factor.
  template <class V>
  void multiply(const Tile<typename V::Element>& t, typename V::Element* of) const noexcept {
    using E = typename V::Element;
    const double unit = length > 0 ? 1 / __builtin_log(static_cast<double>(length)) : 1;
    const int64_t keys = t.keys, queries = t.queries;
    for (int64_t x = 0; x < queries; x += V::kLanes) {
      E counts[V::kLanes];
      for (int64_t lane = 0; lane < V::kLanes; ++lane) {
        int64_t n = t.head->k_len;
        if (count == LogCount::position) n += 1 + t.query_positions[x + lane] - t.head->q_len;
        counts[lane] = static_cast<E>(n < 1 ? 1 : n);
      }
      const V factor = mul(log(V::load(counts)), V::set(unit));
      for (int64_t at = x; at < keys * queries; at += queries)
        store(of + at, mul(factor, V::load(of + at)));
    }
  }
};

}  // namespace rapt
