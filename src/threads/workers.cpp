#include "threads/workers.h"

#include <string>

#include "rapt/error.h"
#include "rapt/thread_pool.h"

namespace rapt {
namespace {

// Operations that pay for another thread: about 30 us of work on one core, as long as waking a
// thread takes.
constexpr double kWorkOfWorker = 6e6;

// The fewest operations of a task. Fetching the next task costs about 100 ns, which 20 us of work
// hide.
constexpr double kWorkOfTask = 4e6;
constexpr int kTasksOfWorker = 4;

}  // namespace

// Asks for the library's threads only where the work is worth one more, because making the pool
// allocates.
Workers::Workers(double work, const Context& context)
    : work_(work), worth_(1 + work * (1 / kWorkOfWorker)) {
  if (context.executor) {
    if (context.threads != 0)
      throw Error(ErrorCode::argument, "context.threads is " + std::to_string(context.threads) +
                                           " beside an executor, whose concurrency() says how "
                                           "many threads there are; expected 0");
    most_ = context.executor->concurrency();
    if (most_ < 1)
      throw Error(ErrorCode::argument, "the executor's concurrency is " + std::to_string(most_) +
                                           "; expected at least 1");
    return;
  }
  if (context.threads < 0)
    throw Error(ErrorCode::argument,
                "context.threads is " + std::to_string(context.threads) + "; expected 0 or more");
  can_be_fewer_ = true;
  if (context.threads == 1 || !to_executor()) return;
  const int all = default_pool().concurrency();
  most_ = context.threads == 0 ? all : std::min(all, context.threads);
}

int64_t Workers::items_per_task(int64_t items, int workers) const noexcept {
  if (items <= 1) return 1;
  const double per_task = kWorkOfTask * static_cast<double>(items) / std::max(work_, 1.0);
  const int64_t most = std::max<int64_t>(1, items / (kTasksOfWorker * workers));
  return per_task < static_cast<double>(most) ? std::max<int64_t>(1, static_cast<int64_t>(per_task))
                                              : most;
}

}  // namespace rapt
