#pragma once
// The measured points of `rapt plot scaling`, and the file that keeps them.
#include <cstdint>
#include <map>
#include <string>

#include "cli/measure/bench_measurement.h"

namespace rapt::cli {

struct ScalingPoint {
  int64_t n = 0;
  double seconds = 0, deviation = 0;  // of a call: the median, and the median distance from it
  int64_t growth = -1;                // bytes; -1: the system does not tell
  double wall = 0;                    // seconds that its measurement took
  double flops = -1;                  // useful operations of the forward call; -1: not counted
  double peak_gflops = 0;             // beside it; 0: not measured
};

// The name of the instruction set that calls take.
std::string chosen_instruction_set();

// F.jsonl: a line per point, written as soon as it is measured.
class PointsFile {
 public:
  // Reads the points of this build and machine. A last line that was not finished is removed from
  // the file, and said. Without a path nothing is kept. Throws Failure(data) for a file of another
  // kind, Failure(io).
  explicit PointsFile(const std::string& path);

  // The point of that problem; null if it was not measured.
  const ScalingPoint* find(const BenchCase& one, Passes passes) const;
  void add(const BenchCase& one, Passes passes, const ScalingPoint& point);

 private:
  void read_line(const std::string& line, int64_t number);

  std::string path_;
  std::map<std::string, ScalingPoint> points_;
};

}  // namespace rapt::cli
