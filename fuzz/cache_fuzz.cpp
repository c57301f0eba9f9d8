// Caches of keys and values: every byte is a choice of a program (check/cache/cache_program.h),
// whose changes are rejected with an Error or have the effect that the plain model has.
#include <cstddef>
#include <cstdint>

#include "check/cache/cache_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t at = 0;
  check::CacheProgram program(
      [&](int64_t count) { return at < size ? data[at++] % count : int64_t{0}; });
  while (at < size) program.step();
  return 0;
}
