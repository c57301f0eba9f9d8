#pragma once
// The processor's name.
#include <string>

namespace rapt::cli {

// The name from the operating system (Linux); empty if it gives none.
std::string cpu_model();

}  // namespace rapt::cli
