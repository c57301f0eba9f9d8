#pragma once
// FOLDER/log.jsonl: the records of a run as lines (rapt/training/training_log.h).
#include <cstdio>
#include <memory>
#include <string>

#include "rapt/training/training_log.h"

namespace rapt::cli {

// The lines of the first `step` updates; empty if there is no log. Throws Failure(io).
std::string read_training_log(const std::string& folder, int64_t step);

class TrainingLogFile {
 public:
  // Goes on behind the lines of the first `step` updates. Throws Failure(io).
  TrainingLogFile(const std::string& folder, int64_t step);

  template <class Record>
  void add(const Record& record) {
    write(training::log_line(record));
  }
  // Throws Failure(io) if a line was lost.
  void flush();

 private:
  void write(const std::string& line);
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
};

}  // namespace rapt::cli
