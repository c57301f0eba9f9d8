#pragma once
// Memory between two inaccessible pages: one element too far is a crash.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "check/tensors/arrays.h"

namespace laws {

enum class Edge : uint8_t { front, back };  // which guard page the memory touches

class Guarded {
 public:
  Guarded(size_t bytes, Edge edge) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    void* mapped = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(mapped);
    if (inner > 0 && mprotect(memory_ + page, inner, PROT_READ | PROT_WRITE) != 0)
      throw std::bad_alloc();
    data_ = memory_ + page + (edge == Edge::back ? inner - bytes : 0);
    // All bits set is NaN, so that an element that is read too early or never written is detected.
    if (bytes > 0) std::memset(data_, 0xff, bytes);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(memory_, size_); }

  std::byte* data() const { return data_; }
  // Sets the access to the bytes [begin, end), whole pages: PROT_NONE, PROT_READ, PROT_WRITE.
  void protect(size_t begin, size_t end, int access) const {
    if (mprotect(data_ + begin, end - begin, access) != 0) throw std::bad_alloc();
  }

 private:
  std::byte* memory_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A tensor in guarded memory.
class GuardedTensor {
 public:
  GuardedTensor(check::DType dtype, const check::Dims& dims, Edge edge)
      : memory_(static_cast<size_t>(rapt::element_count(dims) * rapt::size_of(dtype)), edge),
        view_(memory_.data(), dtype, dims, false) {}
  GuardedTensor(const check::TensorView& values, Edge edge)
      : GuardedTensor(values.dtype, check::Dims(values.dims().begin(), values.dims().end()), edge) {
    const check::Tensor dense = check::Tensor::copy_of(values);
    if (values.count() > 0)
      std::memcpy(memory_.data(), dense.view().data,
                  static_cast<size_t>(values.count() * rapt::size_of(values.dtype)));
  }
  const check::TensorView& view() const { return view_; }
  operator const check::TensorView&() const { return view_; }
  // Makes rows inaccessible, whole pages of them, counted over all leading dimensions.
  void forbid_rows(int64_t begin, int64_t end) const {
    const int64_t bytes = view_.shape[view_.rank - 1] * rapt::size_of(view_.dtype);
    memory_.protect(static_cast<size_t>(begin * bytes), static_cast<size_t>(end * bytes),
                    PROT_NONE);
  }

 private:
  Guarded memory_;
  check::TensorView view_;
};

}  // namespace laws
