#pragma once
// Jobs that check how a pool runs them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "rapt/thread_pool.h"

namespace threads {

// Records how often each task ran, whether worker numbers were valid, and whether a worker number
// was used by two threads at once.
class Record {
 public:
  Record(int64_t tasks, int workers)
      : calls_(static_cast<size_t>(tasks)), at_work_(static_cast<size_t>(workers)) {}

  static void task(void* self, int64_t task, int worker) noexcept {
    static_cast<Record*>(self)->note(task, worker);
  }
  bool every_task_once() const {
    for (const auto& calls : calls_)
      if (calls != 1) return false;
    return true;
  }
  bool workers_are_right() const { return !wrong_worker_; }
  int64_t tasks() const { return static_cast<int64_t>(calls_.size()); }

 private:
  void note(int64_t task, int worker) noexcept {
    if (worker < 0 || static_cast<size_t>(worker) >= at_work_.size()) {
      wrong_worker_ = true;
      return;
    }
    std::atomic<int>& mine = at_work_[static_cast<size_t>(worker)];
    if (mine.fetch_add(1) != 0) wrong_worker_ = true;
    calls_[static_cast<size_t>(task)].fetch_add(1);
    if (task % 3 == 0) std::this_thread::yield();
    mine.fetch_sub(1);
  }

  std::vector<std::atomic<int>> calls_, at_work_;
  std::atomic<bool> wrong_worker_{false};
};

// Whether the pool runs each of `tasks` tasks once, on at most `workers` workers.
inline bool runs_rightly(rapt::ThreadPool& pool, int64_t tasks, int workers) {
  Record record(tasks, std::min(workers, pool.concurrency()));
  pool.run(tasks, Record::task, &record, workers);
  return record.every_task_once() && record.workers_are_right();
}

// A job whose tasks all wait until all have begun. It ends well only if each task has its own
// thread.
class Meeting {
 public:
  explicit Meeting(int tasks) : expected_(tasks) {}

  bool held_by(rapt::ThreadPool& pool) {
    pool.run(expected_, task, this);
    return !given_up_;
  }
  bool held_by(rapt::ThreadPool& pool, int workers) {
    pool.run(expected_, task, this, workers);
    return !given_up_;
  }
  static void task(void* self, int64_t, int) noexcept { static_cast<Meeting*>(self)->wait(); }

 private:
  void wait() noexcept {
    ++there_;
    // A busy machine needs far less; a longer wait means a deadlock.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (there_ < expected_ && !given_up_) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > end) given_up_ = true;
    }
  }

  const int expected_;
  std::atomic<int> there_{0};
  std::atomic<bool> given_up_{false};
};

// Runs `check` in a child process. Returns "" if it returned true, else a description of the
// failure. A child that hangs is ended by a signal.
template <class Check>
std::string wrong_in_child(const Check& check) {
  const pid_t child = fork();
  if (child < 0) return "no child";
  if (child == 0) {
    alarm(60);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "the child is lost";
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "wrong result";
}

}  // namespace threads
