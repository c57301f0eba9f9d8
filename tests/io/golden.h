#pragma once
// The files of tests/io/data, written by NumPy (make_golden.py).
#include <string>

#include "scratch_folder.h"

namespace rapt::test {

inline std::string golden(const std::string& name) {
  return std::string(RAPT_TEST_DATA) + "/" + name;
}

inline std::string golden_bytes(const std::string& name) { return file_bytes(golden(name)); }

}  // namespace rapt::test
