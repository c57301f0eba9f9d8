// The size of a workspace.
#include "attention/plan/scratch_layout.h"

namespace rapt {

size_t ScratchLayout::bytes_for(int count) const {
  size_t bytes;
  if (__builtin_mul_overflow(worker_bytes, static_cast<size_t>(count), &bytes) ||
      __builtin_add_overflow(bytes, workers, &bytes) ||
      __builtin_add_overflow(bytes, size_t{63}, &bytes))
    throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
  return bytes;
}

}  // namespace rapt
