// Checks of the caller's structs.
#include "c_api/descriptors.h"

#include <string>

#include "c_api/failures.h"
#include "rapt/version.h"

namespace rapt::c_api {

void null_struct(const char* type) {
  bad_argument(std::string("a null pointer where a ") + type + " is expected");
}

void wrong_size(const char* type, size_t given, size_t expected) {
  bad_argument(std::string("the size field of a ") + type + " is " + std::to_string(given) +
               "; set it to sizeof(" + type + "), which is " + std::to_string(expected));
}

void check_unknown_part(const char* type, const void* given, size_t known, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = known; i < size; ++i)
    if (bytes[i] != 0)
      throw Error(ErrorCode::unsupported, std::string("a ") + type + " of " + std::to_string(size) +
                                              " bytes uses what rapt " + version() +
                                              " does not have; update the library");
}

void check_reserved(const char* type, int32_t reserved) {
  if (reserved != 0)
    bad_argument(std::string("`reserved` of a ") + type + " is " + std::to_string(reserved) +
                 "; expected 0");
}

void wrong_dtype(const char* name, rapt_dtype given) {
  throw Error(ErrorCode::dtype, given == 0
                                    ? std::string(name) +
                                          " has no dtype: the field is 0; set it to RAPT_F32 "
                                          "or another one of rapt_c.h"
                                    : std::string(name) + " has dtype " + std::to_string(given) +
                                          "; expected one of the RAPT_F32, ... of rapt_c.h");
}

namespace {

void check_fields(const char* name, const rapt_tensor& t) {
  if (t.device != RAPT_CPU)
    throw Error(ErrorCode::unsupported, std::string(name) + " is on device " +
                                            std::to_string(t.device) + "; expected RAPT_CPU");
  if (t.rank < 0 || t.rank > kMaxRank)
    throw Error(ErrorCode::shape, std::string(name) + " has rank " + std::to_string(t.rank) +
                                      "; expected 0 to " + std::to_string(kMaxRank));
  if (t.rank > 0 && !t.shape)
    bad_argument(std::string(name) + " has rank " + std::to_string(t.rank) + " but a null shape");
}

}  // namespace

void read_view(const char* name, const rapt_tensor* given, TensorView& view) {
  if (!given) bad_argument(std::string(name) + " is a null pointer");
  const Known<rapt_tensor> t(given);
  view.dtype = dtype_of(name, t->dtype);
  check_fields(name, *t);
  view.data = t->data;
  view.device = Device::cpu;
  view.read_only = t->read_only != 0;
  view.rank = t->rank;
  for (int i = 0; i < t->rank; ++i) view.shape[i] = t->shape[i];
  if (t->strides) {
    for (int i = 0; i < t->rank; ++i) view.strides[i] = t->strides[i];
    element_count(view.dims());
    return;
  }
  int64_t count = 1;
  for (int i = t->rank - 1; i >= 0; --i) {
    view.strides[i] = count;
    // 16 bytes, as in element_count(), which throws the error for this, and for lengths of 0.
    if (view.shape[i] <= 0 || __builtin_mul_overflow(count, view.shape[i], &count) ||
        count > INT64_MAX / 16) {
      view = TensorView(t->data, view.dtype, view.dims(), view.read_only);
      return;
    }
  }
}

}  // namespace rapt::c_api
