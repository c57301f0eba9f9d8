#include "cli/output/token_label.h"

namespace rapt::cli {

std::string token_label(std::string_view bytes) {
  const bool blank = bytes.find_first_not_of(' ') == std::string_view::npos;
  std::string label;
  for (const char c : bytes) {
    if (c == '\n')
      label += "\u21b5";
    else if (c == '\t')
      label += "\\t";
    else if (c == '\r')
      label += "\\r";
    else if (blank)
      label += "\u2423";
    else
      label += c;
  }
  return label;
}

}  // namespace rapt::cli
