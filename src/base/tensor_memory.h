#pragma once
// The memory that a view reaches: its addresses, alignment and overlaps, the checks of an output,
// zeros.
#include <cstdint>
#include <string>

#include "rapt/tensor.h"

namespace rapt {

struct Bytes {  // addresses [begin, end); empty: both 0, which overlaps nothing
  uintptr_t begin = 0, end = 0;
  bool meets(const Bytes& other) const noexcept { return begin < other.end && other.begin < end; }
};

// "name [2, 3]". Only for error messages: a call with the caller's memory allocates nothing.
std::string described(const char* name, const TensorView& view);

// Throws Error(shape) for a rank above kMaxRank.
[[noreturn, gnu::cold]] void fail_rank(const char* name, int rank);
inline void check_rank(const char* name, const TensorView& view) {
  if (view.rank > kMaxRank) fail_rank(name, view.rank);
}

// The addresses that a view reaches. Throws Error(overflow) if the offset of an element in bytes
// does not fit 64 bits.
Bytes extent_of(const char* name, const TensorView& view);

// overlaps_itself: can two indices of the view name the same element? overlap: do the address
// ranges of two views meet? The latter is true for views that interleave without a common element.
bool overlaps_itself(const TensorView& view);
bool overlap(const TensorView& a, const TensorView& b);

// Whether two views surely share no byte although their address ranges meet, because they are
// different columns of one matrix, such as the gradients of query, key and value in one tensor
// [length, query | key | value]. False: not known.
bool take_turns(const TensorView& a, const TensorView& b);

// Checks that the data pointer is aligned for the element type. Throws Error(argument).
void check_alignment(const char* name, const TensorView& view);

// Checks an output tensor and returns its addresses. Throws Error(shape, dtype, argument,
// overlap, overflow).
Bytes check_output_tensor(const char* name, const TensorView& view, Shape expected, DType dtype);

// Sets all elements to 0, whole rows at once where they are dense.
void set_to_zero(const TensorView& view) noexcept;

}  // namespace rapt
