#pragma once
// ALiBi, attention with linear biases: a penalty per head for the distance of query i and key j,
// with i counted by the anchor (anchor.h).
//
//   distance = absolute   s' = s - m |i - j|      flash-attention (which anchors bottom-right)
//   distance = signed     s' = s + m (j - i)      FlashInfer; cuDNN (which requires a causal mask)
//
// Both are the same under a causal mask. The slopes m, one per head:
//
//   slopes  [..., heads], f32 or f64 (head_numbers.h): given or learned. If absent, the paper's
//           slopes for `heads` heads, of which a call may use the first ones. heads = 0 means the
//           last leading dimension of the call. m_h = 2^(-8 (h + 1) / heads) if `heads` is a power
//           of two; else the slopes of the next lower power of two, followed by every second slope
//           of the next higher one
//
// Source: Press, Smith & Lewis 2021, arXiv:2108.12409, section 3 and its code (other numbers of
// heads).
#include "rapt/anchor.h"
#include "rapt/head_numbers.h"
#include "rapt/score/distances.h"
#include "rapt/score/score.h"

namespace rapt {

enum class AlibiDistance : uint8_t { absolute, signed_ };
inline constexpr const char* kAlibiDistanceNames[] = {"absolute", "signed"};

// The paper's slope of `head` among `heads`.
[[gnu::always_inline]] inline double alibi_slope(int64_t head, int64_t heads) noexcept {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const bool first = head < power;
  const double step = 8.0 / static_cast<double>(first ? power : 2 * power);
  return __builtin_exp2(-step * static_cast<double>(first ? head + 1 : 2 * (head - power) + 1));
}

struct Alibi {
  TensorView slopes;  // absent: the paper's slopes
  // The paper's slopes for this many heads are used: at least those of the call; 0: those of the
  // call.
  int64_t heads = 0;
  AlibiDistance distance = AlibiDistance::absolute;
  Anchor anchor = Anchor::top_left;

  static const Declaration kDeclaration;
  static constexpr bool kUsesBefore = false, kUsesAfter = false;
  void check(Shape leading) const;

  Alibi() = default;
  explicit Alibi(const TensorView& given) : slopes(given) {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    add_penalty<V>(t, slope(*t.head));
  }

  // ds'/ds = 1, ds'/dm = -distance.
  template <class V>
  void backward(const typename V::Element*, const typename V::Element*,
                Tile<typename V::Element>& t, typename V::Element* sums) const noexcept {
    add_gradient<V>(t, t.scores, sums);
  }
  template <class V>
  void tangent(const typename V::Element*, Tile<typename V::Element>& t,
               const double* numbers) const noexcept {
    if (slopes.defined()) add_penalty<V>(t, numbers[0]);
  }
  template <class V>
  void backward_tangent(const typename V::Element*, const typename V::Element*,
                        Tile<typename V::Element>& t, typename V::Element* d_tangents,
                        const double*, typename V::Element* sums) const noexcept {
    add_gradient<V>(t, d_tangents, sums);
  }

 private:
  [[gnu::always_inline]] double slope(const Head& head) const noexcept {
    if (slopes.defined()) return number_of_head(slopes, head);
    const int last = head.rank - 1;
    return alibi_slope(last < 0 ? 0 : head.index[last], heads > 0  ? heads
                                                        : last < 0 ? 1
                                                                   : head.leading[last]);
  }

  template <class V, class Begin, class Visit, class End>
  [[gnu::always_inline]] void visit_distances(const Tile<typename V::Element>& t,
                                              const Begin& begin, const Visit& visit,
                                              const End& end) const noexcept {
    for_each_distance<V>(t, anchor, distance == AlibiDistance::absolute, begin, visit, end);
  }

  template <class V>
  void add_penalty(Tile<typename V::Element>& t, double m) const noexcept {
    typename V::Element* const scores = t.scores;
    const V minus = V::set(-m);
    visit_distances<V>(
        t, [] {}, [&](int64_t at, V d) { store(scores + at, fma(minus, d, V::load(scores + at))); },
        [](int64_t) {});
  }

  template <class V>
  void add_gradient(const Tile<typename V::Element>& t, const typename V::Element* gradients,
                    typename V::Element* sums) const noexcept {
    if (!slopes.defined()) return;
    V sum = V::set(0);
    visit_distances<V>(
        t, [&] { sum = V::set(0); },
        [&](int64_t at, V d) { sum = fma(V::load(gradients + at), d, sum); },
        [&](int64_t x) { store(sums + x, sub(V::load(sums + x), sum)); });
  }
};

}  // namespace rapt
