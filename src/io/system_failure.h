#pragma once
// The reason why the system did not open, read or write a file, as an Error of one line.
#include <string>
#include <system_error>

#include "io/quoted.h"
#include "rapt/error.h"

namespace rapt {

[[noreturn]] inline void fail_on(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::io, path_text(path) + ": " + what);
}

// The text of an errno.
inline std::string system_reason(int error) { return std::generic_category().message(error); }

}  // namespace rapt
