#pragma once
// The report of `rapt attend`: a summary for people, JSON for programs.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/attend/attend_gradients.h"
#include "cli/attend/attend_stats.h"
#include "cli/output/tensor_output.h"
#include "rapt/attention.h"

namespace rapt::cli {

// Outputs up to this many rows and columns are shown as numbers.
inline constexpr int64_t kMaxShown = 8;

struct AttendReport {
  TensorView query, key, value;
  std::string text;  // where a text came from; empty if there was none
  double scale = 0;
  std::vector<std::string> masks;
  std::vector<std::string> scores;
  std::string normalizer;
  std::string method;    // its spec; empty if attention is exact
  double cosine = 0;     // epsilon; 0: rows are not divided by their lengths
  std::string rotary;    // its spec; empty if there is none
  std::string relative;  // its spec; empty if there is none
  std::string bias;      // its file; empty if there is none
  BiasOrder bias_order = BiasOrder::after_scores;
  bool packed = false;
  bool invariant = false;
  Dropout dropout;
  std::string precision;
  Plan plan;
  bool computed = false;  // false: with --plan; then no result is set
  TensorView output;
  TensorView weights;                // for --weights; absent without it
  TensorView top_keys, top_weights;  // absent if they were not requested
  std::optional<std::vector<HeadStats>> stats;
  std::optional<GradientReport> gradients;
  int64_t picture_scores = 0;  // scores of exact attention that is computed for the picture alone
  int64_t picture_bytes = 0;   // memory of the calls for the picture alone
  std::vector<std::string> words;
  double wall_seconds = 0, cpu_seconds = 0;
  double read_seconds = 0, write_seconds = 0;  // before and after the computation
  std::optional<double> peak_gflops;           // if it was requested
  std::string memory;                          // --memory
  int64_t memory_limit = 0;                    // bytes
  int64_t memory_needed = 0;                   // bytes, inputs included
  int64_t memory_growth = -1;  // bytes of peak RSS since the inputs were there; -1: unknown
  // `what`: "output", "weights", "lse", "top-keys", ..., "heatmap".
  std::vector<TensorOutputs::Written> files;

  // Useful operations of the forward pass: 2 (head_dim + value_dim) for each allowed score; -1 if
  // allowed scores are not counted, or with a method.
  double flops() const;

  // Useful operations of the backward pass: 6 head_dim + 4 value_dim for each allowed score; 0
  // without gradients, -1 if allowed scores are not counted, or with a method.
  double gradient_flops() const;

  // The same of picture_scores.
  double picture_flops() const;

  // The expected time of so many operations with the plan's threads.
  double seconds_of(double flops) const;

  // The expected time of the computation, without captures, from a short measurement of the peak
  // and the share of it that the kernels reach. -1: unknown.
  double estimated_seconds() const;

 private:
  bool counts_operations() const { return plan.allowed_scores >= 0 && method.empty(); }
};

std::string summary_text(const AttendReport& report);
std::string captures_text(const AttendReport& report);  // of --stats and --top-k; may be empty
nlohmann::ordered_json summary_json(const AttendReport& report);  // schema: docs/json.md

}  // namespace rapt::cli
