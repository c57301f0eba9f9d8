#pragma once
// The options of attention within a multi-head layer: the layer's and the call's in one.
#include <optional>

#include "nn/attention/appended_keys.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::nn {

class MultiHeadOptions {
 public:
  // `captures`: of the call; without them the options are those of a backward call. Throws
  // Error(argument, unsupported).
  MultiHeadOptions(const MultiHeadAttention& layer, const MultiHeadCall& call, const Run& run,
                   bool captures);
  MultiHeadOptions(const MultiHeadOptions&) = delete;  // options refer to mask_
  MultiHeadOptions& operator=(const MultiHeadOptions&) = delete;

  const AttentionOptions& operator*() const noexcept { return options_; }

 private:
  void take_masks(const MultiHeadAttention& layer, const MultiHeadCall& call);
  void take_scores(const AttentionOptions& call);
  void take_positions(const AttentionOptions& call);

  AttentionOptions options_;
  std::optional<AppendedKey> mask_;
};

}  // namespace rapt::nn
