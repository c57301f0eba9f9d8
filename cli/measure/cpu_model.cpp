#include "cli/measure/cpu_model.h"

#include <fstream>

namespace rapt::cli {

std::string cpu_model() {  // Linux; "" if the kernel does not provide it
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

}  // namespace rapt::cli
