#pragma once
// Shapes of blocks that work along sequences: [batch, length, features].
#include <string>

#include "nn/leading.h"

namespace rapt::nn {

// Throws Error(argument) for an absent tensor, Error(shape) unless it has rank 3 and this last
// length.
inline void check_sequences(const char* name, const TensorView& view, const char* length_name,
                            int64_t length) {
  check_last(name, view, length_name, length);
  if (view.rank != 3)
    throw Error(ErrorCode::shape, std::string(name) + " " + to_string(view.dims()) +
                                      "; expected [batch, length, " + length_name + " = " +
                                      std::to_string(length) + "]");
}

}  // namespace rapt::nn
