#pragma once
// What `rapt attend` asks the library for beside the output: weights, maps, top keys, statistics.
#include <cstdint>
#include <string>
#include <vector>

#include "cli/attend/attend_arguments.h"
#include "cli/attend/attend_problem.h"
#include "rapt/attention.h"

namespace rapt::cli {

// The keys that --top-keys, --top-weights and --stats F hold without --top-k, where there are so
// many.
inline constexpr int64_t kDefaultTopKeys = 16;

// The lists that a request of the library looks at, and where the parts lie in what it returns.
struct CapturePlan {
  std::vector<int64_t> weights_rows;   // chosen ones; empty: a range, or all
  std::vector<int64_t> weights_heads;  // flat indices; empty: all
  std::vector<int64_t> map_heads;      // the same for the map
  int64_t asked_map_heads = 0;         // the first ones of the map that --weights asks for; 0: none
  int64_t picture_head = 0;            // flat index
  int64_t picture_position = 0;        // its place among the heads of the map

  // The problem's options and the captures. They look at this plan, which must stay where it is.
  AttentionOptions options;
};

// Throws usage errors for what the options alone have wrong.
void check_capture_options(const AttendArguments& arguments);

// Fills in the plan; refuses what does not fit, each with its option's name.
void plan_captures(const AttendArguments& arguments, const Problem& problem, CapturePlan& plan);

// What --weights writes: rows and heads of the weights, or the pooled map; absent without it.
TensorView asked_weights(const AttendArguments& arguments, const CapturePlan& plan,
                         const AttentionResult& result);

// The index of a head in the leading dimensions, and as text: "1,3"; "" if there are none.
std::vector<int64_t> head_index(int64_t flat, const std::vector<int64_t>& leading);
std::string head_text(int64_t flat, const std::vector<int64_t>& leading);

}  // namespace rapt::cli
