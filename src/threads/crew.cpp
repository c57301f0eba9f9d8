// No helper sleeps while there is work for it. A caller first publishes its work (open door,
// counts) and then looks for sleeping helpers. A helper first enters itself among the idle and then
// looks for work. These operations are sequentially consistent, so at least one of the two sees the
// other. A caller that wakes a helper removes it from the idle in the same step, so that two
// callers do not count on one helper.
//
// No thread is pinned to a CPU or NUMA node. The pool knows neither where the caller's tensors are
// nor which other pools and processes share the machine; the scheduler does.
#include "threads/crew.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <new>
#include <utility>

namespace rapt {
namespace {

constexpr uint32_t kSeat = 1 << 16, kCallerSleeps = 1 << 15, kOpen = 1 << 14, kInside = kOpen - 1;

// How long a thread spins before it sleeps, in nanoseconds. A sleeping helper begins about 30
// microseconds after the call, and waking it costs the caller 4 (bench_threads on 2 virtual CPUs of
// an AMD EPYC); a spinning one begins after 0.6.
// A helper spins through the 1 to 2 microseconds between two small calls; not longer, because
// between calls the CPUs belong to the host.
constexpr int64_t kHelperSpins = 5000;
// A caller spins as long as being woken would take, because it has nothing else to do.
constexpr int64_t kCallerSpins = 30000;

uint32_t seats(uint32_t door) { return door / kSeat; }
uint32_t inside(uint32_t door) { return door & kInside; }

// Counts forks: it grows in each child while that has a single thread.
std::atomic<uint32_t> forks{0};
[[maybe_unused]] const int watching_forks =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

// The crew whose task this thread runs.
thread_local const void* at_work_for = nullptr;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

}  // namespace

Crew::Crew(int width, CpuMask cpus)
    : width_(width),
      cpus_(std::move(cpus)),
      // Spinning on the CPU that the other thread needs would delay it.
      spins_(cpus_.count() > 1 && width <= cpus_.count()),
      words_((width + 63) / 64),
      forks_(forks.load()),
      free_workers_(new std::atomic<uint64_t>[static_cast<size_t>(kMostJobs * words_)]) {
  for (int i = 0; i < kMostJobs; ++i) jobs_[i].free_workers = &free_workers_[i * words_];
}

Crew::~Crew() {
  const bool joinable = of_this_process();
  if (joinable) {
    ending_.store(true);
    wakes_.fetch_add(static_cast<uint32_t>(started_.load()));
    wakes_.notify_all();
  }
  for (Helper* helper = helpers_.load(); helper;) {
    if (joinable) pthread_join(helper->thread, nullptr);
    delete std::exchange(helper, helper->started_before);
  }
  delete before_fork;
}

bool Crew::of_this_process() const noexcept { return forks_ == forks.load(); }

bool Crew::run(int64_t tasks, Executor::Task task, void* argument, int workers) noexcept {
  Job* job = take_place();
  if (!job) return false;
  job->task = task, job->argument = argument, job->tasks = tasks;
  job->next.store(0);
  fill_seats(*job, workers);

  // A thread whose task calls run() is counted already.
  const void* outer = std::exchange(at_work_for, this);
  const int64_t callers = outer == this ? 0 : 1;
  counts_.add({.seats = workers - 1, .busy = callers});
  job->door.store(static_cast<uint32_t>(workers - 1) * kSeat + kOpen);
  start_threads();
  wake_some();

  for (int64_t t; (t = job->next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
    task(argument, t, 0);
    wake_some();  // another caller may have ended and made room for a helper
  }
  at_work_for = outer;
  counts_.add({.seats = -close(*job), .busy = -callers});
  wait_for_helpers(*job);
  job->taken.store(false);
  return true;
}

Crew::Job* Crew::take_place() noexcept {
  for (int i = 0; i < kMostJobs; ++i) {
    if (jobs_[i].taken.load() || jobs_[i].taken.exchange(true)) continue;
    for (int used = places_used_.load(); used <= i;)
      if (places_used_.compare_exchange_weak(used, i + 1)) break;
    return &jobs_[i];
  }
  return nullptr;
}

// Every worker but the caller, 0, is free.
void Crew::fill_seats(Job& job, int workers) const noexcept {
  for (int word = 0; word < words_; ++word) {
    const int here = std::clamp(workers - 64 * word, 0, 64);
    const uint64_t bits = here == 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1;
    job.free_workers[word].store(word == 0 ? bits & ~uint64_t{1} : bits);
  }
}

// Closes the door, so that no helper can join. Returns the number of free seats, which the caller
// must subtract from the counts.
int64_t Crew::close(Job& job) noexcept {
  return seats(job.door.fetch_and(kCallerSleeps | kInside));
}

void Crew::wait_for_helpers(Job& job) const noexcept {
  if (spin_until([&] { return inside(job.door.load()) == 0; }, kCallerSpins)) return;
  for (uint32_t door; inside(door = job.door.fetch_or(kCallerSleeps)) != 0;)
    job.door.wait(door | kCallerSleeps);
}

// ------------------------------------------------------------------------------------- waking up

void Crew::start_threads() noexcept {
  while (counts_.load().missing_threads(width_) > 0)
    if (!start_thread()) return;
}

// Returns false if the crew is complete, or if the system refuses a thread (a limit, no memory).
// The crew then never asks again: results do not depend on it, and each refusal would cost time.
bool Crew::start_thread() noexcept {
  int number = started_.load();
  do {
    if (number >= width_ - 1 || refused_.load()) return false;
  } while (!started_.compare_exchange_weak(number, number + 1));

  auto* helper = new (std::nothrow) Helper{this, number + 1, {}, nullptr};
  counts_.add({.searching = 1});
  // The thread inherits this signal mask, so that the host's signal handlers never run in it.
  // Faults of a task stay unblocked, because only its own thread can handle them: a host may have a
  // handler for a mapped file that became shorter.
  sigset_t blocked, callers;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &callers);
  const bool runs = helper && pthread_create(&helper->thread, nullptr, main_of, helper) == 0;
  pthread_sigmask(SIG_SETMASK, &callers, nullptr);
  if (!runs) {
    delete helper;
    refused_.store(true);
    started_.fetch_sub(1);
    counts_.add({.searching = -1});
    return false;
  }
  helper->started_before = helpers_.load();
  while (!helpers_.compare_exchange_weak(helper->started_before, helper)) {
  }
  return true;
}

// Wakes two helpers, each of which wakes two more when it finds work. So the caller begins early,
// and the last of many threads is reached after few steps.
void Crew::wake_some() noexcept {
  for (int i = 0; i < 2; ++i) {
    if (!counts_.add_if([&](Counts c) { return c.missing(width_) > 0; },
                        {.searching = 1, .idle = -1}))
      return;
    wakes_.fetch_add(1);
    wakes_.notify_one();
  }
}

// ---------------------------------------------------------------------------------- the helpers

void* Crew::main_of(void* helper) noexcept {
  const Helper& self = *static_cast<Helper*>(helper);
  char name[16];  // as long as a thread's name can be
  std::snprintf(name, sizeof name, "rapt-%d", self.number);
  pthread_setname_np(pthread_self(), name);
  self.crew->cpus_.apply();
  self.crew->help();
  return nullptr;
}

// A helper counts as searching while it is in this loop.
void Crew::help() noexcept {
  at_work_for = this;
  do {
    while (spin_until([&] { return help_somebody(); }, kHelperSpins)) {
    }
  } while (sleep());
}

// True: took part in a job.
bool Crew::help_somebody() noexcept {
  // From searching to busy in one step, so that this helper is counted exactly once.
  constexpr Counts kToWork = {.seats = -1, .busy = 1, .searching = -1};
  constexpr Counts kBack = {.seats = 1, .busy = -1, .searching = 1};
  if (!counts_.add_if([&](Counts c) { return c.seats > 0 && c.busy < width_; }, kToWork))
    return false;
  uint32_t door = 0;
  Job* job = most_lonely_job(door);
  while (job && !job->door.compare_exchange_strong(door, door - kSeat + 1))
    job = most_lonely_job(door);
  if (!job) {
    counts_.add(kBack);
    return false;
  }
  wake_some();

  int worker = 0;
  for (int word = 0; worker == 0; word = (word + 1) % words_)
    for (uint64_t bits = job->free_workers[word].load(); bits && worker == 0;)
      if (job->free_workers[word].compare_exchange_weak(bits, bits & (bits - 1)))
        worker = 64 * word + std::countr_zero(bits);
  const bool gives_way = take_tasks(*job, worker);
  if (gives_way)
    give_back_seat(*job, worker);
  else  // counted before the caller is released, so that its next call finds this helper free
    counts_.add({.seats = -close(*job), .busy = -1, .searching = 1});
  const uint32_t left = job->door.fetch_sub(1);
  if (inside(left) == 1 && (left & kCallerSleeps)) job->door.notify_one();
  return true;
}

// Returns true if tasks are left but more callers leave no room for this helper.
bool Crew::take_tasks(Job& job, int worker) noexcept {
  for (int64_t t; (t = job.next.fetch_add(1, std::memory_order_relaxed)) < job.tasks;) {
    job.task(job.argument, t, worker);
    if (counts_.add_if([&](Counts c) { return c.busy > width_; },
                       {.seats = 1, .busy = -1, .searching = 1}))
      return true;
  }
  return false;
}

// For a helper that comes when there is room.
void Crew::give_back_seat(Job& job, int worker) noexcept {
  job.free_workers[worker / 64].fetch_or(uint64_t{1} << worker % 64);
  for (uint32_t door = job.door.load(); door & kOpen;)
    if (job.door.compare_exchange_weak(door, door + kSeat)) return;
  counts_.add({.seats = -1});
}

// The job with the fewest helpers that has a seat; null: there is none.
Crew::Job* Crew::most_lonely_job(uint32_t& door) noexcept {
  Job* best = nullptr;
  const int used = places_used_.load();
  for (int i = 0; i < used; ++i) {
    const uint32_t here = jobs_[i].door.load();
    if (seats(here) == 0 || (best && inside(here) >= inside(door))) continue;
    best = &jobs_[i], door = here;
  }
  return best;
}

// True: go on searching. False: the crew ends.
bool Crew::sleep() noexcept {
  counts_.add({.searching = -1, .idle = 1});
  uint32_t door;
  const bool ending = ending_.load();
  const Counts now = counts_.load();
  // Seats may be counted whose door is not open: their caller, or the helper that has just taken
  // one, looks for sleeping helpers next.
  if (ending || (now.seats > 0 && now.busy < width_ && most_lonely_job(door))) {
    // Unless this helper is being woken already; then it follows that call.
    if (counts_.add_if([](Counts c) { return c.idle > 0; }, {.searching = 1, .idle = -1}))
      return !ending;
  }
  for (uint32_t calls = wakes_.load();;) {
    if (calls == 0) {
      wakes_.wait(0);
      calls = wakes_.load();
    } else if (wakes_.compare_exchange_weak(calls, calls - 1)) {
      return !ending_.load();
    }
  }
}

template <class Condition>
bool Crew::spin_until(const Condition& condition, int64_t spin_nanoseconds) const noexcept {
  if (condition()) return true;
  if (!spins_) return false;
  const int64_t end = nanoseconds() + spin_nanoseconds;
  do {
    for (int i = 0; i < 16; ++i) {
      pause();
      if (condition()) return true;
    }
  } while (nanoseconds() < end);
  return false;
}

}  // namespace rapt
