#pragma once
// Gradients of the returned weights: d_weights, [..., rows, k_len] of the requested rows or [heads,
// rows, k_len] of the requested heads. If a row was requested twice, its two gradients are added.
// The code is in the header because it is a template over E.
#include <algorithm>

#include "attention/call/gradient_request.h"

namespace rapt {

template <class E>
class WeightGradients {
 public:
  WeightGradients(const Problem& problem, const GradientInputs& inputs)
      : p_(problem), wanted_(inputs.weights), d_weights_(inputs.d_weights) {}

  void begin_head(int64_t head) noexcept {
    head_ = head;
    p_.index_of(head, index_);
  }

  // Whether one of these queries has a gradient.
  bool any(Positions queries) const noexcept {
    bool found = false;
    if (d_weights_.data) for_each_row(queries, [&](int64_t, int64_t) { found = true; });
    return found;
  }

  // tile [keys][lanes] = the gradients of these pairs, 0 where there are none.
  void read(Positions queries, Positions keys, int64_t lanes, E* tile) const noexcept {
    std::fill_n(tile, keys.count * lanes, E(0));
    for_each_row(queries, [&](int64_t i, int64_t at) {
      const E* row =
          reinterpret_cast<const E*>(d_weights_.at(at + keys.start * d_weights_.dim_stride));
      for (int64_t j = 0; j < keys.count; ++j)
        tile[j * lanes + i] += row[j * d_weights_.dim_stride];
    });
  }

 private:
  // Calls visit(query, first element of its row in d_weights).
  template <class Visit>
  void for_each_row(Positions queries, const Visit& visit) const noexcept {
    const RequestedWeights& w = wanted_;
    const bool all_heads = w.heads.chosen.empty();
    for (int64_t nth = 0; nth < (all_heads ? 1 : w.heads.count); ++nth) {
      if (!all_heads && w.heads[nth] != head_) continue;
      const int64_t at = all_heads ? d_weights_.offset_of(index_, p_.leading_rank)
                                   : nth * d_weights_.lead_strides[0];
      int64_t begin = 0, end = w.rows;
      if (w.chosen_rows.empty())
        begin = std::max(begin, queries.start - w.row_begin),
        end = std::min(end, queries.start + queries.count - w.row_begin);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t i = w.row(r) - queries.start;
        if (i >= 0 && i < queries.count) visit(i, at + r * d_weights_.row_stride);
      }
    }
  }

  const Problem& p_;
  const RequestedWeights& wanted_;
  const Operand& d_weights_;
  int64_t head_ = 0;
  int64_t index_[kMaxRank];  // [leading rank]
};

}  // namespace rapt
