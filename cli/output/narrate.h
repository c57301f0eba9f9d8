#pragma once
// One line on stderr about what is being done.
#include <cstdio>
#include <string>

#include "cli/output/printable.h"

namespace rapt::cli {

inline void narrate(const std::string& line) {
  std::fprintf(stderr, "%s\n", printable(line).c_str());
}

}  // namespace rapt::cli
