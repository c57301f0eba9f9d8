// Replaces operator new for the whole test program (C++ standard, [new.delete]).
#include "failing_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool fails = false;
thread_local int64_t count = 0;

void* allocate(size_t bytes, size_t alignment) {
  ++count;
  // aligned_alloc needs a size that is a multiple of the alignment.
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = fails || rounded < bytes
                     ? nullptr
                     : std::aligned_alloc(alignment, rounded ? rounded : alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace failing_new {

int64_t allocations() noexcept { return count; }
Scope::Scope() noexcept { fails = true; }
Scope::~Scope() { fails = false; }

}  // namespace failing_new

void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
// The standard library's version would call operator new too, but the address sanitizer's does not.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
