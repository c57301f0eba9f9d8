#pragma once
// Tensors of masks with values per batch. Their leading dimensions are aligned with the FIRST
// leading dimensions of the output, each equal or 1, so that [B] serves [B, H, n, d] as well as [B,
// n, d]. They may end in dimensions of their own, such as [B, k_len]. Lists in them that rise
// strictly are searched by halves.
#include <string>

#include "rapt/declaration.h"
#include "rapt/positions.h"

namespace rapt {

// Checks presence, dtype int64, leading dimensions and that there is memory. The mask checks the
// last `own` dimensions itself. `what` names mask and tensor: "mask lengths: lengths". It becomes a
// string for a message only, because a call with the caller's memory allocates nothing.
inline void check_per_batch(const char* what, const TensorView& tensor, Shape leading,
                            int own = 0) {
  if (!tensor.defined())
    throw Error(ErrorCode::argument, std::string(what) + ": no tensor was given");
  if (tensor.dtype != DType::i64)
    throw Error(ErrorCode::dtype,
                std::string(what) + ": expected i64, got " + name_of(tensor.dtype));
  if (tensor.rank < own)
    throw Error(ErrorCode::shape, std::string(what) + ": shape " + to_string(tensor.dims()) +
                                      "; expected at least " + std::to_string(own) + " dimension");
  const int rank = tensor.rank - own;
  bool fits = rank <= static_cast<int>(leading.size());
  for (int i = 0; fits && i < rank; ++i)
    fits = tensor.shape[i] == 1 || tensor.shape[i] == leading[static_cast<size_t>(i)];
  if (!fits)
    throw Error(ErrorCode::shape, std::string(what) + ": shape " + to_string(tensor.dims()) +
                                      " does not fit the first leading dimensions " +
                                      to_string(leading) + "; each must be equal or 1");
  if (tensor.count() > 0 && !tensor.data)
    throw Error(ErrorCode::argument, std::string(what) + ": null pointer");
}

// The offset, in elements, of the part of the tensor that belongs to `head`.
inline int64_t offset_of(const TensorView& tensor, const Head& head, int own = 0) noexcept {
  int64_t at = 0;
  for (int i = 0; i < tensor.rank - own; ++i)
    if (tensor.shape[i] != 1) at += head.index[i] * tensor.strides[i];
  return at;
}

// Calls visit(element) for every element of an int64 tensor.
template <class Visit>
void for_each_of(const TensorView& tensor, Visit&& visit, int dim = 0, int64_t at = 0) {
  if (dim == tensor.rank) {
    visit(static_cast<const int64_t*>(tensor.data)[at]);
    return;
  }
  for (int64_t i = 0; i < tensor.shape[dim]; ++i)
    for_each_of(tensor, visit, dim + 1, at + i * tensor.strides[dim]);
}

// The first n of [begin, end) for which before(n) is false, where it is true for all below and
// false for all above; `end` if it is always true.
template <class Before>
int64_t first_behind(int64_t begin, int64_t end, const Before& before) noexcept {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (before(middle))
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// The first place of [begin, end) whose number is at least x.
template <class List>
int64_t place_of(const List& list, int64_t begin, int64_t end, int64_t x) noexcept {
  return first_behind(begin, end, [&](int64_t n) { return list[n] < x; });
}

// Where the numbers that follow each other from list[at] on end: list[n] - n never falls.
template <class List>
int64_t end_of_run(const List& list, int64_t at, int64_t end) noexcept {
  return first_behind(at, end, [&](int64_t n) { return list[n] - n == list[at] - at; });
}

}  // namespace rapt
