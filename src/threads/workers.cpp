#include "threads/workers.h"

#include <algorithm>
#include <string>

#include "rapt/error.h"
#include "rapt/thread_pool.h"

namespace rapt {
namespace {

// Operations that pay for another thread: about 30 us of work on one core, as long as waking a
// thread takes.
constexpr double kWorkOfWorker = 6e6;

}  // namespace

double worthwhile_workers(double work) { return 1 + work * (1 / kWorkOfWorker); }

// Asks for the library's threads only where the work is worth one more, because making the pool
// allocates.
Workers workers_of(double work, const Context& context) {
  if (context.executor) {
    if (context.threads != 0)
      throw Error(ErrorCode::argument, "context.threads is " + std::to_string(context.threads) +
                                           " beside an executor, whose concurrency() says how "
                                           "many threads there are; expected 0");
    const int workers = context.executor->concurrency();
    if (workers < 1)
      throw Error(ErrorCode::argument, "the executor's concurrency is " + std::to_string(workers) +
                                           "; expected at least 1");
    return {workers, false};
  }
  if (context.threads < 0)
    throw Error(ErrorCode::argument,
                "context.threads is " + std::to_string(context.threads) + "; expected 0 or more");
  if (context.threads == 1 || worthwhile_workers(work) < 2) return {1, true};
  const int all = default_pool().concurrency();
  return {context.threads == 0 ? all : std::min(all, context.threads), true};
}

}  // namespace rapt
