#pragma once
// The number of threads that may work on a call.
#include "rapt/context.h"

namespace rapt {

// The workers of an executor.
struct Workers {
  int most = 1;
  bool can_be_fewer = false;  // can a run use some of them? Otherwise it uses all or one.
};

// The number of threads that so many multiplications and additions pay for.
double worthwhile_workers(double work);

// The threads that may work on a call of `work` operations. Throws Error(argument).
Workers workers_of(double work, const Context& context);

}  // namespace rapt
