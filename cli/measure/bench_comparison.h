#pragma once
// An older result of `rapt bench`, to compare with.
#include <string>
#include <vector>

#include "cli/measure/bench_report.h"
#include "cli/process/memory.h"

namespace rapt::cli {

class OlderResults {
 public:
  // Reads what --format json or jsonl wrote. Throws Failure(io, data).
  explicit OlderResults(const std::string& path, MemoryBudget& budget);

  // The problems of the older result, in its order.
  const std::vector<BenchCase>& cases() const { return cases_; }

  // The older time of the result's problem; absent if there is none. It counts as slower if the
  // difference exceeds `tolerance`.
  std::optional<OlderTime> of(const BenchResult& result, double tolerance) const;

  // The processor that it was measured on.
  const std::string& cpu() const { return cpu_; }

 private:
  void add(const nlohmann::json& problem);

  std::string path_, cpu_;
  std::vector<BenchCase> cases_;
  std::vector<double> medians_;
};

}  // namespace rapt::cli
