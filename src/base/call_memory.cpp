#include "base/call_memory.h"

#include <algorithm>
#include <string>

#include "rapt/error.h"

namespace rapt {

size_t bytes_of(Shape lengths, DType dtype) {
  size_t bytes = static_cast<size_t>(size_of(dtype));
  for (const int64_t n : lengths)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(n), &bytes)) return SIZE_MAX;
  return bytes;
}

size_t add_or_max(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

void check_memory_limit(size_t needed, const Context& context, const char* hint) {
  if (context.memory_limit >= 0 && needed > static_cast<size_t>(context.memory_limit))
    throw Error(ErrorCode::memory_limit, "needs " + std::to_string(needed) +
                                             " bytes; the limit is " +
                                             std::to_string(context.memory_limit) + hint);
}

Workspace::Workspace(std::span<std::byte> memory, size_t needed)
    : memory_(memory.first(std::min(memory.size(), needed))) {
  if (memory.size() < needed)
    throw Error(ErrorCode::argument,
                "workspace of " + std::to_string(memory.size()) +
                    " bytes; workspace_bytes() asks for " + std::to_string(needed),
                "workspace");
}

}  // namespace rapt
