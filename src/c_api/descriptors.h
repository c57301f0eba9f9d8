#pragma once
// Reads the caller's structs, whichever version of the library they are from; and their tensors as
// views.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rapt/rapt_c.h"
#include "rapt/rapt_cache_c.h"
#include "rapt/tensor.h"

namespace rapt::c_api {

// The size of a struct in the first version: the smallest value of its size field. When a struct
// grows, its line here does not change.
template <class T>
struct FirstVersion;
#define RAPT_FIRST_VERSION(type, last_member)                              \
  template <>                                                              \
  struct FirstVersion<type> {                                              \
    static constexpr const char* kName = #type;                            \
    static constexpr size_t kSize =                                        \
        offsetof(type, last_member) + sizeof(decltype(type::last_member)); \
  };
RAPT_FIRST_VERSION(rapt_tensor, strides)
RAPT_FIRST_VERSION(rapt_variant, tensors)
RAPT_FIRST_VERSION(rapt_weights_request, heads)
RAPT_FIRST_VERSION(rapt_map_request, heads)
RAPT_FIRST_VERSION(rapt_options, weights)
RAPT_FIRST_VERSION(rapt_results, weights)
RAPT_FIRST_VERSION(rapt_backward_inputs, d_weights)
RAPT_FIRST_VERSION(rapt_gradients, reserved)
RAPT_FIRST_VERSION(rapt_executor, run)
RAPT_FIRST_VERSION(rapt_context, memory_limit)
RAPT_FIRST_VERSION(rapt_plan_info, matrix_bytes)
RAPT_FIRST_VERSION(rapt_bf16_dot_info, speed)
RAPT_FIRST_VERSION(rapt_cache_options, pages)
#undef RAPT_FIRST_VERSION

// No struct will ever be this large. A larger size is a field that was not set, and reading that
// many bytes would crash.
inline constexpr size_t kLargestStruct = 4096;

[[noreturn, gnu::cold]] void null_struct(const char* type);
[[noreturn, gnu::cold]] void wrong_size(const char* type, size_t given, size_t expected);
// Checks that the bytes from `known` on are 0. Throws Error(unsupported).
[[gnu::cold]] void check_unknown_part(const char* type, const void* given, size_t known,
                                      size_t size);
// Checks that a reserved member is 0. Throws Error(argument).
void check_reserved(const char* type, int32_t reserved);

template <class T>
void check_size(const T* given) {
  if (!given) null_struct(FirstVersion<T>::kName);
  if (given->size < FirstVersion<T>::kSize || given->size > kLargestStruct)
    wrong_size(FirstVersion<T>::kName, given->size, sizeof(T));
}

// A caller's struct in the form of this version: the struct itself or, if it is of another version,
// a copy in which members that the caller's version lacks are zero.
template <class T>
class Known {
 public:
  explicit Known(const T* given) : known_(given) {
    check_size(given);
    if (given->size != sizeof(T)) copy(given);
  }
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;

  const T& operator*() const noexcept { return *known_; }
  const T* operator->() const noexcept { return known_; }

 private:
  [[gnu::cold]] void copy(const T* given) {
    if (given->size > sizeof(T))
      check_unknown_part(FirstVersion<T>::kName, given, sizeof(T), given->size);
    copy_ = {};
    std::memcpy(&copy_, given, given->size < sizeof(T) ? given->size : sizeof(T));
    known_ = &copy_;
  }

  const T* known_;
  T copy_;
};

// Writes `info` to a struct of the caller, which may be of another version. Its size member does
// not change.
template <class T>
void write_struct(T info, T* out) {
  info.size = out->size;
  const size_t known = out->size < sizeof info ? out->size : sizeof info;
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  std::memset(bytes + known, 0, info.size - known);
  std::memcpy(bytes, &info, known);
}

constexpr bool follows(rapt_dtype number, DType dtype) {
  return number == RAPT_F32 + static_cast<int>(dtype);
}
static_assert(follows(RAPT_F32, DType::f32) && follows(RAPT_F64, DType::f64) &&
              follows(RAPT_BF16, DType::bf16) && follows(RAPT_F16, DType::f16) &&
              follows(RAPT_I64, DType::i64) && follows(RAPT_I32, DType::i32) &&
              follows(RAPT_U8, DType::u8) && follows(RAPT_BOOL, DType::boolean));
// Throws Error(dtype) for a number that is no dtype.
[[noreturn, gnu::cold]] void wrong_dtype(const char* name, rapt_dtype given);
inline DType dtype_of(const char* name, rapt_dtype given) {
  if (given < RAPT_F32 || given > RAPT_BOOL) wrong_dtype(name, given);
  return static_cast<DType>(given - RAPT_F32);
}

// Reads a tensor into a view. Only [rank] lengths and strides are written. Throws Error(argument,
// dtype, shape, overflow, unsupported); also Error(argument) for a null pointer.
void read_view(const char* name, const rapt_tensor* given, TensorView& view);

// The same; for a null pointer the view stays absent.
inline void read_if_given(const char* name, const rapt_tensor* given, TensorView& view) {
  if (given) read_view(name, given, view);
}

}  // namespace rapt::c_api
