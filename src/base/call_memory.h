#pragma once
// The memory of a call: bytes of tensors, the limit of the context, the caller's workspace.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/scratch_gap.h"
#include "rapt/context.h"
#include "rapt/tensor.h"

namespace rapt {

// Bytes of a tensor, and a sum of bytes; SIZE_MAX on overflow.
size_t bytes_of(Shape lengths, DType dtype);
size_t add_or_max(size_t a, size_t b);

// Throws Error(memory_limit) if the context allows fewer bytes; `hint` ends the message.
void check_memory_limit(size_t needed, const Context& context, const char* hint);

// A workspace while a call works in it. Throws Error(argument) if it has less than `needed` bytes,
// in which there are 63 to spare.
class Workspace {
 public:
  Workspace(std::span<std::byte> memory, size_t needed);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { open_gaps(memory_.data(), memory_.size()); }

  // The first 64-byte aligned address.
  std::byte* begin() const noexcept {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64;
  }

 private:
  std::span<std::byte> memory_;  // the bytes that the call needs
};

}  // namespace rapt
