#pragma once
// --stats and --top-k: statistics of the weights of each head, without the matrix of weights.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/attend/attend_problem.h"
#include "rapt/attention.h"

namespace rapt::cli {

struct ReceivedByKey {
  int64_t key;
  double weight;  // the sum of its weights over the queries
};

struct HeadStats {
  std::vector<int64_t> head;  // its index in the leading dimensions
  // -sum w ln w over the queries that may attend to a key; all 0 if there is none.
  double entropy_mean = 0, entropy_min = 0, entropy_max = 0;
  int64_t rows_without_keys = 0;
  double allowed_share = 0;                  // of q_len x k_len
  std::vector<ReceivedByKey> most_received;  // at most kMostReceived, greatest first
};

inline constexpr size_t kMostReceived = 16;

// `result` has entropy and received. `plan` is that of the call.
std::vector<HeadStats> head_stats(const Problem& problem, const Plan& plan,
                                  const AttentionResult& result);

// A table of lines, the first one the titles. `words` may be empty: keys are then numbers.
std::string stats_text(const std::vector<HeadStats>& stats, const std::vector<std::string>& words,
                       int64_t k_len);
nlohmann::ordered_json stats_json(const std::vector<HeadStats>& stats,
                                  const std::vector<std::string>& words);

// Whether the queries are few enough to be shown one by one.
bool few_queries(const TensorView& top_keys);

// Each query with its keys and their weights, one line each.
std::string top_keys_text(const TensorView& keys, const TensorView& weights,
                          const std::vector<std::string>& words);

}  // namespace rapt::cli
