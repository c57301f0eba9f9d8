#pragma once
// A validated call for tangents: what it reads and writes, and how it is cut.
//
// This room, src/attention/tangents, computes forward mode and second derivatives. In: a
// ForwardCall for the scores, which are recomputed in natural units; the tangents of all inputs;
// the plan of the backward pass. Out: tangents of output and statistic (run_jvp), or tangents of
// the gradients (run_backward_jvp). It may use call, plan, rows, relative, tiles, backward and the
// kernel tables.
//
// A task is a part of the queries of a head, or a part of the keys of a component
// (backward_plan.h). It makes its sums on its own, in the order of heads, work units and blocks. So
// bits depend neither on the number of threads nor on which thread runs a task. Second derivatives
// take three walks: row values of the queries, gradients of the keys' side, gradients of the
// queries' side. Forward mode is one walk.
#include <vector>

#include "attention/backward/backward_plan.h"
#include "attention/plan/forward_call.h"
#include "rapt/tangents.h"

namespace rapt {

// What a call reads beside the inputs of the forward pass. A member without `data` is absent and
// counts as 0.
struct TangentInputs {
  GradientInputs primal;  // output and statistic; for second derivatives d_output and d_statistic
  Operand query, key, value;  // tangents: row = position, dim = dimension
  Operand bias;               // row = query, dim = key; stride 0 where it is broadcast
  double scale = 0;
  std::vector<double>
      score_parameters;  // [heads][head_parameter_count], counted as in WantedGradients
  int64_t head_parameter_count = 0;

  const double* head_parameters_of(int64_t head) const noexcept {
    return score_parameters.data() + head * head_parameter_count;
  }
  Operand d_output, d_statistic;  // tangents of d_output and d_statistic

  // Whether scale' Q + scale Q' can differ from 0.
  bool has_query_tangents() const noexcept { return query.data || scale != 0; }
};

// What forward mode writes. Members without `data` are empty.
struct StateTargets {
  Operand output, statistic;  // row = query
};

// The positions of all sequences of a head, cut into parts of one length.
class Cuts {
 public:
  struct Part {
    int64_t sequence;
    Positions positions;
  };

  Cuts(const Problem& problem, bool keys, int64_t length);
  int64_t count() const noexcept { return starts_.back(); }
  Part operator[](int64_t nth) const noexcept;

 private:
  const Problem& p_;
  bool keys_;
  int64_t length_;
  std::vector<int64_t> starts_;  // [sequences + 1] parts before each sequence
};

template <class E>
struct TangentLayout;  // tangent_layout.h

template <class E>
struct TangentCall {
  const ForwardCall<E>& forward;  // the call whose scores are recomputed, in natural units
  const WantedGradients& wanted;
  const BackwardPlan& plan;
  const TangentLayout<E>& layout;
  const TangentInputs& inputs;
  const StateTargets& state;       // written by forward mode
  const GradientTargets& targets;  // written by second derivatives
  const Cuts &query_cuts, &key_cuts;
  // For second derivatives:
  std::vector<ComponentHead> heads = {};  // [component_heads], in the order of sums
  std::vector<E> lse_tangents = {}, deltas = {}, delta_tangents = {};  // [heads][q_len]
  std::vector<double> scale_sums = {};                                 // [heads][query parts]
  std::vector<double> score_sums = {};  // [heads][key parts][parameters]
  std::vector<double> bias_sums = {};   // [heads][key parts]: of a bias with one number per head

  const Problem& problem() const noexcept { return forward.problem; }
};

// Keys of a part; a part of queries is a work unit. A few blocks of keys and values, their tangents
// and the gradients of both fit the L2.
inline constexpr int64_t kBlocksOfPart = 2;
inline int64_t key_part(const BackwardPlan& plan) { return kBlocksOfPart * plan.tiling.block_keys; }

// Forward mode, and second derivatives. Both throw Error(cancelled).
template <class E>
void run_jvp(const TangentCall<E>& call, const Context& context);
template <class E>
void run_backward_jvp(TangentCall<E>& call, const Context& context);

}  // namespace rapt
