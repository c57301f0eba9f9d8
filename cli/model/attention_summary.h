#pragma once
// What the heads of a model look at: collected layer by layer, so that the maps of one layer
// alone are in memory.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/model/attended_model.h"
#include "cli/model/model_arguments.h"
#include "rapt/model/encoder_model.h"

namespace rapt::cli {

// How much one head's weight is.
struct HeadWeight {
  int64_t layer, head;
  double weight;
};

// The tokens whose weights are wanted of the heads.
struct FoundPair {
  int64_t from = -1, to = -1;
};

// Which weights are computed as such, beside what is pooled.
enum class WholeWeights : uint8_t {
  none,
  found_row,  // of the pair's first token, [tokens] of each head
  all,        // [rows, tokens] of each head
};

// What is collected.
struct SummaryParts {
  WholeWeights weights = WholeWeights::all;
  bool kept = false;  // are results of each head kept, for tensors()?
};

class AttentionSummary {
 public:
  // `shown`: the tokens that count; the rows of the others are left out, and what the others have
  // of a row goes to those shown. `rows`: the tokens whose weights are computed; empty: all. Throws
  // usage errors for layers and heads that the model lacks, or that are given twice, and for rows
  // of which none is shown.
  AttentionSummary(const AttendedSizes& sizes, const ModelSettings& settings,
                   std::vector<int64_t> shown, std::vector<int64_t> rows, int64_t tokens,
                   FoundPair pair, SummaryParts parts);

  // The captures that a call of the model needs.
  model::EncoderCaptures captures();

  int64_t shown() const { return std::ssize(shown_); }
  const std::vector<int64_t>& shown_tokens() const { return shown_; }
  // The rows of the mean, as places in shown_tokens().
  const std::vector<size_t>& mean_rows() const { return mean_rows_; }
  // How many heads the mean is of.
  size_t head_count() const { return layers_.size() * heads_.size(); }
  // The mean of the weights over the chosen heads, [mean_rows, shown]; empty without all weights.
  std::vector<float> mean() const;
  // The heads in which the first token looks most at the second; the greatest weight first.
  std::vector<HeadWeight> found() const;

  // Results of the chosen layers and heads, for --output.
  std::vector<std::pair<std::string, Tensor>> tensors() const;

 private:
  void add(int64_t layer, const AttentionResult& result);
  // 1, or what makes the weights that a row has for shown tokens sum to 1.
  double scale_of(const float* row) const;
  void add_rows(const float* weights);
  void add_found(HeadWeight head, const float* row);

  struct Kept {
    const char* name;
    std::vector<float> values;
    std::vector<int64_t> integers;  // of top_keys alone
    std::vector<int64_t> shape;     // behind layers and heads
  };
  // Stores what the heads of layers_[layer_at] have: results stand in the order asked for. `result`
  // has all heads, or the chosen ones alone.
  void keep(const char* name, const Tensor& result, size_t layer_at, bool chosen_alone = false);

  std::vector<int64_t> layers_, heads_, shown_;
  std::vector<int64_t> rows_;                    // whose weights are computed; empty: all
  std::vector<size_t> mean_rows_, weight_rows_;  // rows of the mean: in shown_, and in the weights
  std::optional<MapRequest> map_;
  int64_t top_k_, tokens_;
  FoundPair pair_;
  SummaryParts parts_;
  std::vector<double> sum_;
  std::vector<HeadWeight> found_;
  std::vector<Kept> kept_;
};

}  // namespace rapt::cli
