#include "speed.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "kernels/kernel_table.h"
#include "rapt/instruction_sets.h"
#include "rapt/version.h"
#include "timing/clocks.h"
#include "timing/sampling.h"

namespace bench {
namespace {

// Long enough for hundreds of loops, short enough not to warm the core up for the case.
constexpr double kPeakSeconds = 0.03;
constexpr double kMostPerCycle = 2;
// Multiplications of the problems of --quick: two heads of 1,024 tokens, which take a second if
// kernels are compiled without optimisation.
constexpr double kQuickWork = 3e8;

// The number of multiplications of an instruction.
double multiplications_of(timing::PeakInstruction instruction) {
  switch (instruction) {
    case timing::PeakInstruction::f32_fma:
      return rapt::kernels<float>().lanes;
    case timing::PeakInstruction::f64_fma:
      return rapt::kernels<double>().lanes;
    case timing::PeakInstruction::bf16_dot:
      return 2.0 * rapt::kernels<float>().lanes;
    case timing::PeakInstruction::bf16_tiles:
      return 16.0 * 16 * 32;
  }
  return 0;
}

struct Measured {
  const char* peak_name;
  double milliseconds, gflops, peak_gflops, percent;
  double fma_per_cycle;  // 0: not measured
  double clock_ghz;
};

// Adds up the core cycles of a call, task by task, in the progress callback.
class CycleCounter {
 public:
  // The progress callback for a call that begins now.
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
    self.start_ = timing::thread_cpu_seconds();  // excludes the time of reading the clock
  }

  double start_ = 0, seconds_ = 0, cycles_ = 0;
};

// Measures multiply-adds per cycle and the clock, for calls of at least a millisecond.
void measure_cycles(const Work& work, int repetitions, Measured& m) {
  const double flops_per_instruction = 2 * multiplications_of(work.instruction);
  std::vector<double> per_cycle, clock;
  timing::repeat(std::min(repetitions, 7), [&] {
    CycleCounter counter;
    work.call(counter.begin());
    per_cycle.push_back(work.useful_flops / flops_per_instruction / counter.cycles());
    clock.push_back(counter.cycles() / counter.seconds() * 1e-9);
  });
  m.fma_per_cycle = timing::median(per_cycle);
  m.clock_ghz = timing::median(clock);
}

Measured measure(const Work& work, int repetitions) {
  const timing::PeakInstruction instruction = work.instruction;
  const auto peak = [&] { return timing::peak_gflops(instruction, kPeakSeconds); };
  const auto call = [&] { work.call({}); };
  call();  // pages, caches and the clock
  const int calls = timing::calls_per_sample(call);

  double peak_gflops = peak(), best = std::numeric_limits<double>::infinity();
  timing::repeat(repetitions,
                 [&] { best = std::min(best, timing::seconds_per_call(calls, call)); });
  peak_gflops = std::max(peak_gflops, peak());

  Measured m = {};
  m.peak_name = timing::name_of(instruction);
  m.milliseconds = best * 1e3;
  m.gflops = work.useful_flops / best * 1e-9;
  m.peak_gflops = peak_gflops;
  m.percent = 100 * m.gflops / peak_gflops;
  if (calls == 1)
    measure_cycles(work, repetitions, m);
  else
    m.clock_ghz = timing::core_clock_ghz();
  return m;
}

const char* verdict(const SpeedCase& c, const Measured& m) {
  if (c.goal_percent == 0) return "-";
  return std::max(m.percent, 100 * m.fma_per_cycle / kMostPerCycle) >= c.goal_percent ? "met"
                                                                                      : "short";
}

void print_json(const char* table, const SpeedCase& c, const Measured& m, const char* isa) {
  std::printf(
      "{\"table\": \"%s\", \"name\": \"%s\", \"isa\": \"%s\", \"peak\": \"%s\", \"ms\": %.5f, "
      "\"gflops\": %.2f, \"peak_gflops\": %.2f, \"percent\": %.2f, \"fma_per_cycle\": %.4f, "
      "\"clock_ghz\": %.3f, \"goal\": %g}\n",
      table, c.name.c_str(), isa, m.peak_name, m.milliseconds, m.gflops, m.peak_gflops, m.percent,
      m.fma_per_cycle, m.clock_ghz, c.goal_percent);
}

void print_line(const SpeedCase& c, const Measured& m) {
  std::printf("%-30s %9.3f %8.1f %8.1f %-8s %9.1f %10.2f %6.2f %6g  %s\n", c.name.c_str(),
              m.milliseconds, m.gflops, m.peak_gflops, m.peak_name, m.percent, m.fma_per_cycle,
              m.clock_ghz, c.goal_percent, verdict(c, m));
}

std::vector<SpeedCase> cases_of(const Arguments& arguments) {
  std::vector<SpeedCase> cases;
  for (const std::string& text : arguments.rest)
    cases.push_back({to_string(check::parse_descriptor(text)), text, 0});
  return cases;
}

}  // namespace

const char* chosen_isa() {
  for (const rapt::InstructionSet& set : rapt::instruction_sets())
    if (set.chosen) return set.name;
  return "none";
}

bool measure_speed(const Arguments& arguments, const char* table,
                   const std::vector<SpeedCase>& cases,
                   const std::function<Work(const check::Descriptor&)>& work_of) {
  const char* isa = chosen_isa();
  if (!arguments.json)
    std::printf("rapt %s, %s\n%-30s %9s %8s %8s %-8s %9s %10s %6s %6s\n", rapt::build_info(), isa,
                "case", "ms", "GF/s", "peak", "of", "% of peak", "FMA/cycle", "GHz", "goal");
  bool any = false;
  for (const SpeedCase& c : arguments.rest.empty() ? cases : cases_of(arguments)) {
    if (!arguments.wants(c.name)) continue;
    const check::Descriptor descriptor = check::parse_descriptor(c.problem);
    if (arguments.quick && descriptor.work() > kQuickWork) continue;
    any = true;
    const Measured m = measure(work_of(descriptor), arguments.repetitions);
    arguments.json ? print_json(table, c, m, isa) : print_line(c, m);
    std::fflush(stdout);
  }
  return any;
}

}  // namespace bench
