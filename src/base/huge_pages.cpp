#include "base/huge_pages.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace rapt {

void advise_huge_pages(void* memory, size_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) & -page;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) & -page;
  // A kernel without such pages refuses, and the memory stays as it is.
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace rapt
