#pragma once
// Gaps between arrays in scratch. Arrays share one allocation, so AddressSanitizer alone sees no
// access that runs from one array into the next. In builds with it, bytes behind each array belong
// to no array, and an access to them is reported. Other builds have no gaps.
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define RAPT_SCRATCH_GAPS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RAPT_SCRATCH_GAPS 1
#endif
#endif

#ifdef RAPT_SCRATCH_GAPS
#include <sanitizer/asan_interface.h>
#endif

namespace rapt {

#ifdef RAPT_SCRATCH_GAPS
// Some vectors: code that runs too far seldom leaves out as many bytes.
inline constexpr size_t kScratchGap = 256;

// From now on an access to these bytes is reported.
inline void close_gap(std::byte* begin, size_t bytes) noexcept {
  __asan_poison_memory_region(begin, bytes);
}
// Memory whose gaps were closed is plain memory again.
inline void open_gaps(std::byte* begin, size_t bytes) noexcept {
  __asan_unpoison_memory_region(begin, bytes);
}
#else
inline constexpr size_t kScratchGap = 0;

inline void close_gap(std::byte*, size_t) noexcept {}
inline void open_gaps(std::byte*, size_t) noexcept {}
#endif

}  // namespace rapt
