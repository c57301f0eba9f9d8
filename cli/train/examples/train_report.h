#pragma once
// What `rapt train` prints about its runs, as text and for programs.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/train/examples/reformer_copy.h"
#include "cli/train/examples/tiny.h"

namespace rapt::cli {

// The three runs of --example tiny, in the order of TinyEmbedding.
struct TinyReport {
  TinyRun frozen, trained, redrawn;

  // Attention must have learned in both runs in which it can.
  static constexpr double kWantedFall = 500;
  bool ok() const { return frozen.falls() >= kWantedFall && trained.falls() >= kWantedFall; }
};

// The run of --example copy.
struct CopyReport {
  std::vector<double> losses;  // of each update
  int64_t copied = 0;          // of kCopySequences

  bool ok() const;
};

// The run of --example reformer-copy.
struct ReformerReport {
  std::vector<double> losses;              // of each update
  std::vector<ReformerAccuracy> accuracy;  // of the tests

  static constexpr int64_t kGoalRounds = 8;
  static constexpr double kWantedRight = 0.99;
  double right() const;  // with kGoalRounds
  bool ok() const { return right() >= kWantedRight; }
};

// "  20   2.716483\n": after so many updates, the loss before the last of them.
std::string copy_line(int64_t step, double loss);
// The text printed after the run, below the losses of its updates.
std::string report_text(const TinyReport& report);
std::string report_text(const CopyReport& report);
std::string report_text(const ReformerReport& report);

// The goal that a run misses when ok() is false.
std::string missed_goal(const TinyReport& report);
std::string missed_goal(const CopyReport& report);
std::string missed_goal(const ReformerReport& report);

// The documents; schema: docs/json.md.
nlohmann::ordered_json train_document(const TinyReport& report, uint64_t seed, double seconds);
nlohmann::ordered_json train_document(const CopyReport& report, uint64_t seed, double seconds);
nlohmann::ordered_json train_document(const ReformerReport& report, uint64_t seed, double seconds);

}  // namespace rapt::cli
