#pragma once
// Runs the tasks of a call on the executor, the library's pool or the calling thread, and reports
// progress.
#include <algorithm>
#include <mutex>

#include "rapt/context.h"
#include "rapt/error.h"
#include "rapt/thread_pool.h"

namespace rapt {

class TaskRun {
 public:
  // `most_tasks`: the number of tasks of all run() together, for the progress report.
  TaskRun(const Context& context, int64_t most_tasks)
      : context_(context), most_tasks_(most_tasks) {}

  // Calls work(task, worker) for every task, on at most `workers` threads at once. `to_executor`:
  // is there enough work for a caller's executor? Throws Error(cancelled).
  template <class Work>
  void run(int64_t tasks, int workers, bool to_executor, const Work& work) {
    struct Job {
      TaskRun& run;
      const Work& work;
    } job{*this, work};
    const auto task = [](void* argument, int64_t t, int worker) noexcept {
      Job& j = *static_cast<Job*>(argument);
      if (j.run.cancelled()) return;
      j.work(t, worker);
      j.run.report();
    };
    if (context_.executor && to_executor && tasks > 0) {
      context_.executor->run(tasks, task, &job);
    } else if (!context_.executor && workers > 1 && tasks > 1) {
      default_pool().run(tasks, task, &job, workers);
    } else {
      for (int64_t t = 0; t < tasks; ++t) task(&job, t, 0);
    }
    if (cancelled())
      throw Error(ErrorCode::cancelled, "cancelled by the caller; the outputs are not valid");
  }

 private:
  bool cancelled() const noexcept { return context_.cancel && context_.cancel->cancelled(); }
  void report() noexcept {
    if (!context_.progress.report) return;
    const std::lock_guard lock(mutex_);
    context_.progress.report(context_.progress.user,
                             static_cast<double>(++ended_) / static_cast<double>(most_tasks_));
  }

  const Context& context_;
  int64_t most_tasks_, ended_ = 0;
  std::mutex mutex_;  // guards ended_ and the report
};

}  // namespace rapt
