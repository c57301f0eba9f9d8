#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace rapt::cli {

// The lines of a file, without "\n" or "\r\n" at their ends. An empty file has none.
std::vector<std::string> lines_of(std::string_view content);

}  // namespace rapt::cli
