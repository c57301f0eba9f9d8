#pragma once
// The library's results on a case, compared with the reference.
#include <string>
#include <vector>

#include "check/compare/case.h"
#include "check/tolerance/tolerance.h"

namespace check {

// The most multiplications of the reference for one problem, so that it takes seconds, not days. A
// problem with more work is compared on heads and rows that are drawn from the descriptor's seed.
// Captures that are sums over queries (map, received) get whole heads.
inline constexpr double kMostWork = 2e9;
Sample sample_of(const Descriptor& descriptor, double most = kMostWork);

// "all rows", "rows 3, 17, ... of 16 heads"
std::string text_of(const Sample& sample, const Descriptor& descriptor);

// One tensor of the results.
struct Compared {
  const char* name;
  Verdict verdict;
};

// The error in a tensor's presence, dtype or shape; empty if there is none.
std::string misdeclared(const Tensor& got, bool wanted, DType dtype, rapt::Shape shape);

struct Comparison {
  std::vector<Compared> tensors;

  bool ok() const;
  std::string failures() const;  // one line per tensor that differs
};

// Calls the library according to the descriptor: with laid-out inputs and all captures.
rapt::AttentionResult run(const Case& c, const rapt::Context& context = {});

Comparison compare(const Case& c, const rapt::AttentionResult& got, const Sample& sample = {});

}  // namespace check
