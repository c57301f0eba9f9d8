#pragma once
// NumPy's .npy files: one dense array each. Strict: a file that is not exactly what its header
// says is an error, found before memory is allocated.
//
// Format: numpy.lib.format (NumPy enhancement proposal 1), versions 1.0, 2.0 and 3.0:
//   "\x93NUMPY", major, minor, header length (2 bytes in 1.0, else 4, little-endian), header, data
// where the header is a Python dict literal with exactly the keys descr, fortran_order and shape.
// It is parsed by hand and never evaluated; objects (pickles) are never read.
//
// Element types: float32, float64, float16, int32, int64, uint8, bool, in both byte orders; and
// '<V2', '>V2' as bf16 where NpyV2::bf16 says so.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"
#include "rapt/tensor.h"

namespace rapt {

// NumPy writes up to 10,000 bytes; a header of 32 dimensions needs about 800.
inline constexpr int64_t kMaxNpyHeader = 65536;
// The largest header, with the bytes before it.
inline constexpr int64_t kMaxNpyPrefix = 12 + kMaxNpyHeader;

// Everything below throws Error as rapt/io/tensor_file.h says.

// Arrays of element types that rapt does not read are listed, without a dtype; load() rejects them.
TensorFile open_npy(std::shared_ptr<const InputFile> file, NpyV2 v2 = NpyV2::refuse);

// The array of a file of `file_bytes` bytes that begins with `prefix`, of at least
// min(file_bytes, kMaxNpyPrefix) bytes; its offset counts from the prefix. `name` stands for the
// path in messages.
StoredTensor parse_npy_header(std::span<const std::byte> prefix, int64_t file_bytes,
                              const std::string& name, NpyV2 v2 = NpyV2::refuse);

// A whole array: row-major, native byte order, in memory of its own.
Tensor read_npy(const std::string& path, NpyV2 v2 = NpyV2::refuse);

// The first bytes of a row-major file, as numpy.save writes them. Throws Error(dtype) for bf16 and
// NpyV2::refuse.
std::string npy_header_for(DType dtype, Shape shape, NpyV2 v2 = NpyV2::refuse);

// Row-major whatever the view's strides; the bytes are those of numpy.save. Throws
// Error(dtype, argument) before anything is written.
void write_npy(const WriteBytes& write, const TensorView& view, NpyV2 v2 = NpyV2::refuse);
// The file appears whole or not at all. Throws Error(io) as well.
void write_npy(const std::string& path, const TensorView& view, Overwrite overwrite,
               NpyV2 v2 = NpyV2::refuse);

}  // namespace rapt
