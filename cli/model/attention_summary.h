#pragma once
// What the heads of an encoder look at: collected layer by layer, so that the maps of one layer
// alone are in memory.
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

class AttentionSummary {
 public:
  // `shown`: the tokens that count; the rows of the others are left out, and what the others have
  // of a row goes to those shown. Throws usage errors for layers and heads that the model lacks, or
  // that are given twice.
  AttentionSummary(const model::EncoderSpec& spec, const ModelSettings& settings,
                   std::vector<int64_t> shown, int64_t tokens, FoundPair pair, bool keeps_maps);

  // The captures that an encoder call needs, with the memory that they are written to.
  model::EncoderCaptures captures();

  int64_t shown() const { return std::ssize(shown_); }
  const std::vector<int64_t>& shown_tokens() const { return shown_; }
  // The mean of the weights over the chosen heads, [shown, shown].
  std::vector<float> mean() const;
  // The heads in which the first token looks most at the second; the greatest weight first.
  std::vector<HeadWeight> found() const;

  // Results of the chosen layers and heads, for --output.
  std::vector<std::pair<std::string, Tensor>> tensors() const;

 private:
  void add(int64_t layer, const AttentionResult& result);
  void add_head(int64_t layer, int64_t head, const float* weights);

  struct Kept {
    const char* name;
    std::vector<float> values;
    std::vector<int64_t> integers;  // of top_keys alone
    std::vector<int64_t> shape;     // behind layers and heads
  };
  // Stores what the heads of layers_[layer_at] have: results stand in the order asked for.
  void keep(const char* name, const Tensor& result, size_t layer_at);

  std::vector<int64_t> layers_, heads_, shown_;
  std::optional<MapRequest> map_;
  int64_t top_k_, tokens_;
  FoundPair pair_;
  bool keeps_maps_;
  std::vector<double> sum_;
  std::vector<HeadWeight> found_;
  std::vector<Kept> kept_;
};

}  // namespace rapt::cli
