#pragma once
// Runs a pass over the keys of a call before its first query tile. Such a pass reports no progress,
// because reports count the tasks of the main passes only.
#include "attention/plan/forward_call.h"
#include "threads/task_run.h"

namespace rapt {

// Calls work(task, scratch of the worker) for all tasks. Throws Error(cancelled).
template <class E, class Work>
void run_key_pass(const ForwardCall<E>& call, const RepeatedMemory& workers, const Context& context,
                  int64_t tasks, const Work& work) {
  Context quiet = context;
  quiet.progress = {};
  TaskRun run(quiet, 0);
  run.run(
      tasks, call.tiling.workers, call.tiling.to_executor,
      [&](int64_t task, int worker) noexcept { work(task, workers.nth(call.workspace, worker)); });
}

}  // namespace rapt
