#pragma once
// Counts this process's heap allocations and lets a chosen one fail. Works by standing before
// glibc's malloc, which operator new calls too; not available under sanitizers, which do the same.
#include <cstdint>

#include "support/sanitizers.h"

#if RAPT_SANITIZED || !defined(__GLIBC__)
#define RAPT_ALLOCATION_HOOKS 0
#else
#define RAPT_ALLOCATION_HOOKS 1
#endif

namespace laws {

struct Allocations {
  int64_t made = 0;  // since counting began
  int64_t live = 0;  // made and not freed since
};

// Counts until stop_counting(); the allocation with index `fail_at` gets no memory.
void start_counting(int64_t fail_at = -1);
Allocations stop_counting();

}  // namespace laws
