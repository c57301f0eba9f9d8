#pragma once
// Lays out arrays in scratch memory before it is allocated: byte offsets, 64-byte aligned (a cache
// line), one array after the other.
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "rapt/error.h"

namespace rapt {

class ScratchPlaces {
 public:
  ScratchPlaces() = default;
  explicit ScratchPlaces(size_t begin) : bytes_(begin) {}

  // The offset of an array of this shape; 0 without a place if it is not needed.
  size_t place(bool needed, std::initializer_list<int64_t> shape, size_t element) {
    if (!needed) return 0;
    const size_t here = bytes_;
    for (const int64_t n : shape)
      overflow_ |= __builtin_mul_overflow(element, static_cast<size_t>(n), &element);
    add(element);
    add(63);
    bytes_ &= ~size_t{63};
    return here;
  }

  size_t bytes() const noexcept { return bytes_; }
  // Counts the next offsets from 0 again, for memory that exists once per worker.
  void restart() noexcept { bytes_ = 0; }
  // Everything placed since restart() exists `count` times, beginning at `begin`.
  void repeat(int count, size_t begin) noexcept {
    overflow_ |= __builtin_mul_overflow(bytes_, static_cast<size_t>(count), &bytes_);
    add(begin);
  }
  // Bytes to allocate, so that the first offset can be aligned. Throws Error(overflow).
  size_t total() {
    add(63);
    if (overflow_)
      throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
    return bytes_;
  }

 private:
  void add(size_t more) noexcept { overflow_ |= __builtin_add_overflow(bytes_, more, &bytes_); }

  size_t bytes_ = 0;
  bool overflow_ = false;
};

}  // namespace rapt
