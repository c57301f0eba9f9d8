#pragma once
// Work on the elements of several arrays, numbered through from the first array to the last.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rapt/context.h"
#include "rapt/error.h"

namespace rapt::nn {

// Calls work(index, from, to) for the part [from, to) of each array that lies in [begin, end) of
// all. count(index): the elements of an array. Parts are cut at multiples of 64 elements: two tasks
// share no cache line, and the place of an element in its vector does not depend on the cut.
template <class Count, class Work>
void for_parts(size_t arrays, const Count& count, int64_t begin, int64_t end, const Work& work) {
  for (size_t index = 0; index < arrays && end > 0; ++index) {
    const int64_t n = count(index);
    const auto cut = [n](int64_t i) { return std::clamp<int64_t>((i + 63) / 64 * 64, 0, n); };
    if (const int64_t from = cut(begin), to = cut(end); from < to) work(index, from, to);
    begin -= n, end -= n;
  }
}

// The context of work that must not stop halfway: cancellation counts now or not at all. Throws
// Error(cancelled).
inline Context uninterrupted(const Context& context) {
  if (context.cancel && context.cancel->cancelled())
    throw Error(ErrorCode::cancelled, "cancelled by the caller; nothing has been written");
  Context whole = context;
  whole.cancel = nullptr;
  return whole;
}

}  // namespace rapt::nn
