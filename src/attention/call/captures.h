#pragma once
// Captures after validation: what a call returns beside output and statistic.
#include <cstddef>
#include <span>

#include "attention/call/checked_call.h"
#include "attention/call/result_tensors.h"
#include "base/rare.h"

namespace rapt {

// The heads of a request: all heads of a problem, or chosen ones.
struct ChosenHeads {
  std::span<const int64_t> chosen;  // empty: all
  int64_t count;
  int64_t operator[](int64_t i) const noexcept {
    return chosen.empty() ? i : chosen[static_cast<size_t>(i)];
  }
};

struct RequestedWeights {
  bool wanted = false;  // if not, nothing else is set
  ChosenHeads heads;
  std::span<const int64_t> chosen_rows;
  int64_t row_begin, rows;
  WeightsStage stage = WeightsStage::weights;
  int64_t row(int64_t i) const noexcept {
    return chosen_rows.empty() ? row_begin + i : chosen_rows[static_cast<size_t>(i)];
  }
};

struct RequestedMap {
  bool wanted = false;  // if not, nothing else is set
  ChosenHeads heads;
  int64_t rows, columns;
  Pool pool;
};

struct Captures {
  RequestedWeights weights;
  RequestedMap map;
  int64_t top_k = 0;
  bool entropy = false, received = false;
  // The main pass keeps its scores and turns them into weights (forward/kept_scores.h).
  bool kept = false;
  bool adds_received = false;  // to what the memory for it holds

  bool any() const noexcept {
    return weights.wanted || map.wanted || top_k > 0 || entropy || received;
  }
  // Whether a second pass over the scores is needed.
  bool second_pass() const noexcept {
    return rare(!kept && (weights.wanted || map.wanted || received));
  }
};

// The most queries of a head whose scores are kept, and with which heads are grouped: a token, or
// the draft of speculative decoding.
inline constexpr int64_t kFewQueries = 16;

// Whether the call requests all weights of a few queries, or received attention of these, and no
// map; and, if the scores need scratch, whether it may take that.
bool wants_weights_of_few(const CheckedCall& call);

// Checks the captures that the options request. Throws Error(argument, unsupported).
Captures requested_captures(const Problem& problem, const AttentionOptions& options);

using OutputSpec = ResultSpec<AttentionOutputs, AttentionResult>;
inline constexpr int kOutputs = 8;
// In the order output, statistic, weights, map, top_keys, top_weights, entropy, received.
void describe_outputs(const Problem& problem, const Captures& captures, bool statistic,
                      OutputSpec (&specs)[kOutputs]);

// The memory that a call writes to. Members without `data` are not written.
struct Outputs {
  Operand output;       // row = query, dim = value_dim
  Operand statistic;    // row = query
  Operand weights;      // row = requested row, dim = key; lead strides: of the chosen heads
  Operand map;          // row, dim = cell; lead strides: of the chosen heads
  Operand top_keys;     // row = query, dim = place
  Operand top_weights;  // row = query, dim = place
  Operand entropy;      // row = query
  Operand received;     // row = key
};

// Checks the caller's output tensors. Throws Error(shape, dtype, argument, overlap).
Outputs check_outputs(const CheckedCall& call, const Captures& captures,
                      const AttentionOutputs& outputs, std::span<const std::byte> workspace);

}  // namespace rapt
