#include "cache/check_tensor.h"

#include <string>

#include "base/check_argument.h"

namespace rapt {

void check_present(const char* name, const TensorView& view) {
  if (!view.defined()) fail(ErrorCode::argument, name, std::string(name) + " is missing");
  check_rank(name, view);
  check_argument(name, [&] { element_count(view.dims()); });
  if (!view.empty() && !view.data)
    fail(ErrorCode::argument, name,
         described(name, view) + " has elements but a null data pointer");
  check_alignment(name, view);
}

namespace {

// "[2, 8, n, 64]"
std::string text_of(std::initializer_list<int64_t> lengths) {
  std::string text;
  for (const int64_t length : lengths)
    text += (text.empty() ? "[" : ", ") + (length == kAnyRows ? "n" : std::to_string(length));
  return text + "]";
}

void check_lengths(const char* name, const TensorView& view,
                   std::initializer_list<int64_t> expected) {
  bool fits = view.rank == static_cast<int>(expected.size());
  for (int i = 0; fits && i < view.rank; ++i) {
    const int64_t length = expected.begin()[i];
    fits = length == kAnyRows || view.shape[i] == length;
  }
  if (!fits)
    fail(ErrorCode::shape, name, described(name, view) + "; expected " + text_of(expected));
}

}  // namespace

void check_rows(const char* name, const TensorView& view, std::initializer_list<int64_t> expected,
                DType dtype) {
  check_present(name, view);
  if (view.dtype != dtype)
    fail(ErrorCode::dtype, name,
         std::string(name) + " is " + name_of(view.dtype) + ", the cache is " + name_of(dtype) +
             "; expected one dtype");
  check_lengths(name, view, expected);
}

void check_integers(const char* name, const TensorView& view, int64_t length) {
  check_present(name, view);
  if (view.dtype != DType::i64)
    fail(ErrorCode::dtype, name,
         std::string(name) + " are " + name_of(view.dtype) + "; expected i64");
  check_lengths(name, view, {length});
}

}  // namespace rapt
