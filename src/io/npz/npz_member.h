#pragma once
// Reads and checks a tensor of an .npz file.
#include <cstddef>

#include "rapt/io/tensor_file.h"

namespace rapt {

// Whether a tensor is a member of an .npz file, which has at least the bytes of a header.
inline bool is_npz_member(const StoredTensor& tensor) { return tensor.member_bytes > 0; }

// The elements as they are stored, tensor.bytes bytes. Throws Error(format, io).
void read_npz_member(const StoredTensor& tensor, std::byte* to);

// Compares the CRC-32 of an uncompressed member with the bytes of the mapped file. Throws
// Error(format, io).
void check_npz_member(const StoredTensor& tensor);

// Throws Error(dtype) for a tensor without a dtype.
[[noreturn]] void refuse_npz_member(const StoredTensor& tensor);

}  // namespace rapt
