#pragma once
// The threads of a pool in one process, and the jobs that they help with. A job is a call of run().
//
// No lock anywhere: a fork() can come at any moment, and a caller never waits for a thread that
// happens not to be running. All memory lives as long as the crew.
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "rapt/context.h"
#include "threads/counts.h"
#include "threads/cpu_mask.h"

namespace rapt {

class Crew {
 public:
  // At most `width` threads run tasks, callers included. Threads are confined to `cpus`.
  Crew(int width, CpuMask cpus);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // False in a child of the process that made the crew: its threads do not exist there.
  bool of_this_process() const noexcept;

  // 2 <= workers <= width. Returns false, with nothing done, if too many jobs run at once.
  bool run(int64_t tasks, Executor::Task task, void* argument, int workers) noexcept;

  int started_threads() const noexcept { return started_.load(); }

  Crew* before_fork = nullptr;  // the crew of the parent process, which this one replaced; owned

 private:
  // Jobs beyond run without help. More callers than that leave no CPU idle on most machines.
  static constexpr int kMostJobs = 64;
  // What is written by different threads lies in different cache lines.
  static constexpr size_t kLine = 64;

  // The place of a job. Its door, one atomic word, decides whether a helper may join:
  //   free seats << 16 | caller sleeps << 15 | open << 14 | helpers inside
  struct alignas(kLine) Job {
    std::atomic<bool> taken{false};
    Executor::Task task = nullptr;
    void* argument = nullptr;
    int64_t tasks = 0;
    std::atomic<uint64_t>* free_workers = nullptr;  // a bit each; at least one per free seat
    alignas(kLine) std::atomic<uint32_t> door{0};
    alignas(kLine) std::atomic<int64_t> next{0};  // the first task that is not taken yet
  };

  struct Helper {
    Crew* crew;
    int number;
    pthread_t thread;
    Helper* started_before;
  };

  Job* take_place() noexcept;
  void fill_seats(Job& job, int workers) const noexcept;
  void wait_for_helpers(Job& job) const noexcept;
  static int64_t close(Job& job) noexcept;

  void start_threads() noexcept;
  bool start_thread() noexcept;
  void wake_some() noexcept;

  static void* main_of(void* helper) noexcept;
  void help() noexcept;
  bool help_somebody() noexcept;
  bool take_tasks(Job& job, int worker) noexcept;
  void give_back_seat(Job& job, int worker) noexcept;
  bool sleep() noexcept;
  Job* most_lonely_job(uint32_t& door) noexcept;

  template <class Condition>
  bool spin_until(const Condition& condition, int64_t spin_nanoseconds) const noexcept;

  const int width_;
  const CpuMask cpus_;
  const bool spins_;
  const int words_;       // of bits, one bit per worker
  const uint32_t forks_;  // before this crew was made
  std::atomic<bool> ending_{false};
  std::atomic<bool> refused_{false};  // a thread by the system
  std::atomic<int> started_{0};
  std::atomic<Helper*> helpers_{nullptr};
  std::atomic<int> places_used_{0};  // the jobs after these have never been taken
  alignas(kLine) AtomicCounts counts_;
  alignas(kLine) std::atomic<uint32_t> wakes_{
      0};  // calls to sleeping helpers that none has followed yet
  const std::unique_ptr<std::atomic<uint64_t>[]> free_workers_;  // [kMostJobs, words]
  Job jobs_[kMostJobs];
};

}  // namespace rapt
