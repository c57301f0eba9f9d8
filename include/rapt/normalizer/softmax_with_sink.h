#pragma once
// Softmax with a learned sink per head: one more logit in the denominator, to which a query attends
// where it has nothing to attend to.
//
//   weight_j = e^s_j / (e^sink + sum_j' e^s_j')        lse = ln(e^sink + sum_j e^s_j)
//
//   sinks  [..., heads], f32 or f64 (head_numbers.h): in the units of the scores, not multiplied by
//          the scale of the queries
//
// It is softmax over the keys and one more, of this score and of value 0; a sink of 0 is
// softmax_plus_one. Weights sum to 1 - e^(sink - lse). A query without keys has output 0 and the
// sink as lse. Sink *tokens* need nothing of this: they are keys that a window keeps,
// window(w) | prefix(sinks).
//
// Gradients: those of softmax, whose formulas take the lse and sums over the real keys alone, and
//
//   d_sink = - sum_i p_i delta_i,    p_i = e^(sink - lse_i) the sink's weight
//
// over the queries of all heads that share it, delta as in rapt/backward.h (which holds the
// gradient of the lse, too). A sink of -inf is none: softmax, and a gradient of 0.
//
// Source: OpenAI 2025, gpt-oss model card, arXiv:2508.10925, section 2.2; Xiao et al. 2023,
// arXiv:2309.17453, section 3.3 (why).
#include "rapt/head_numbers.h"
#include "rapt/normalizer/online_softmax.h"

namespace rapt {

struct SoftmaxWithSink : OnlineSoftmax {
  TensorView sinks;  // must be given

  static const Declaration kDeclaration;
  static constexpr bool kMergeable = false;  // two parts of the keys would count the sink twice
  static constexpr bool kEntropy = false;    // the weights are no distribution

  SoftmaxWithSink() = default;
  explicit SoftmaxWithSink(const TensorView& logits) : sinks(logits) {}

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    // As if a row had begun with that key (online_softmax.h).
    begin_with<V>(t, number_of_head(sinks, *t.head) * (t.log2_units ? kLog2E : 1), 1);
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    // A sink may be far below or above all keys; its maximum is kept as any other.
    apply_with<V>(t, kSlack<V>);
  }

  template <class V>
  void backward_rows(Tile<typename V::Element>& t, const typename V::Element* statistic,
                     const typename V::Element* delta, typename V::Element* sums) const noexcept {
    const V sink = V::set(number_of_head(sinks, *t.head)), log2_e = V::set(kLog2E);
    // Nobody attends to it; beside the lse of a query without keys the formula would have
    // -inf - (-inf).
    if (any(equal(sink, V::set(-__builtin_inf())))) return;
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V weight = exp2(mul(sub(sink, V::load(statistic + x)), log2_e));
      store(sums + x, sub(V::load(sums + x), mul(weight, V::load(delta + x))));
    }
  }
};

}  // namespace rapt
