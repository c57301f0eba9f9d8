#pragma once
// What .npz needs of the header of a .npy file, besides parse_npy_header.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rapt/io/npy.h"

namespace rapt {

// The first bytes of a file tell how long its header is; it has at most kMaxNpyPrefix.
inline constexpr int64_t kNpyHeaderLengthBytes = 12;

// How many bytes of a file of `file_bytes` bytes hold its header, where the first
// min(file_bytes, kNpyHeaderLengthBytes) are known. Of what is no .npy file: enough to say so.
int64_t npy_prefix_bytes(std::span<const std::byte> start, int64_t file_bytes);

// As parse_npy_header; but element types that rapt does not read are no error: they have no dtype.
// `prefix` has at least npy_prefix_bytes.
StoredTensor list_npy_header(std::span<const std::byte> prefix, int64_t file_bytes,
                             const std::string& name, NpyV2 v2);

// The Error(dtype) for such a type, with what to do. `name` stands for the path.
[[noreturn]] void refuse_npy_type(const std::string& type, const std::string& name);

}  // namespace rapt
