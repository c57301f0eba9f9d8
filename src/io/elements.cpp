// Dense rows of any view, in chunks.
#include "io/elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "io/quoted.h"

namespace rapt {
namespace {

// Large enough that a system call per chunk costs nothing, small enough to stay in the L2 cache.
constexpr int64_t kChunkBytes = int64_t{1} << 18;

// A place in a view, advanced in row-major order.
class Walk {
 public:
  explicit Walk(const TensorView& view) : view_(view) {}
  int64_t offset() const { return offset_; }  // in elements
  void advance() {
    for (int d = view_.rank - 1; d >= 0; --d) {
      offset_ += view_.strides[d];
      if (++index_[d] < view_.shape[d]) return;
      offset_ -= view_.strides[d] * view_.shape[d];
      index_[d] = 0;
    }
  }

 private:
  const TensorView& view_;
  int64_t index_[kMaxRank] = {};
  int64_t offset_ = 0;
};

}  // namespace

void check_elements(const std::string& name, const TensorView& view) {
  if (!view.defined())
    throw Error(ErrorCode::argument, path_text(name) + ": expected a tensor to write, got none");
  if (view.data == nullptr && view.count() > 0)
    throw Error(ErrorCode::argument, path_text(name) + ": expected memory for shape " +
                                         to_string(view.dims()) + ", got a null pointer");
}

void write_elements(const WriteBytes& write, const TensorView& view, std::endian byte_order) {
  const int64_t count = view.count(), element_bytes = size_of(view.dtype);
  const auto* data = static_cast<const std::byte*>(view.data);
  const bool swapped = byte_order != std::endian::native && element_bytes > 1;
  if (view.contiguous() && !swapped) return write(data, count * element_bytes);
  Walk walk(view);
  const int64_t chunk_elements = kChunkBytes / element_bytes;
  std::vector<std::byte> chunk(
      static_cast<size_t>(std::min(count, chunk_elements) * element_bytes));
  for (int64_t done = 0; done < count; done += chunk_elements) {
    const int64_t elements = std::min(chunk_elements, count - done);
    for (int64_t i = 0; i < elements; ++i, walk.advance()) {
      std::byte* const to = chunk.data() + i * element_bytes;
      std::memcpy(to, data + walk.offset() * element_bytes, static_cast<size_t>(element_bytes));
      if (swapped) std::reverse(to, to + element_bytes);
    }
    write(chunk.data(), elements * element_bytes);
  }
}

}  // namespace rapt
