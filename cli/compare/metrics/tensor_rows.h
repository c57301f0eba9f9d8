#pragma once
// The rows of a dense tensor as doubles, and back, whatever its dtype.
#include <cstdint>
#include <vector>

#include "rapt/tensor.h"

namespace rapt::cli {

class TensorRows {
 public:
  // Throws Error(argument) for a view that is not dense, Error(dtype) for other elements than
  // floats.
  explicit TensorRows(const TensorView& tensor);

  int64_t rows() const { return rows_; }  // of all matrices together
  int64_t columns() const { return columns_; }
  // The numbers of a row. They change with the next call.
  const double* row(int64_t index);

 private:
  TensorView tensor_;
  int64_t rows_, columns_;
  std::vector<double> numbers_;
};

// Rounds `numbers` to a row of a dense tensor of floats. Throws Error(dtype) for other elements.
void set_row(Tensor& tensor, int64_t index, const double* numbers);

}  // namespace rapt::cli
