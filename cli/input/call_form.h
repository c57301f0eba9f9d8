#pragma once
// Variants with files among their arguments, as text.
#include <string>

namespace rapt::cli {

// The colon form separates arguments by colons, which would separate a file from a tensor's name:
// lengths:F.npz:NAME becomes lengths(F.npz:NAME).
inline std::string call_form(const std::string& spec) {
  const size_t colon = spec.find_first_of(":(!&|");
  const bool named =
      spec.find(".npz:") != std::string::npos || spec.find(".safetensors:") != std::string::npos;
  if (!named || colon == std::string::npos || spec[colon] != ':') return spec;
  return spec.substr(0, colon) + "(" + spec.substr(colon + 1) + ")";
}

}  // namespace rapt::cli
