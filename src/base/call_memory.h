#pragma once
// The memory of a call: bytes of tensors, the limit of the context, the caller's workspace.
#include <cstddef>
#include <span>

#include "rapt/context.h"
#include "rapt/tensor.h"

namespace rapt {

// Bytes of a tensor, and a sum of bytes; SIZE_MAX on overflow.
size_t bytes_of(Shape lengths, DType dtype);
size_t add_or_max(size_t a, size_t b);

// Throws Error(memory_limit) if the context allows fewer bytes; `hint` ends the message.
void check_memory_limit(size_t needed, const Context& context, const char* hint);

// The first 64-byte aligned address of a workspace. Throws Error(argument) if it has less than
// `needed` bytes, in which there are 63 to spare.
std::byte* checked_workspace(std::span<std::byte> workspace, size_t needed);

}  // namespace rapt
