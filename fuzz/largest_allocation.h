#pragma once
// Records the largest single allocation, by hooks of the sanitizer's allocator: no allocation may
// follow from a number in a file alone.
#include <algorithm>
#include <cstddef>
#include <cstdlib>

// Declared in sanitizer/allocator_interface.h, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*,
                                                                           size_t),
                                                         void (*freed)(const volatile void*));

namespace rapt::fuzz {

inline size_t largest_allocation = 0;  // since begin_watching()

inline void begin_watching() {
  [[maybe_unused]] static const bool installed = [] {
    const auto allocated = [](const volatile void*, size_t bytes) {
      largest_allocation = std::max(largest_allocation, bytes);
    };
    if (__sanitizer_install_malloc_and_free_hooks(allocated, [](const volatile void*) {}) == 0)
      std::abort();
    return true;
  }();
  largest_allocation = 0;
}

}  // namespace rapt::fuzz
