#pragma once
// NumPy's .npy files: one dense array each. Strict: a file that is not exactly what its header
// says is an error, found before memory is allocated.
//
// Format: numpy.lib.format (NumPy enhancement proposal 1), versions 1.0, 2.0 and 3.0:
//   "\x93NUMPY", major, minor, header length (2 bytes in 1.0, else 4, little-endian), header, data
// where the header is a Python dict literal with exactly the keys descr, fortran_order and shape.
// It is parsed by hand and never evaluated; objects (pickles) are never read.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rapt/io/output_file.h"
#include "rapt/tensor.h"

namespace rapt {

// NumPy writes up to 10,000 bytes; a header of 32 dimensions needs about 800.
inline constexpr int64_t kMaxNpyHeader = 65536;

struct NpyHeader {
  DType dtype = DType::f32;
  std::endian byte_order = std::endian::native;  // native for elements of one byte
  bool fortran_order = false;                    // first dimension fastest
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  // bytes before the first element
  int64_t data_bytes = 0;   // what the tensor will take
};

// Element types: float32, float64, float16, int32, int64, uint8, bool, in both byte orders.
//
// All of these throw Error with one line that names the file:
//   format    not a .npy file, a malformed header, a length that differs from the header's
//   dtype     an element type that rapt does not read
//   shape     more dimensions than a tensor can have
//   overflow  a shape whose size does not fit into 64 bits
//   io        the operating system refused, or the path is not a regular file

// What a file holds, so that memory can be told before it is taken.
NpyHeader read_npy_header(const std::string& path);

// Row-major, native byte order. Reads straight into the tensor: no second copy.
Tensor read_npy(const std::string& path);

// The same for a whole file in memory; `name` stands for the path in messages.
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name = "<memory>");
Tensor parse_npy(std::span<const std::byte> file, const std::string& name = "<memory>");

// The same for the first bytes of a file of `file_bytes` bytes. The prefix must hold the header:
// min(file_bytes, 12 + kMaxNpyHeader) bytes are enough.
NpyHeader parse_npy_prefix(std::span<const std::byte> prefix, int64_t file_bytes,
                           const std::string& name);

// The first bytes of a row-major file, as numpy.save writes them. Throws Error(dtype) for bf16,
// which the format has no name for.
std::string npy_header_for(DType dtype, Shape shape);

// Row-major whatever the view's strides; the bytes are those of numpy.save. The file appears whole
// or not at all. Throws Error(io, dtype, argument).
void write_npy(const std::string& path, const TensorView& view, Overwrite overwrite);

}  // namespace rapt
