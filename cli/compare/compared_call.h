#pragma once
// A call that is compared, and the memory that all of them share.
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "rapt/attention.h"
#include "rapt/backward.h"
#include "timing/clocks.h"

namespace rapt::cli {

// The CPU time of the calling thread in all attention calls of a comparison.
class CallTime {
 public:
  // Runs work() and returns its seconds.
  template <class Work>
  double of(const Work& work) {
    const double start = timing::thread_cpu_seconds();
    work();
    const double seconds = timing::thread_cpu_seconds() - start;
    seconds_ += seconds;
    return seconds;
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

// Tensors and options refer to what others own.
struct ComparedCall {
  TensorView query, key, value;
  TensorView d_output;  // absent: no gradients are computed
  AttentionOptions options;
  BackwardRequest request;  // of the gradients
};

// The results of the latest call, dense.
struct CallResults {
  Tensor output, statistic;
  Tensor d_query, d_key, d_value;  // those that the call requests; else absent, or of another call
};

// Calls with memory that is taken once: timed calls then measure neither the system's allocation of
// pages nor each other's.
class CallMemory {
 public:
  // output_shape: [..., q_len, value_dim], the same for all calls.
  CallMemory(std::vector<int64_t> output_shape, const Context& context)
      : output_shape_(std::move(output_shape)), context_(context) {}

  // Bytes that prepare() takes for these calls together.
  int64_t bytes_of(const std::vector<const ComparedCall*>& calls) const;

  // Takes the memory for a call; once for all calls, before the first of them.
  void prepare(const ComparedCall& call);

  // Both overwrite the results of the call's dtype. backward() belongs to the forward() before it.
  void forward(const ComparedCall& call);
  void backward(const ComparedCall& call);

  CallResults& results(const ComparedCall& call) { return results_.at(call.query.dtype); }

  const Context& context() const { return context_; }

 private:
  std::vector<int64_t> output_shape_;
  Context context_;
  std::map<DType, CallResults> results_;
  std::vector<std::byte> workspace_;
};

// The larger workspace of the two passes. Throws Error as plan() and backward_workspace_bytes().
size_t workspace_of(const ComparedCall& call, const Context& context);

}  // namespace rapt::cli
