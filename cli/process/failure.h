#pragma once
// The exit codes of a command, and the one line on stderr for each error.
#include <stdexcept>
#include <string>

#include "rapt/error.h"

namespace rapt::cli {

enum class Exit : int {
  ok = 0,
  differs = 1,
  usage = 2,
  data = 3,
  io = 4,
  memory = 5,
  interrupted = 130,  // 128 + SIGINT, as shells report it
};

// The meaning of an exit code, for manuals. docs/json.md has more detail.
struct ExitMeaning {
  Exit code;
  const char* means;
};
inline constexpr ExitMeaning kExitMeanings[] = {
    {Exit::ok, "success"},
    {Exit::differs, "a comparison failed, or training missed its goal"},
    {Exit::usage, "the command line cannot be meant as it is"},
    {Exit::data, "bad data: shapes, dtypes, a file that is not what it says it is"},
    {Exit::io, "input or output failed, or a file would be overwritten"},
    {Exit::memory, "out of memory, or beyond --memory-limit; found before it is taken"},
    {Exit::interrupted,
     "interrupted; nothing was written, but for the checkpoint of a training run"},
};

// An error of this program whose exit code is known where it is thrown.
class Failure : public std::runtime_error {
 public:
  Failure(Exit exit, const std::string& message, std::string hint = "")
      : std::runtime_error(message), exit_(exit), hint_(std::move(hint)) {}
  Exit exit() const noexcept { return exit_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  Exit exit_;
  std::string hint_;
};

// An invalid command line.
inline Failure usage_error(const std::string& message, const std::string& hint = "") {
  return Failure(Exit::usage, message, hint);
}

// A reserved feature that this build lacks: it is rejected, never ignored.
inline Failure not_built(const std::string& what, const std::string& hint = "") {
  return Failure(Exit::usage, what + " is not built yet", hint);
}

Exit exit_of(ErrorCode code) noexcept;

// Prints the exception that is being handled, as "COMMAND: what happened" and perhaps a second line
// "hint: what to do", and returns the exit code. To be called from a catch block.
Exit report_failure(const std::string& command) noexcept;

}  // namespace rapt::cli
