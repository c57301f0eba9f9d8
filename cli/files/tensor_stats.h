#pragma once
// Statistics of a tensor in a file, in one pass and with little memory.
#include <cstdint>

#include "rapt/context.h"
#include "rapt/io/tensor_file.h"

namespace rapt::cli {

struct TensorStats {
  int64_t count = 0, nan = 0, infinite = 0, zeros = 0;
  // Statistics of the finite elements, of which there are `finite`; all 0 if there are none. std is
  // that of a population, with a divisor of `finite`.
  int64_t finite = 0;
  double min = 0, max = 0, mean = 0, std = 0;
  int64_t whole_min = 0, whole_max = 0;  // for types of whole numbers, which a double may round
};

// The memory that stats_of() needs beside a fixed amount.
int64_t memory_of_stats(const StoredTensor& tensor) noexcept;

// Computes statistics. Reads the file chunk by chunk, except members of .npz files, which have a
// checksum, and booleans: these are read as load() does. The tensor must have a dtype. Throws Error
// as load() does, Error(cancelled).
TensorStats stats_of(const StoredTensor& tensor, const Progress& progress = {});

}  // namespace rapt::cli
