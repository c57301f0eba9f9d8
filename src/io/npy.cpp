// .npy files: the bytes behind the header, in and out.
#include "rapt/io/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>

#include "quoted.h"

namespace rapt {
namespace {

// Large enough that a system call per chunk costs nothing, small enough to stay in the L2 cache.
constexpr int64_t kChunkBytes = int64_t{1} << 18;

[[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& what) {
  throw Error(code, path_text(name) + ": " + what);
}

std::string reason(int error) { return std::generic_category().message(error); }

// A regular file, open for reading at any offset.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    if (path.empty())
      fail(ErrorCode::io, "''", "expected the path of a .npy file, got an empty one");
    if (path.find('\0') != std::string::npos) {
      fail(ErrorCode::io, path, "a path cannot hold a zero byte");
    }
    // Non-blocking, or opening a pipe that nobody writes to would wait for ever.
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) fail(ErrorCode::io, path, "cannot be opened: " + reason(errno));
    struct stat status = {};
    const bool known = fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      fail(ErrorCode::io, path,
           std::string("expected a regular file, whose length is known beforehand, got ") +
               (known && S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device"));
    }
    bytes_ = status.st_size;
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int64_t bytes() const { return bytes_; }

  void read(int64_t offset, std::byte* to, int64_t count) const {
    while (count > 0) {
      const ssize_t got = pread(descriptor_, to, static_cast<size_t>(count), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(ErrorCode::io, path_, "cannot be read: " + reason(errno));
      if (got == 0) fail(ErrorCode::io, path_, "became shorter while it was being read");
      to += got;
      offset += got;
      count -= got;
    }
  }

 private:
  const std::string& path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

NpyHeader header_of(const InputFile& file, const std::string& path) {
  std::vector<std::byte> prefix(std::min(file.bytes(), 12 + kMaxNpyHeader));
  file.read(0, prefix.data(), std::ssize(prefix));
  return parse_npy_prefix(prefix, file.bytes(), path);
}

void swap_bytes(std::byte* data, int64_t bytes, int64_t element_bytes) {
  for (int64_t i = 0; i < bytes; i += element_bytes) {
    std::reverse(data + i, data + i + element_bytes);
  }
}

// A place in a shape with strides, advanced in one fixed order of the dimensions.
class Walk {
 public:
  // dims: fastest first.
  Walk(Shape shape, Shape strides, std::span<const int> dims)
      : shape_(shape), strides_(strides), dims_(dims) {}

  int64_t offset() const { return offset_; }  // in elements
  void advance() {
    for (const int d : dims_) {
      offset_ += strides_[d];
      if (++index_[d] < shape_[d]) return;
      offset_ -= strides_[d] * shape_[d];
      index_[d] = 0;
    }
  }

 private:
  Shape shape_, strides_;
  std::span<const int> dims_;
  int64_t index_[kMaxRank] = {};
  int64_t offset_ = 0;
};

using Read = std::function<void(int64_t offset, std::byte* to, int64_t count)>;

// Column-major data, chunk by chunk, to their row-major places.
void read_fortran(const NpyHeader& header, const Read& read, std::byte* to,
                  const TensorView& view) {
  const int64_t element_bytes = size_of(header.dtype);
  std::vector<int> first_fastest(header.shape.size());
  for (int d = 0; d < view.rank; ++d) first_fastest[d] = d;
  Walk walk(view.dims(), {view.strides, static_cast<size_t>(view.rank)}, first_fastest);
  std::vector<std::byte> chunk(std::min(kChunkBytes, header.data_bytes));
  for (int64_t done = 0; done < header.data_bytes; done += std::ssize(chunk)) {
    chunk.resize(std::min(kChunkBytes, header.data_bytes - done));
    read(header.data_offset + done, chunk.data(), std::ssize(chunk));
    for (int64_t i = 0; i < std::ssize(chunk); i += element_bytes, walk.advance()) {
      std::memcpy(to + walk.offset() * element_bytes, chunk.data() + i, element_bytes);
    }
  }
}

Tensor load(const NpyHeader& header, const std::string& name, const Read& read) {
  Tensor tensor(header.dtype, header.shape);
  if (header.data_bytes == 0) return tensor;
  auto* data = static_cast<std::byte*>(tensor.view().data);
  if (header.fortran_order && header.shape.size() > 1) {
    read_fortran(header, read, data, tensor.view());
  } else {
    read(header.data_offset, data, header.data_bytes);
  }
  if (header.byte_order != std::endian::native) {
    swap_bytes(data, header.data_bytes, size_of(header.dtype));
  }
  if (header.dtype == DType::boolean) {  // a C++ bool of any other value is undefined behaviour
    const auto* bad = std::find_if(data, data + header.data_bytes,
                                   [](std::byte b) { return std::to_integer<int>(b) > 1; });
    if (bad != data + header.data_bytes) {
      fail(ErrorCode::format, name,
           "expected booleans of 0 or 1, got " + std::to_string(std::to_integer<int>(*bad)) +
               "; make it boolean with a != 0");
    }
  }
  return tensor;
}

}  // namespace

NpyHeader read_npy_header(const std::string& path) { return header_of(InputFile(path), path); }

Tensor read_npy(const std::string& path) {
  const InputFile file(path);
  const NpyHeader header = header_of(file, path);
  return load(header, path,
              [&](int64_t offset, std::byte* to, int64_t count) { file.read(offset, to, count); });
}

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name) {
  return parse_npy_prefix(file, std::ssize(file), name);
}

Tensor parse_npy(std::span<const std::byte> file, const std::string& name) {
  return load(parse_npy_header(file, name), name,
              [&](int64_t offset, std::byte* to, int64_t count) {
                std::memcpy(to, file.data() + offset, static_cast<size_t>(count));
              });
}

void write_npy(const std::string& path, const TensorView& view, Overwrite overwrite) {
  if (!view.defined()) {
    fail(ErrorCode::argument, path, "expected a tensor to write, got none");
  }
  const int64_t count = view.count(), element_bytes = size_of(view.dtype);
  if (view.data == nullptr && count > 0) {
    fail(ErrorCode::argument, path,
         "expected memory for shape " + to_string(view.dims()) + ", got a null pointer");
  }
  const std::string header = npy_header_for(view.dtype, view.dims());
  OutputFile file(path, overwrite);
  file.write(header.data(), std::ssize(header));
  const auto* data = static_cast<const std::byte*>(view.data);
  if (view.contiguous()) {
    file.write(data, count * element_bytes);
  } else {
    std::vector<int> last_fastest(static_cast<size_t>(view.rank));
    for (int d = 0; d < view.rank; ++d) last_fastest[d] = view.rank - 1 - d;
    Walk walk(view.dims(), {view.strides, static_cast<size_t>(view.rank)}, last_fastest);
    const int64_t chunk_elements = kChunkBytes / element_bytes;
    std::vector<std::byte> chunk(std::min(count, chunk_elements) * element_bytes);
    for (int64_t done = 0; done < count; done += chunk_elements) {
      const int64_t elements = std::min(chunk_elements, count - done);
      for (int64_t i = 0; i < elements; ++i, walk.advance()) {
        std::memcpy(chunk.data() + i * element_bytes, data + walk.offset() * element_bytes,
                    element_bytes);
      }
      file.write(chunk.data(), elements * element_bytes);
    }
  }
  file.commit();
}

}  // namespace rapt
