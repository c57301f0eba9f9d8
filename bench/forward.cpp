// Speed of the forward pass, one thread: one line per case.
//
//   bench_forward [--filter TEXT] [--repetitions N] [--quick] [--json] [DESCRIPTOR...]
//   bench_forward --build-info | --isa        what is measured, and with which instruction set
//
// With descriptors (check/descriptor.h) exactly these problems are measured, instead of the cases
// of forward_cases.cpp. Exits with 3 if no case has TEXT in its name.
//
// Time: CPU time of the thread, the best of N calls after a warm-up; of calls shorter than a
// millisecond, the best of N rows of them.
// % of peak: useful flops (timing/problem.h) against the peak measured immediately before and after
// the case, the higher one. The peak is that of the instruction that the problem is multiplied
// with: the 16-bit dot product where bf16 takes it, else FMA, f64 at half the rate of f32.
// FMA/cycle: multiply-adds of whole vectors per core cycle (of dot products: such instructions), of
// which all cores here do at most 2; the median of 7 calls whose cycles are added up task by task
// from the core's clock just then. On cores whose clock depends on the instruction mix it is the
// fairer number; a goal is met by either. Not measured for calls shorter than a millisecond, whose
// tasks are as short as a look at the clock.
//
// A loop of its own and no benchmark library: those time by wall clock or process CPU time, decide
// the number of repetitions themselves, and have no place for a peak measured beside each case.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "arguments.h"
#include "forward_cases.h"
#include "kernels/kernel_table.h"
#include "rapt/rapt.h"
#include "timing/clocks.h"
#include "timing/peak.h"
#include "timing/problem.h"
#include "timing/sampling.h"

namespace {

using bench::ForwardCase;

// Long enough for hundreds of loops, short enough not to warm the core up for the case.
constexpr double kPeakSeconds = 0.03;
constexpr double kMostPerCycle = 2;
// Multiplications of the problems that prove that the benchmark runs: two heads of 1,024 tokens,
// which take a second where kernels were compiled without optimisation.
constexpr double kQuickWork = 3e8;

// How many multiplications an instruction makes.
double multiplications_of(timing::PeakInstruction instruction) {
  switch (instruction) {
    case timing::PeakInstruction::f32_fma:
      return rapt::kernels<float>().lanes;
    case timing::PeakInstruction::f64_fma:
      return rapt::kernels<double>().lanes;
    case timing::PeakInstruction::bf16_dot:
      return 2.0 * rapt::kernels<float>().lanes;
  }
  return 0;
}

struct Measured {
  const char* peak_name;
  double milliseconds, gflops, peak_gflops, percent;
  double fma_per_cycle;  // 0: not measured
  double clock_ghz;
};

// Adds up the core cycles of a call, task by task: it is told when one ends.
class CycleCounter {
 public:
  // Of a call that begins now.
  rapt::Progress begin() {
    start_ = timing::thread_cpu_seconds();
    return {task_ended, this};
  }
  double seconds() const { return seconds_; }
  double cycles() const { return cycles_; }

 private:
  static void task_ended(void* user, double) {
    auto& self = *static_cast<CycleCounter*>(user);
    const double elapsed = timing::thread_cpu_seconds() - self.start_;
    self.seconds_ += elapsed;
    self.cycles_ += elapsed * timing::core_clock_ghz() * 1e9;
    self.start_ = timing::thread_cpu_seconds();  // without what looking at the clock took
  }

  double start_ = 0, seconds_ = 0, cycles_ = 0;
};

// Multiply-adds per cycle and the clock, in calls of at least a millisecond.
void measure_cycles(timing::Problem& problem, timing::PeakInstruction instruction, int repetitions,
                    Measured& m) {
  const double flops_per_instruction = 2 * multiplications_of(instruction);
  std::vector<double> per_cycle, clock;
  timing::repeat(std::min(repetitions, 7), [&] {
    CycleCounter counter;
    problem.call(counter.begin());
    per_cycle.push_back(problem.useful_flops() / flops_per_instruction / counter.cycles());
    clock.push_back(counter.cycles() / counter.seconds() * 1e-9);
  });
  m.fma_per_cycle = timing::median(per_cycle);
  m.clock_ghz = timing::median(clock);
}

Measured measure(const ForwardCase& c, int repetitions) {
  timing::Problem problem(check::parse_descriptor(c.problem));
  const timing::PeakInstruction instruction =
      timing::peak_instruction(problem.plan(), problem.descriptor().dtype);
  const auto peak = [&] { return timing::peak_gflops(instruction, kPeakSeconds); };
  const auto call = [&] { problem.call(); };
  problem.call();  // pages, caches and the clock
  const int calls = timing::calls_per_sample(call);

  double peak_gflops = peak(), best = std::numeric_limits<double>::infinity();
  timing::repeat(repetitions,
                 [&] { best = std::min(best, timing::seconds_per_call(calls, call)); });
  peak_gflops = std::max(peak_gflops, peak());

  Measured m = {};
  m.peak_name = timing::name_of(instruction);
  m.milliseconds = best * 1e3;
  m.gflops = problem.useful_flops() / best * 1e-9;
  m.peak_gflops = peak_gflops;
  m.percent = 100 * m.gflops / peak_gflops;
  if (calls == 1)
    measure_cycles(problem, instruction, repetitions, m);
  else
    m.clock_ghz = timing::core_clock_ghz();
  return m;
}

const char* verdict(const ForwardCase& c, const Measured& m) {
  if (c.goal_percent == 0) return "-";
  return std::max(m.percent, 100 * m.fma_per_cycle / kMostPerCycle) >= c.goal_percent ? "met"
                                                                                      : "short";
}

void print_json(const ForwardCase& c, const Measured& m, const char* isa) {
  std::printf(
      "{\"table\": \"forward\", \"name\": \"%s\", \"isa\": \"%s\", \"peak\": \"%s\", \"ms\": %.5f, "
      "\"gflops\": %.2f, \"peak_gflops\": %.2f, \"percent\": %.2f, \"fma_per_cycle\": %.4f, "
      "\"clock_ghz\": %.3f, \"goal\": %g}\n",
      c.name.c_str(), isa, m.peak_name, m.milliseconds, m.gflops, m.peak_gflops, m.percent,
      m.fma_per_cycle, m.clock_ghz, c.goal_percent);
}

void print_line(const ForwardCase& c, const Measured& m) {
  std::printf("%-30s %9.3f %8.1f %8.1f %-8s %9.1f %10.2f %6.2f %6g  %s\n", c.name.c_str(),
              m.milliseconds, m.gflops, m.peak_gflops, m.peak_name, m.percent, m.fma_per_cycle,
              m.clock_ghz, c.goal_percent, verdict(c, m));
}

const char* chosen_isa() {
  for (const rapt::InstructionSet& set : rapt::instruction_sets())
    if (set.chosen) return set.name;
  return "none";
}

std::vector<ForwardCase> cases_of(const bench::Arguments& arguments) {
  if (arguments.rest.empty()) return bench::forward_cases();
  std::vector<ForwardCase> cases;
  for (const std::string& text : arguments.rest)
    cases.push_back({to_string(check::parse_descriptor(text)), text, 0});
  return cases;
}

bool measure_all(const bench::Arguments& arguments) {
  const char* isa = chosen_isa();
  if (!arguments.json)
    std::printf("rapt %s, %s\n%-30s %9s %8s %8s %-8s %9s %10s %6s %6s\n", rapt::build_info(), isa,
                "case", "ms", "GF/s", "peak", "of", "% of peak", "FMA/cycle", "GHz", "goal");
  bool any = false;
  for (const ForwardCase& c : cases_of(arguments)) {
    if (!arguments.wants(c.name)) continue;
    if (arguments.quick && check::parse_descriptor(c.problem).work() > kQuickWork) continue;
    any = true;
    const Measured m = measure(c, arguments.repetitions);
    arguments.json ? print_json(c, m, isa) : print_line(c, m);
    std::fflush(stdout);
  }
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string asked = argc == 2 ? argv[1] : "";
  if (asked == "--build-info" || asked == "--isa") {
    std::puts(asked == "--isa" ? chosen_isa() : rapt::build_info());
    return 0;
  }
  return bench::run_benchmark(
      argc, argv,
      "usage: bench_forward [--filter TEXT] [--repetitions N] [--quick] [--json] [DESCRIPTOR...] | "
      "--build-info | --isa\n",
      measure_all);
}
