#include "cli/train/training_log_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"
#include "cli/process/memory.h"
#include "rapt/io/output_file.h"

namespace rapt::cli {
namespace {

std::string log_path(const std::string& folder) { return folder + "/log.jsonl"; }

}  // namespace

std::string read_training_log(const std::string& folder, int64_t step) {
  const std::string path = log_path(folder);
  std::error_code ignored;
  if (step == 0 || !std::filesystem::exists(path, ignored)) return "";
  MemoryBudget budget(-1);
  const std::string log = read_text_file("log.jsonl", path, budget);
  return std::string(training::log_through(log, step));
}

TrainingLogFile::TrainingLogFile(const std::string& folder, int64_t step)
    : path_(log_path(folder)) {
  const std::string kept = read_training_log(folder, step);
  OutputFile begin(path_, Overwrite::yes);
  begin.write(kept.data(), std::ssize(kept));
  begin.commit();
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (!file_) fail("cannot open");
}

void TrainingLogFile::write(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) fail("cannot write");
}

void TrainingLogFile::flush() {
  if (std::fflush(file_.get()) != 0) fail("cannot write");
}

void TrainingLogFile::fail(const std::string& what) const {
  const int error = errno;
  throw Failure(Exit::io, path_ + ": " + what + ": " + std::generic_category().message(error));
}

}  // namespace rapt::cli
