#pragma once
// Structs of the caller, read as this version knows them; and tensors among them as views.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "rapt/rapt_c.h"
#include "rapt/tensor.h"

namespace rapt::c_api {

// What of a struct the first version had: the least that its size field may say. When a struct
// grows, the line here stays as it is.
template <class T>
struct FirstVersion;
#define RAPT_FIRST_VERSION(type, last_member)                                                \
  template <>                                                                                \
  struct FirstVersion<type> {                                                                \
    static constexpr const char* kName = #type;                                              \
    static constexpr size_t kSize = offsetof(type, last_member) + sizeof(type::last_member); \
  };
RAPT_FIRST_VERSION(rapt_tensor, strides)
RAPT_FIRST_VERSION(rapt_variant, tensors)
RAPT_FIRST_VERSION(rapt_weights_request, heads)
RAPT_FIRST_VERSION(rapt_map_request, heads)
RAPT_FIRST_VERSION(rapt_options, weights)
RAPT_FIRST_VERSION(rapt_results, weights)
RAPT_FIRST_VERSION(rapt_executor, run)
RAPT_FIRST_VERSION(rapt_context, memory_limit)
RAPT_FIRST_VERSION(rapt_plan_info, matrix_bytes)
RAPT_FIRST_VERSION(rapt_bf16_dot_info, speed)
#undef RAPT_FIRST_VERSION

// No struct will ever come near; a size beyond is a field that was not set, and reading that many
// bytes would crash.
inline constexpr size_t kLargestStruct = 4096;

[[noreturn, gnu::cold]] void null_struct(const char* type);
[[noreturn, gnu::cold]] void wrong_size(const char* type, size_t given, size_t expected);
// The bytes from `known` on must be 0. Throws Error(unsupported).
[[gnu::cold]] void check_unknown_part(const char* type, const void* given, size_t known,
                                      size_t size);
// Throws Error(argument).
void check_reserved(const char* type, int32_t reserved);

template <class T>
void check_size(const T* given) {
  if (!given) null_struct(FirstVersion<T>::kName);
  if (given->size < FirstVersion<T>::kSize || given->size > kLargestStruct)
    wrong_size(FirstVersion<T>::kName, given->size, sizeof(T));
}

// A copy of a caller's struct as this version knows it; what an older caller lacks is zero.
template <class T>
T known_part(const T* given) {
  check_size(given);
  if (given->size == sizeof(T)) return *given;
  if (given->size > sizeof(T))
    check_unknown_part(FirstVersion<T>::kName, given, sizeof(T), given->size);
  T copy = {};
  std::memcpy(&copy, given, given->size < sizeof(T) ? given->size : sizeof(T));
  return copy;
}

// Writes `info` to a struct of the caller, which may be of another version. Its size stays.
template <class T>
void write_struct(T info, T* out) {
  info.size = out->size;
  const size_t known = out->size < sizeof info ? out->size : sizeof info;
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  std::memset(bytes + known, 0, info.size - known);
  std::memcpy(bytes, &info, known);
}

// Throws Error(dtype) for a number that is none.
DType dtype_of(const char* name, rapt_dtype given);

// Reads a tensor into a view, of whose lengths and strides only [rank] are written.
// Throws Error(argument, dtype, shape, overflow, unsupported); a null pointer is an argument, too.
void read_view(const char* name, const rapt_tensor* given, TensorView& view);

// The same, but null leaves the view as it is: absent.
inline void read_if_given(const char* name, const rapt_tensor* given, TensorView& view) {
  if (given) read_view(name, given, view);
}

// A struct of nothing but views, none of them there yet, in memory that is not cleared: a view has
// 512 bytes of lengths and strides of which a call uses a few, and to clear those of all views
// would take as long as a small problem.
template <class T>
class Views {
 public:
  static constexpr size_t kCount = sizeof(T) / sizeof(TensorView);
  static_assert(sizeof(T) == kCount * sizeof(TensorView) && std::is_trivially_copyable_v<T>);

  Views() noexcept {
    for (size_t i = 0; i < kCount; ++i) {
      TensorView& view = reinterpret_cast<TensorView*>(memory_)[i];
      view.data = nullptr;
      view.dtype = DType::f32;
      view.device = Device::cpu;
      view.read_only = true;
      view.rank = -1;
    }
  }
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;

  T& operator*() noexcept { return reinterpret_cast<T&>(memory_); }
  T* operator->() noexcept { return &**this; }

 private:
  alignas(T) std::byte memory_[sizeof(T)];
};

}  // namespace rapt::c_api
