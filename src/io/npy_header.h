#pragma once
// Functions for headers of .npy files that .npz files need, besides parse_npy_header.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rapt/io/npy.h"

namespace rapt {

// The first bytes of a file tell how long its header is; it has at most kMaxNpyPrefix.
inline constexpr int64_t kNpyHeaderLengthBytes = 12;

// The number of bytes at the start of a file of `file_bytes` bytes that hold its header. `start`:
// its first min(file_bytes, kNpyHeaderLengthBytes) bytes. If the file is no .npy file, as many as
// the error needs.
int64_t npy_prefix_bytes(std::span<const std::byte> start, int64_t file_bytes);

// As parse_npy_header, but element types that rapt does not read are no error: their dtype is
// absent. `prefix` has at least npy_prefix_bytes.
StoredTensor list_npy_header(std::span<const std::byte> prefix, int64_t file_bytes,
                             const std::string& name, NpyV2 v2);

// Throws Error(dtype) for such a type, with what to do. `name`: the file, for messages.
[[noreturn]] void refuse_npy_type(const std::string& type, const std::string& name);

}  // namespace rapt
