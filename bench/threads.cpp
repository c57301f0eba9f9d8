// Threads: the cost of a job of the pool, and how attention and its backward pass scale with
// threads. f32, d = 64, n = 2048.
//
//   bench_threads [--threads N] [--repetitions N] [--json]
//
// Scaling: wall time with one thread over wall time with N, the best of each, measured alternately.
// Relative to: the scaling of a loop of FMAs that touches no memory, in tasks of about 0.1 ms, run
// by the same pool. Clocks, neighbours and the host of a virtual machine slow both down; the rest
// of the loss is attention's: its memory, and threads that wait for the last task.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "kernels/kernel_table.h"
#include "rapt/rapt.h"
#include "timing/backward_problem.h"
#include "timing/clocks.h"
#include "timing/sampling.h"

namespace {

using timing::wall_seconds;

constexpr int64_t kLength = 2048, kHeadDim = 64;
constexpr double kGoal = 0.95;           // of the FMA loop's scaling
constexpr double kBackwardGoal = 0.925;  // 1.85 with two threads, where those are worth two

void sleep_seconds(double seconds) {
  const timespec t{0, static_cast<long>(seconds * 1e9)};
  nanosleep(&t, nullptr);
}

// An executor that uses some of the threads of the pool.
class Some final : public rapt::Executor {
 public:
  Some(rapt::ThreadPool& pool, int threads) : pool_(pool), threads_(threads) {}
  int concurrency() const noexcept override { return threads_; }
  void run(int64_t tasks, Task task, void* argument) override {
    pool_.run(tasks, task, argument, threads_);
  }

 private:
  rapt::ThreadPool& pool_;
  int threads_;
};

// --------------------------------------------------------------------------- the cost of a job

struct Stamp {
  double begun[2] = {};
  static void task(void* argument, int64_t task, int) noexcept {
    auto& self = *static_cast<Stamp*>(argument);
    self.begun[task] = wall_seconds();
    // Long enough that another thread takes the second task.
    while (wall_seconds() < self.begun[task] + 200e-6) {
    }
  }
};

// Microseconds from run() to the beginning of the second of two tasks, in another thread.
double microseconds_to_begin(rapt::ThreadPool& pool, double pause) {
  std::vector<double> samples;
  for (int i = 0; i < 201; ++i) {
    if (pause > 0) sleep_seconds(pause);
    Stamp stamp;
    const double start = wall_seconds();
    pool.run(2, Stamp::task, &stamp, 2);
    samples.push_back((std::max(stamp.begun[0], stamp.begun[1]) - start) * 1e6);
  }
  return timing::median(samples);
}

// Microseconds of a job whose tasks do nothing.
double microseconds_of_nothing(rapt::ThreadPool& pool, int threads, double pause) {
  std::vector<double> samples;
  for (int i = 0; i < 201; ++i) {
    if (pause > 0) sleep_seconds(pause);
    const double start = wall_seconds();
    pool.run(
        threads, [](void*, int64_t, int) noexcept {}, nullptr, threads);
    samples.push_back((wall_seconds() - start) * 1e6);
  }
  return timing::median(samples);
}

// -------------------------------------------------------------------------------------- scaling

void fma_task(void* sink, int64_t task, int) noexcept {
  static_cast<volatile float*>(sink)[task] = rapt::kernels<float>().fma_loop(20000);
}

void run_fma(rapt::Executor& executor) {
  float sink[128];
  executor.run(128, fma_task, sink);
}

class Attention {
 public:
  Attention(int64_t heads, int threads)
      : query_(random({heads, kLength, kHeadDim}, 1)),
        key_(random({heads, kLength, kHeadDim}, 2)),
        value_(random({heads, kLength, kHeadDim}, 3)),
        output_(rapt::DType::f32, {heads, kLength, kHeadDim}),
        lse_(rapt::DType::f32, {heads, kLength}) {
    for (const int workers : {1, threads}) {
      rapt::ThreadPool pool(workers);
      rapt::Context context;
      context.executor = &pool;
      workspace_.resize(
          std::max(workspace_.size(), rapt::workspace_bytes(query_, key_, value_, {}, context)));
    }
  }
  void run(rapt::Executor& executor) {
    rapt::Context context;
    context.executor = &executor;
    rapt::scaled_dot_product_attention(query_, key_, value_, {}, {{output_, lse_}}, workspace_,
                                       context);
  }

 private:
  static rapt::Tensor random(std::initializer_list<int64_t> shape, uint32_t x) {
    rapt::Tensor t(rapt::DType::f32, shape);
    for (float& element : t.values<float>()) {
      x = x * 1664525 + 1013904223;  // generator of Numerical Recipes; any distribution will do
      element = static_cast<float>(x >> 8) * 0x1p-23f - 1;
    }
    return t;
  }

  rapt::Tensor query_, key_, value_;  // [heads, kLength, kHeadDim]
  rapt::Tensor output_, lse_;
  std::vector<std::byte> workspace_;
};

// Best wall times with one thread and with all.
struct Times {
  double one = 1e300, all = 1e300;
  double scaling() const { return one / all; }

  template <class Run>
  void measure(const Run& run, rapt::Executor& single, rapt::Executor& many) {
    const double start = wall_seconds();
    run(single);
    const double middle = wall_seconds();
    run(many);
    one = std::min(one, middle - start);
    all = std::min(all, wall_seconds() - middle);
  }
};

struct Arguments {
  int threads = 2, repetitions = 20;
  bool json = false;
};

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (!std::strcmp(argv[i], "--json"))
      arguments.json = true;
    else if (!std::strcmp(argv[i], "--threads") && has_value)
      arguments.threads = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--repetitions") && has_value)
      arguments.repetitions = std::atoi(argv[++i]);
    else
      return false;
  }
  return arguments.threads > 1 && arguments.repetitions > 0;
}

void report_jobs(rapt::ThreadPool& pool, const Arguments& arguments) {
  constexpr double kPause = 1e-3;  // after this time all threads sleep
  const auto report = [&](const char* name, double awake, double asleep) {
    if (arguments.json)
      std::printf(
          "{\"table\": \"jobs\", \"name\": \"%s\", \"awake_us\": %.3f, \"asleep_us\": %.3f}\n",
          name, awake, asleep);
    else
      std::printf("%-34s %9.2f %9.2f\n", name, awake, asleep);
  };
  if (!arguments.json)
    std::printf("rapt %s\n%d threads; default: %d\n\n%-34s %9s %9s\n", rapt::build_info(),
                arguments.threads, rapt::default_threads(), "microseconds, median", "awake",
                "asleep");
  report("until a second thread begins", microseconds_to_begin(pool, 0),
         microseconds_to_begin(pool, kPause));
  report("a job whose tasks do nothing", microseconds_of_nothing(pool, arguments.threads, 0),
         microseconds_of_nothing(pool, arguments.threads, kPause));
}

// `goal`: of the FMA loop's scaling; 0: none.
void report_scaling(const char* name, const Times& times, const Times& fma, double goal,
                    const Arguments& arguments) {
  const double ratio = times.scaling() / fma.scaling();
  if (arguments.json)
    std::printf(
        "{\"table\": \"threads\", \"name\": \"%s\", \"threads\": %d, \"one_ms\": %.4f, "
        "\"all_ms\": %.4f, \"scaling\": %.4f, \"of_fma\": %.4f, \"goal\": %g}\n",
        name, arguments.threads, times.one * 1e3, times.all * 1e3, times.scaling(), ratio, goal);
  else
    std::printf("%-18s %9.3f %9.3f %8.3f %9.3f %6g  %s\n", name, times.one * 1e3, times.all * 1e3,
                times.scaling(), ratio, goal,
                goal == 0       ? "-"
                : ratio >= goal ? "met"
                                : "short");
}

}  // namespace

int main(int argc, char** argv) try {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: bench_threads [--threads N] [--repetitions N] [--json], N threads > 1\n");
    return 2;
  }
  rapt::ThreadPool pool(arguments.threads);
  microseconds_of_nothing(pool, arguments.threads, 0);  // starts the threads
  report_jobs(pool, arguments);

  Some one(pool, 1), all(pool, arguments.threads);
  Attention one_head(1, arguments.threads), eight_heads(8, arguments.threads);
  // The workspace is that for `threads` threads, whichever executor runs the call.
  rapt::Context with_all;
  with_all.executor = &all;
  timing::BackwardProblem backward(check::parse_descriptor("h1q2048k2048d64"),
                                   rapt::BackwardPasses::one, with_all);
  Times fma, of_one_head, of_eight_heads, of_backward;
  for (int repetition = 0; repetition < arguments.repetitions; ++repetition) {
    fma.measure(run_fma, one, all);
    of_one_head.measure([&](rapt::Executor& e) { one_head.run(e); }, one, all);
    of_eight_heads.measure([&](rapt::Executor& e) { eight_heads.run(e); }, one, all);
    of_backward.measure([&](rapt::Executor& e) { backward.call_on(e); }, one, all);
  }
  if (!arguments.json)
    std::printf("\nbest of %-3d         1 thread %d threads  scaling  of FMA's   goal\n",
                arguments.repetitions, arguments.threads);
  report_scaling("FMA loop", fma, fma, 0, arguments);
  report_scaling("1 head", of_one_head, fma, kGoal, arguments);
  report_scaling("8 heads", of_eight_heads, fma, kGoal, arguments);
  report_scaling("1 head, backward", of_backward, fma, kBackwardGoal, arguments);
  return 0;
} catch (const rapt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
