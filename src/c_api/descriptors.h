#pragma once
// Structs of the caller, read as this version knows them; and tensors among them as views.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rapt/rapt_c.h"
#include "rapt/tensor.h"

namespace rapt::c_api {

// What of a struct the first version had: the least that its size field may say. When a struct
// grows, the line here stays as it is.
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

// A caller's struct as this version knows it: the struct itself, or, of a caller with another
// version, a copy, in which what an older one lacks is zero.
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

// Writes `info` to a struct of the caller, which may be of another version. Its size stays.
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
// Throws Error(dtype) for a number that is none.
[[noreturn, gnu::cold]] void wrong_dtype(const char* name, rapt_dtype given);
inline DType dtype_of(const char* name, rapt_dtype given) {
  if (given < RAPT_F32 || given > RAPT_BOOL) wrong_dtype(name, given);
  return static_cast<DType>(given - RAPT_F32);
}

// Reads a tensor into a view, of whose lengths and strides only [rank] are written.
// Throws Error(argument, dtype, shape, overflow, unsupported); a null pointer is an argument, too.
void read_view(const char* name, const rapt_tensor* given, TensorView& view);

// The same, but null leaves the view as it is: absent.
inline void read_if_given(const char* name, const rapt_tensor* given, TensorView& view) {
  if (given) read_view(name, given, view);
}

}  // namespace rapt::c_api
