#pragma once
// The captures that `rapt attend` requests: weights, maps, top keys, statistics.
#include <cstdint>
#include <string>
#include <vector>

#include "cli/attend/attend_arguments.h"
#include "cli/attend/attend_problem.h"
#include "rapt/attention.h"

namespace rapt::cli {

// The default number of keys in --top-keys, --top-weights and --stats F.
inline constexpr int64_t kDefaultTopKeys = 16;

// The captures to request from the library, the lists that the request points to, and where the
// requested parts lie in the results.
struct CapturePlan {
  std::vector<int64_t> weights_rows;   // chosen rows; empty: a range, or all
  std::vector<int64_t> weights_heads;  // flat indices; empty: all
  std::vector<int64_t> map_heads;      // the same for the map
  int64_t asked_map_heads = 0;         // heads of the map for --weights, which come first; 0: none
  int64_t picture_head = 0;            // flat index
  int64_t picture_position = 0;        // its place among the heads of the map
  MapRequest picture_map;              // cells of the picture; heads are not set

  // The problem's options with the captures. They point into this plan, which must not move.
  AttentionOptions options;
};

// Throws usage errors that follow from the options alone.
void check_capture_options(const AttendArguments& arguments);

// Fills in the plan. Errors name the option.
void plan_captures(const AttendArguments& arguments, const Problem& problem, CapturePlan& plan);

// Whether the picture shows other weights than those of the call: with LSH attention exact ones,
// and which pairs it looked at.
bool draws_exact_weights(const Problem& problem);

// The tensor of --weights: rows and heads of the weights, or the pooled map; absent without
// --weights.
TensorView asked_weights(const AttendArguments& arguments, const CapturePlan& plan,
                         const AttentionResult& result);

// The index of a head in the leading dimensions, and as text: "1,3"; "" if there are none.
std::vector<int64_t> head_index(int64_t flat, const std::vector<int64_t>& leading);
std::string head_text(int64_t flat, const std::vector<int64_t>& leading);

}  // namespace rapt::cli
