#pragma once
// operator new for memory tests: it counts allocations and fails on request.
#include <cstdint>

namespace failing_new {

int64_t allocations() noexcept;  // by this thread since it started

// While a Scope lives, every allocation of this thread throws std::bad_alloc.
class Scope {
 public:
  Scope() noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace failing_new
