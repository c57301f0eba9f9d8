#pragma once
// Softmax with a learned sink per head: one more logit in the denominator, which takes the weight
// of a query that has nothing to attend to.
//
//   weight_j = e^s_j / (e^sink + sum_j' e^s_j')        lse = ln(e^sink + sum_j e^s_j)
//
//   sinks  [..., heads], f32 or f64 (head_numbers.h): in the units of the scores, not multiplied by
//          the scale of the queries
//
// It is softmax over the keys and one additional key with this score and value 0. With a sink of 0
// it is softmax_plus_one. Weights sum to 1 - e^(sink - lse). A query without keys has output 0, and
// the sink as its lse. Sink *tokens* do not need this normaliser: they are keys that a window
// keeps, window(w) | prefix(sinks).
//
// The gradients are those of softmax, with this lse and with sums over the real keys only, and
//
//   d_sink = - sum_i p_i delta_i,    p_i = e^(sink - lse_i) the weight of the sink
//
// summed over the queries of all heads that share the sink. delta is that of rapt/backward.h, which
// contains the gradient of the lse. A sink of -inf means no sink: softmax, and a gradient of 0.
//
// Source: OpenAI 2025, gpt-oss model card, arXiv:2508.10925, section 2.2; Xiao et al. 2023,
// arXiv:2309.17453, section 3.3 (why).
#include "rapt/head_numbers.h"
#include "rapt/normalizer/online_softmax.h"

namespace rapt {

struct SoftmaxWithSink : OnlineSoftmax {
  TensorView sinks;  // must be given

  static const Declaration kDeclaration;
  static constexpr bool kHeadInBegin = true;
  static constexpr bool kMergeable = false;  // each part contains the sink
  static constexpr bool kEntropy = false;    // the weights do not sum to 1

  SoftmaxWithSink() = default;
  explicit SoftmaxWithSink(const TensorView& logits) : sinks(logits) {}

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    // As if the row had already processed the sink (online_softmax.h).
    begin_with<V>(t, number_of_head(sinks, *t.head) * (t.log2_units ? kLog2E : 1), 1);
  }

  // Without the sink, which the state of the first keys contains.
  template <class V>
  void begin_part(Tile<typename V::Element>& t) const noexcept {
    begin_with<V>(t, -__builtin_inf(), 0);
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    // A sink may be far below or above all scores; it is a maximum like any other.
    apply_with<V>(t, kSlack<V>);
  }

  template <class V>
  void backward_rows(Tile<typename V::Element>& t, const typename V::Element* statistic,
                     const typename V::Element* delta, typename V::Element* sums) const noexcept {
    const V sink = V::set(number_of_head(sinks, *t.head)), log2_e = V::set(kLog2E);
    // No query attends to this sink. With the lse of a query without keys the formula would compute
    // -inf - (-inf).
    if (any(equal(sink, V::set(-__builtin_inf())))) return;
    for (int64_t x = 0; x < t.queries; x += V::kLanes) {
      const V weight = exp2(mul(sub(sink, V::load(statistic + x)), log2_e));
      store(sums + x, sub(V::load(sums + x), mul(weight, V::load(delta + x))));
    }
  }
};

}  // namespace rapt
