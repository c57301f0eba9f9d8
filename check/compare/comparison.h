#pragma once
// The library's results on a case, compared with the reference.
#include <string>
#include <vector>

#include "check/compare/case.h"
#include "check/tolerance/tolerance.h"

namespace check {

// What is compared of a large problem, so that the reference takes seconds and not days. All of it
// if that takes at most `most` multiplications; else heads and rows that are drawn from the
// descriptor's seed. Captures that are sums over queries (map, received) get whole heads.
inline constexpr double kMostWork = 2e9;
Sample sample_of(const Descriptor& descriptor, double most = kMostWork);

// "all rows", "rows 3, 17, ... of 16 heads"
std::string text_of(const Sample& sample, const Descriptor& descriptor);

// One tensor of the results.
struct Compared {
  const char* name;
  Verdict verdict;
};

// What is wrong with a tensor's presence, dtype or shape; empty if nothing is.
std::string misdeclared(const Tensor& got, bool wanted, DType dtype, rapt::Shape shape);

struct Comparison {
  std::vector<Compared> tensors;

  bool ok() const;
  std::string failures() const;  // one line per tensor that differs
};

// Calls the library as the descriptor says: inputs as laid out, all captures.
rapt::AttentionResult run(const Case& c, const rapt::Context& context = {});

Comparison compare(const Case& c, const rapt::AttentionResult& got, const Sample& sample = {});

}  // namespace check
