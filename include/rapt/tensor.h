#pragma once
// Tensors: a TensorView refers to memory that it does not own, a Tensor owns its memory.
//
// Sizes and strides are 64-bit and count elements, not bytes. Dimension 0 is the outermost. A view
// has the fields of DLPack, so memory of other libraries needs no copy. (DLPack's byte offset is
// part of the pointer here, and there is no device index yet.)
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "rapt/error.h"
#include "rapt/float16.h"

namespace rapt {

enum class DType : uint8_t { f32, f64, bf16, f16, i64, i32, u8, boolean };
enum class Device : uint8_t { cpu };

// Bytes per element.
[[gnu::always_inline]] constexpr int64_t size_of(DType dtype) noexcept {
  constexpr uint8_t kSizes[] = {4, 8, 2, 2, 8, 4, 1, 1};
  return static_cast<unsigned>(dtype) < sizeof kSizes ? kSizes[static_cast<unsigned>(dtype)] : 0;
}
const char* name_of(DType dtype) noexcept;  // "f32", "bool", ...

// The dtype of a C++ element type.
template <class T>
constexpr DType dtype_of() {
  using E = std::remove_const_t<T>;
  if constexpr (std::is_same_v<E, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<E, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<E, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<E, Float16>)
    return DType::f16;
  else if constexpr (std::is_same_v<E, int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<E, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<E, uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<E, bool>)
    return DType::boolean;
  else
    static_assert(sizeof(E) == 0, "rapt has no dtype for this element type");
}

using Shape = std::span<const int64_t>;

// The number of elements of a shape. Throws Error(overflow) if elements of 16 bytes would take more
// than 2^63 - 1 bytes, and Error(shape) for a negative length.
int64_t element_count(Shape shape);

// "[2, 8, 1024, 64]", for messages.
std::string to_string(Shape shape);

// The largest rank of a view, as in NumPy 1.x.
inline constexpr int kMaxRank = 32;

// A view of memory as a tensor, without ownership. Strides of inputs may be 0 (a repeated
// dimension) or negative; attention.h says what outputs need. A view with rank < 0 is absent.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device = Device::cpu;
  bool read_only = true;  // writing through this view is an error
  int rank = -1;          // -1: no tensor at all
  // [rank] lengths, and strides in elements. Elements from `rank` on are neither initialised nor
  // copied: copying half a kilobyte takes as long as a small problem. Code that fills in a view by
  // hand sets both.
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank];

  TensorView() noexcept {}
  TensorView(const TensorView& other) noexcept { *this = other; }
  TensorView& operator=(const TensorView& other) noexcept {
    if (this == &other) return *this;
    data = other.data, dtype = other.dtype, device = other.device, read_only = other.read_only;
    rank = other.rank;
    for (int i = 0; i < rank && i < kMaxRank; ++i)
      shape[i] = other.shape[i], strides[i] = other.strides[i];
    return *this;
  }

  // A dense row-major view. Throws Error(shape, overflow).
  TensorView(void* memory, DType element, Shape lengths, bool is_read_only);
  TensorView(void* memory, DType element, Shape lengths, Shape steps, bool is_read_only);

  template <class T>
  TensorView(T* memory, std::initializer_list<int64_t> lengths)
      : TensorView(const_cast<std::remove_const_t<T>*>(memory), dtype_of<T>(),
                   Shape(lengths.begin(), lengths.size()), std::is_const_v<T>) {}
  template <class T>
  TensorView(T* memory, std::initializer_list<int64_t> lengths,
             std::initializer_list<int64_t> steps)
      : TensorView(const_cast<std::remove_const_t<T>*>(memory), dtype_of<T>(),
                   Shape(lengths.begin(), lengths.size()), Shape(steps.begin(), steps.size()),
                   std::is_const_v<T>) {}

  // Inlined also into hooks, which are compiled for one instruction set (positions.h).
  [[gnu::always_inline]] bool defined() const noexcept { return rank >= 0; }
  // At most kMaxRank lengths; calls reject views of a larger rank.
  Shape dims() const noexcept {
    return {shape, static_cast<size_t>(rank < 0 ? 0 : rank > kMaxRank ? kMaxRank : rank)};
  }
  int64_t count() const { return defined() ? element_count(dims()) : 0; }
  bool empty() const noexcept {  // no element, or no tensor at all
    for (int i = 0; i < rank && i < kMaxRank; ++i)
      if (shape[i] == 0) return true;
    return rank < 0;
  }
  bool contiguous() const noexcept;  // dense and row-major

  // The same memory with two dimensions exchanged; negative dimensions count from the end.
  // Throws Error(shape).
  TensorView transposed(int a = -2, int b = -1) const;
  // The part [begin, end) of one dimension. Throws Error(shape).
  TensorView slice(int dim, int64_t begin, int64_t end) const;
};

// A dense row-major tensor that owns its memory, 64-byte aligned (a cache line, a zmm register).
// A view of it must not outlive it, so a view of a temporary is for the argument of a call only.
class Tensor {
 public:
  Tensor() = default;
  // A tensor with uninitialised elements. Throws Error(shape, overflow), std::bad_alloc.
  Tensor(DType dtype, Shape shape);
  Tensor(DType dtype, std::initializer_list<int64_t> shape)
      : Tensor(dtype, Shape(shape.begin(), shape.size())) {}
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;

  // A dense copy of a view, whatever its strides. Throws Error(argument) for an absent view or a
  // null pointer with elements, Error(shape, overflow), std::bad_alloc.
  static Tensor copy_of(const TensorView& view);

  bool defined() const noexcept { return view_.defined(); }
  DType dtype() const noexcept { return view_.dtype; }
  int rank() const noexcept { return view_.rank; }
  Shape dims() const noexcept { return view_.dims(); }
  // The length of one dimension, from the end if negative. Throws Error(shape).
  int64_t dim(int i) const;
  int64_t count() const { return view_.count(); }

  // The elements. Throws Error(dtype) when T is not the tensor's element type.
  template <class T>
  std::span<T> values() & {
    require(dtype_of<T>());
    return {static_cast<T*>(view_.data), static_cast<size_t>(count())};
  }
  template <class T>
  std::span<const T> values() const& {
    require(dtype_of<T>());
    return {static_cast<const T*>(view_.data), static_cast<size_t>(count())};
  }
  template <class T>
  void values() && = delete;  // the elements would dangle after the statement
  void* data() noexcept { return view_.data; }
  const void* data() const noexcept { return view_.data; }

  // Writable from a Tensor, read-only from a const Tensor.
  TensorView view() { return view_; }
  TensorView view() const;
  operator TensorView() { return view_; }
  operator TensorView() const { return view(); }

 private:
  void require(DType dtype) const;
  struct Free {
    void operator()(void* p) const noexcept;
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
};

// A Tensor that is a temporary. Types that keep views, such as masks, do not accept it.
template <class T>
concept TemporaryTensor = std::is_same_v<std::remove_const_t<T>, Tensor>;  // T& for lasting ones
template <class T, class Other>
concept TemporaryBeside = TemporaryTensor<T> || TemporaryTensor<Other>;

}  // namespace rapt
