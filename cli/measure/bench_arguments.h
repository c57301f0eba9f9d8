#pragma once
// The options of `rapt bench`, and the problems that their lists of values make.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "check/problem/descriptor.h"

namespace rapt::cli {

inline constexpr int64_t kMostThreads = 4096;  // beyond any machine

enum class BenchFormat { md, json, jsonl, csv };

struct BenchArguments {
  std::vector<std::string> descriptors;
  // Lists with commas; empty: the default.
  std::string batch, heads, q_len, k_len, head_dim, value_dim, dtype, mask, method, threads;
  std::string repetitions, format, compare, tolerance, memory_limit;
  bool json = false;
};

// A measured case: a problem, and the number of threads that may work on it.
struct BenchCase {
  check::Descriptor problem;
  int threads = 1;

  std::string name() const;  // "h2q1024k1024d64:mask=causal"; of more threads "... x 2 threads"
  bool operator==(const BenchCase&) const = default;
};

void add_bench_options(CLI::App& app, BenchArguments& arguments);

// Every combination of the lists' values, the last list varying fastest; or the given descriptors;
// or, without lists and descriptors, the defaults. Throws usage errors.
std::vector<BenchCase> bench_cases(const BenchArguments& arguments);

// Whether the options name the problems. If not, an older result names them.
bool names_problems(const BenchArguments& arguments);

BenchFormat bench_format(const BenchArguments& arguments);
int bench_repetitions(const BenchArguments& arguments);
double bench_tolerance(const BenchArguments& arguments);

}  // namespace rapt::cli
