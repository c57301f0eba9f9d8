#include <cstdlib>  // before the header: it says whether this is glibc

#include "memory/allocation_hooks.h"

#include <atomic>
#include <cerrno>

namespace laws {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> made{0}, live{0}, failing{-1};

}  // namespace

void start_counting(int64_t fail_at) {
  made = 0;
  live = 0;
  failing = fail_at;
  counting = true;
}

Allocations stop_counting() {
  counting = false;
  return {made, live};
}

#if RAPT_ALLOCATION_HOOKS

// False: this allocation must fail.
bool may_allocate() {
  if (!counting) return true;
  if (made.fetch_add(1) == failing) {
    errno = ENOMEM;
    return false;
  }
  live.fetch_add(1);
  return true;
}

void note_free(const void* memory) {
  if (counting && memory) live.fetch_sub(1);
}

#endif

}  // namespace laws

#if RAPT_ALLOCATION_HOOKS

extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t bytes) { return laws::may_allocate() ? __libc_malloc(bytes) : nullptr; }
void* calloc(size_t count, size_t bytes) {
  return laws::may_allocate() ? __libc_calloc(count, bytes) : nullptr;
}
void* realloc(void* memory, size_t bytes) {
  if (!laws::may_allocate()) return nullptr;
  laws::note_free(memory);
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return laws::may_allocate() ? __libc_memalign(alignment, bytes) : nullptr;
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
void free(void* memory) {
  laws::note_free(memory);
  __libc_free(memory);
}

}  // extern "C"

#endif
