#pragma once
// The report of `rapt bench`: one line per problem, for people, programs or a spreadsheet.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure/bench_arguments.h"
#include "rapt/attention.h"

namespace rapt::cli {

// An older result of the same problem.
struct OlderTime {
  double median = 0;
  bool slower = false;  // the new result is slower by more than the tolerance
};

struct BenchResult {
  BenchCase problem;
  Plan plan;
  int calls = 1;                // calls per sample
  std::vector<double> seconds;  // of a call, by sample
  double median = 0, deviation = 0;
  double gflops = -1;  // -1: the pairs were not counted
  const char* peak_name = "";
  double peak_gflops = 0;  // of all threads
  int64_t growth = -1;     // bytes; -1: the system does not tell
  std::optional<OlderTime> older;

  double timed() const {
    double sum = 0;
    for (const double one : seconds) sum += one * calls;
    return sum;
  }
  double percent() const { return 100 * gflops / peak_gflops; }
  double ratio() const { return median / older->median; }
};

// Prints results as they come, in one of the formats.
class BenchReport {
 public:
  // `cases`: all cases, so that columns have one width. `compared`: there is an older result.
  BenchReport(BenchFormat format, const std::vector<BenchCase>& cases, bool compared);

  void add(const BenchResult& result);
  void end();

 private:
  void print_row(const BenchResult& result) const;

  BenchFormat format_;
  bool compared_;
  size_t width_;  // of the first column
  nlohmann::ordered_json results_ = nlohmann::ordered_json::array();
};

}  // namespace rapt::cli
