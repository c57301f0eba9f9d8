#pragma once
// A problem of one line (check/problem/descriptor.h) with drawn inputs and all memory for its
// calls: ready for repeated calls.
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "check/compare/case.h"
#include "rapt/attention.h"

namespace timing {

// A context with the calling thread only, whose CPU time is then that of the call.
rapt::Context one_thread();

// The options of a case, with rotary embedding if it is given.
rapt::AttentionOptions options_of(const check::Case& problem, const rapt::Rotary* rotary);

// Runs the call that it is given once, and may count its time or its memory.
using Observer = std::function<void(const std::function<void()>&)>;

template <class Call>
auto observed(const Observer& observer, const Call& call) {
  if (!observer) return call();
  std::optional<decltype(call())> result;
  observer([&] { result.emplace(call()); });
  return std::move(*result);
}

class Problem {
 public:
  // `rotary` must outlive it: queries and keys are rotated within the call. `observer` sees the
  // first call, which allocates its results.
  explicit Problem(const check::Descriptor& descriptor, const rapt::Context& context = one_thread(),
                   const rapt::Rotary* rotary = nullptr, const Observer& observer = {});
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  void call(const rapt::Progress& progress = {});

  const check::Descriptor& descriptor() const { return case_.descriptor; }
  const rapt::Plan& plan() const { return plan_; }
  // 2 (head_dim + value_dim) per allowed score. Exponentials, padding, captures and the masked
  // scores of partial tiles do not count.
  double useful_flops() const;

 private:
  const rapt::Context context_;
  const check::Case case_;
  const check::Case::Inputs inputs_;
  const rapt::AttentionOptions options_;
  rapt::Plan plan_;
  rapt::AttentionResult result_;
  rapt::AttentionOutputs outputs_;
  std::vector<std::byte> workspace_;
};

}  // namespace timing
