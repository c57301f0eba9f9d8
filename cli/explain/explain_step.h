#pragma once
// A step of `rapt explain`: what is computed, how, and its numbers.
#include <string>

#include "rapt/tensor.h"

namespace rapt::cli {

struct Step {
  std::string name, formula, doc;
  Tensor matrix;  // f64 [rows, columns]
};

}  // namespace rapt::cli
