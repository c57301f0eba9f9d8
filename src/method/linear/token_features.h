#pragma once
// Features of a tile of tokens.
#include <optional>

#include "base/scratch_planner.h"
#include "method/linear/linear_call.h"
#include "method/linear/own_map.h"

namespace rapt {

template <class E>
struct TokenFeaturesPlaces {
  Place<E> x_t;           // [head_dim][tile] factor times the tokens, transposed
  Place<E> inputs;        // [inputs][tile], if the map projects
  Place<E> half_squares;  // [tile]
  Place<E> largest;       // [tile], which the product writes
  OwnMapPlaces own;       // if the map is the caller's own
};

template <class E>
TokenFeaturesPlaces<E> place_token_features(const LinearCall<E>& c, bool gradients,
                                            ScratchPlanner<Per::worker>& planner) {
  TokenFeaturesPlaces<E> places;
  planner.place(places.x_t, {c.p.head_dim, c.tile});
  planner.place_if(c.map.projects, places.inputs, {c.model.inputs, c.tile});
  planner.place(places.half_squares, {c.tile});
  planner.place(places.largest, {c.tile});
  places.own = place_own_map(c.model.own, c.p.head_dim, gradients, planner);
  return places;
}

// The tokens [first, first + count) of a matrix, at most a tile.
struct TokenRows {
  const TensorView& matrix;
  int64_t first, count;

  const std::byte* data() const noexcept {
    return static_cast<const std::byte*>(matrix.data) +
           first * matrix.strides[0] * size_of(matrix.dtype);
  }
};

template <class E>
class TokenFeatures {
 public:
  TokenFeatures(const LinearCall<E>& c, const TokenFeaturesPlaces<E>& places, std::byte* scratch)
      : c_(c),
        x_t_(places.x_t.in(scratch)),
        inputs_(c.map.projects ? places.inputs.in(scratch) : x_t_),
        half_squares_(places.half_squares.in(scratch)),
        largest_(places.largest.in(scratch)) {
    if (c.model.own != nullptr) own_.emplace(*c.model.own, places.own, scratch);
  }

  // features [features], rows `stride` apart; powers [tile], if features have powers. Lanes beyond
  // the tokens have the features of 0.
  void make(const TokenRows& rows, E factor, E* features, int64_t stride, E* powers) noexcept {
    const int64_t dims = c_.p.head_dim;
    c_.route.pack_queries(rows.data(), rows.matrix.strides[0], rows.matrix.strides[1], rows.count,
                          dims, factor, c_.tile, x_t_);
    if (c_.map.projects) {
      std::fill_n(half_squares_, c_.tile, E(0));
      c_.table.gradients.add_dots(x_t_, x_t_, dims, c_.tile, half_squares_);
      c_.kernels.scale_and_add(half_squares_, E(0.5), nullptr, c_.tile, half_squares_);
      c_.products().scores(x_t_, c_.projection, dims, c_.model.inputs, dims, E(1), inputs_,
                           largest_);
    }
    if (own_)
      own_->apply(tile(features, stride, powers), rows.count);
    else
      c_.map.apply(tile(features, stride, powers));
  }

  // d_features [features][tile] of the features that make() has made last -> d_x_t
  // [head_dim][tile].
  void backward(E* features, E* d_features, E* d_x_t) noexcept {
    const int64_t dims = c_.p.head_dim;
    if (own_) return own_->backward(tile(features, c_.tile, nullptr), {d_features, d_x_t, nullptr});
    if (!c_.map.projects) {
      c_.map.backward(tile(features, c_.tile, nullptr), {d_features, d_x_t, nullptr});
      return;
    }
    c_.map.backward(tile(features, c_.tile, nullptr), {d_features, d_features, largest_});
    c_.kernels.scale_columns(x_t_, largest_, nullptr, dims, c_.tile, d_x_t);
    for (int64_t f = 0; f < c_.model.inputs; f += kFeatureBlock)
      c_.products().output(d_features + f * c_.tile, c_.projection + f * dims, dims,
                           std::min(kFeatureBlock, c_.model.inputs - f), dims, nullptr, d_x_t);
  }

 private:
  FeatureTile<E> tile(E* features, int64_t stride, E* powers) const noexcept {
    return {.inputs = inputs_,
            .input_count = c_.model.inputs,
            .tokens = c_.tile,
            .half_squares = half_squares_,
            .offsets = c_.offsets,
            .features = features,
            .stride = stride,
            .powers = powers};
  }

  const LinearCall<E>& c_;
  E *x_t_, *inputs_, *half_squares_, *largest_;
  std::optional<OwnMap<E>> own_;
};

}  // namespace rapt
