#pragma once
// A tensor of an .npz file in memory.
#include <cstddef>

#include "rapt/io/tensor_file.h"

namespace rapt {

// A member has at least the bytes of a header.
inline bool is_npz_member(const StoredTensor& tensor) { return tensor.member_bytes > 0; }

// The elements as they are stored, tensor.bytes bytes. Throws Error(format, io).
void read_npz_member(const StoredTensor& tensor, std::byte* to);

// Compares the CRC-32 of a member that is stored with what the map of the file holds. Throws
// Error(format, io).
void check_npz_member(const StoredTensor& tensor);

// The Error(dtype) for a tensor without a dtype.
[[noreturn]] void refuse_npz_member(const StoredTensor& tensor);

}  // namespace rapt
