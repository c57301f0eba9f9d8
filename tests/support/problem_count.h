#pragma once
// The number of problems that a law draws, their seed, and the number of distinct ones.
#include <cstddef>
#include <cstdint>

#include "check/compare/case.h"

namespace laws {

using namespace check;

// A case that counts its descriptor.
class Case : public check::Case {
 public:
  explicit Case(Descriptor descriptor);
};

// The number of problems that a test draws: `standard` in an optimised build, fewer under a
// sanitizer or without optimisation. RAPT_TEST_PERCENT overrides it.
int problem_count(int standard);

// The seed of every generator, printed at the start. RAPT_TEST_SEED overrides it.
uint64_t base_seed();

// The number of distinct descriptors that this process has made into a Case.
size_t distinct_problems();

}  // namespace laws
