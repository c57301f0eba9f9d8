#pragma once
// operator new as the tests of memory need it: counted, and failing on demand.
#include <cstdint>

namespace failing_new {

int64_t allocations() noexcept;  // of this thread since it started

// While one lives, every allocation of this thread throws std::bad_alloc.
class Scope {
 public:
  Scope() noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace failing_new
