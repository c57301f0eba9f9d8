#pragma once
// A problem of one line (check/descriptor.h), drawn, with all memory that its calls take: ready to
// be called again and again by one thread.
#include <cstddef>
#include <vector>

#include "check/case.h"
#include "rapt/attention.h"

namespace bench {

class Problem {
 public:
  explicit Problem(const check::Descriptor& descriptor);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  void call(const rapt::Progress& progress = {});

  const check::Descriptor& descriptor() const { return case_.descriptor; }
  const rapt::Plan& plan() const { return plan_; }
  // 2 (head_dim + value_dim) per allowed score; exponentials, padding, captures and the excluded
  // scores of partial tiles count as nothing.
  double useful_flops() const;

 private:
  const check::Case case_;
  const check::Case::Inputs inputs_;
  const rapt::AttentionOptions options_;
  rapt::Plan plan_;
  rapt::AttentionResult result_;
  rapt::AttentionOutputs outputs_;
  std::vector<std::byte> workspace_;
};

}  // namespace bench
