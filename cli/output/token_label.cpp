#include "cli/output/token_label.h"

namespace rapt::cli {

std::string token_label(std::string_view bytes) {
  std::string label;
  for (const char c : bytes) {
    if (c == '\n')
      label += "\\n";
    else if (c == '\t')
      label += "\\t";
    else
      label += c;
  }
  const bool blank = label.find_first_not_of(' ') == std::string::npos;
  return blank ? "'" + label + "'" : label;
}

}  // namespace rapt::cli
