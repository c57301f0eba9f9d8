#pragma once
// A call with options that no descriptor has, on one thread, in memory allocated before: f32,
// d = 64, random inputs.
#include "rapt/attention.h"

namespace bench {

class OptionCall {
 public:
  // `heads` of n queries and keys. What the options refer to must outlive the object.
  OptionCall(const rapt::AttentionOptions& options, int64_t heads, int64_t n, bool with_backward);

  static constexpr int64_t kHeadDim = 64;

  // The forward pass, and the backward pass if wanted.
  void call();

 private:
  rapt::AttentionOptions options_;
  bool with_backward_;
  rapt::Context context_;
  rapt::Tensor query_, key_, value_, d_output_, output_, statistic_, d_query_, d_key_, d_value_;
  rapt::Tensor workspace_, backward_workspace_;
};

}  // namespace bench
