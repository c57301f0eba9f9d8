#pragma once
// Address space that the system backs with memory only once it is touched: offsets beyond 32 bits
// cost nothing.
#include <sys/mman.h>

#include <cstddef>

#include "check/tensors/arrays.h"

namespace laws {

class Reserved {
 public:
  explicit Reserved(size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  ~Reserved() {
    if (available()) munmap(memory_, bytes_);
  }
  bool available() const { return memory_ != MAP_FAILED; }
  void* data() const { return memory_; }

 private:
  size_t bytes_;
  void* memory_;
};

inline void copy_into(const check::TensorView& to, const check::TensorView& from) {
  check::for_each_index(from.dims(), [&](auto i) { check::set(to, i, check::get(from, i)); });
}

}  // namespace laws
