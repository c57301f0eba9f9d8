#pragma once
// Which weights `rapt attend` computes for --weights and --heatmap.
#include <cstdint>
#include <string>
#include <vector>

#include "attend_arguments.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// Which weights to compute, and where the asked ones lie in them.
struct WeightsPlan {
  std::vector<int64_t> heads;  // flat indices; empty: all
  int64_t row_begin = 0, row_end = 0;
  int64_t picture_head = 0;      // flat index
  int64_t picture_position = 0;  // its place among the computed heads
};

WeightsPlan plan_weights(const AttendArguments& arguments, const std::vector<int64_t>& leading,
                         int64_t q_len);

// The part of the computed weights that --weights asks for: the picture may have added to it.
TensorView asked_weights(const AttendArguments& arguments, const Tensor& weights);

// The index of a head in the leading dimensions, and as text: "1,3"; "" if there are none.
std::vector<int64_t> head_index(int64_t flat, const std::vector<int64_t>& leading);
std::string head_text(int64_t flat, const std::vector<int64_t>& leading);

}  // namespace rapt::cli
