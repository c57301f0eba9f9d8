#pragma once
// The processor's name.
#include <string>

namespace rapt::cli {

// As the system tells it; empty if it does not. Linux.
std::string cpu_model();

}  // namespace rapt::cli
