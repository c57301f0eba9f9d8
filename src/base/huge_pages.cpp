#include "base/huge_pages.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace rapt {

void advise_huge_pages(void* memory, size_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = -reinterpret_cast<uintptr_t>(memory) & (page - 1);
  if (bytes < before + page) return;
  // A kernel without such pages refuses, and the memory stays as it is.
  (void)madvise(static_cast<char*>(memory) + before, (bytes - before) & -page, MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace rapt
