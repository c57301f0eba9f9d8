#pragma once
// Cuts work that goes row by row into tasks.
#include <algorithm>
#include <cstdint>

#include "rapt/nn/run.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt::nn {

// Calls work(begin, end) for ranges of [0, count), on as many threads as `operations` of all pay
// for. The ranges must not influence the result. Throws Error(cancelled).
template <class Work>
void for_ranges(const Context& context, int64_t count, double operations, const Work& work) {
  if (count <= 0) return;
  const Workers available(operations, context);
  const int workers = available.worthwhile();
  constexpr int64_t kTasksPerWorker = 4;
  const int64_t tasks = workers > 1 ? std::min<int64_t>(count, kTasksPerWorker * workers) : 1;
  TaskRun(context, tasks).run(tasks, workers, available.to_executor(), [&](int64_t t, int) {
    work(t * count / tasks, (t + 1) * count / tasks);
  });
}

}  // namespace rapt::nn
