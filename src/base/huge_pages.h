#pragma once
// Large memory in large pages of the system. A cache of keys in pages, and rows of many heads, are
// read in pieces of some KiB that lie apart: with pages of 4 KiB each piece costs a walk through
// the page tables. Linux gives pages of 2 MiB only to memory that asks for them, where its setting
// is "madvise". The advice has no effect on what the memory holds.
#include <cstddef>

namespace rapt {

// From this size on the pages at both ends, which may stay small or become too large, do not count.
inline constexpr size_t kLeastHugeBytes = size_t{16} << 20;

void advise_huge_pages(void* memory, size_t bytes) noexcept;

}  // namespace rapt
