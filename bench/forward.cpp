// Speed of the forward pass, f32, one thread: one line per case.
//
//   bench_forward [--filter TEXT] [--repetitions N] [--json]
//   bench_forward --build-info | --isa        what is measured, and with which instruction set
//
// Exits with 3 if no case has TEXT in its name.
//
// Useful flops: 2 (head_dim + value_dim) per allowed score; exponentials, padding and excluded
// scores of partial tiles count as nothing.
// Time: CPU time of the thread, the best of N calls after a warm-up.
// % of peak: against the FMA peak measured immediately before and after the case, the higher one.
// FMA/cycle: multiply-adds of whole vectors per core cycle, of which all cores here do at most 2;
// the median of 7 calls whose cycles are added up task by task from the core's clock just then. On
// cores whose clock depends on the instruction mix it is the fairer number; a goal is met by
// either.
//
// A loop of its own and no benchmark library: those time by wall clock or process CPU time, decide
// the number of repetitions themselves, and have no place for a peak measured beside each case.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "clocks.h"
#include "forward_cases.h"
#include "kernels/kernel_table.h"
#include "rapt/rapt.h"

namespace {

using bench::ForwardCase;

// Long enough for hundreds of loops, short enough not to warm the core up for the case.
constexpr double kPeakSeconds = 0.03;

struct Arguments {
  std::string filter;
  int repetitions = 20;
  bool json = false;
  std::string asked;  // "--build-info" or "--isa": print it and measure nothing
};

struct Measured {
  double milliseconds, gflops, peak_gflops, percent, fma_per_cycle, clock_ghz;
};

// Runs tasks one after the other and adds up the core cycles that each took.
class CycleCounter final : public rapt::Executor {
 public:
  int concurrency() const noexcept override { return 1; }
  void run(int64_t tasks, Task task, void* argument) override {
    for (int64_t t = 0; t < tasks; ++t) {
      const double start = bench::thread_cpu_seconds();
      task(argument, t, 0);
      const double elapsed = bench::thread_cpu_seconds() - start;
      seconds_ += elapsed;
      cycles_ += elapsed * bench::core_clock_ghz() * 1e9;
    }
  }
  double seconds() const { return seconds_; }
  double cycles() const { return cycles_; }

 private:
  double seconds_ = 0, cycles_ = 0;
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

rapt::Tensor random_normal(std::mt19937& generator, int64_t rows, int64_t dims) {
  rapt::Tensor t(rapt::DType::f32, {bench::kHeads, rows, dims});
  std::normal_distribution<float> normal;
  for (float& x : t.values<float>()) x = normal(generator);
  return t;
}

Measured measure(const ForwardCase& c, int repetitions) {
  std::mt19937 generator(1);
  rapt::Tensor query = random_normal(generator, c.q_len, c.head_dim);
  const rapt::Tensor key = random_normal(generator, c.k_len, c.head_dim);
  const rapt::Tensor value = random_normal(generator, c.k_len, c.head_dim);
  rapt::Tensor output(rapt::DType::f32, {bench::kHeads, c.q_len, c.head_dim});
  rapt::Tensor lse(rapt::DType::f32, {bench::kHeads, c.q_len});

  const rapt::Causal causal;
  rapt::Window window;
  window.left = bench::kWindowKeys - 1;
  window.right = 0;
  const rapt::Mask* masks[] = {
      c.mask == bench::MaskKind::window ? static_cast<const rapt::Mask*>(&window) : &causal};
  rapt::AttentionOptions options;
  if (c.mask != bench::MaskKind::none) options.masks = masks;

  const rapt::Plan plan = rapt::plan(query, key, value, options);
  const double flops =
      2.0 * static_cast<double>(c.head_dim + c.head_dim) * static_cast<double>(plan.allowed_scores);
  std::vector<std::byte> workspace(plan.workspace_bytes);
  const auto call = [&](const rapt::Context& context) {
    rapt::scaled_dot_product_attention(query, key, value, options, {{output, lse}}, workspace,
                                       context);
  };

  call({});  // pages, caches and the clock
  double peak = rapt::measure_fma_gflops(kPeakSeconds), best = 1e300;
  for (int r = 0; r < repetitions; ++r) {
    const double start = bench::thread_cpu_seconds();
    call({});
    best = std::min(best, bench::thread_cpu_seconds() - start);
  }
  peak = std::max(peak, rapt::measure_fma_gflops(kPeakSeconds));

  std::vector<double> fma_per_cycle, clock;
  for (int r = 0; r < 7; ++r) {
    CycleCounter counter;
    rapt::Context context;
    context.executor = &counter;
    call(context);
    fma_per_cycle.push_back(flops / (2.0 * rapt::kernels<float>().lanes) / counter.cycles());
    clock.push_back(counter.cycles() / counter.seconds() * 1e-9);
  }
  const double gflops = flops / best * 1e-9;
  return {best * 1e3, gflops, peak, 100 * gflops / peak, median(fma_per_cycle), median(clock)};
}

const char* verdict(const ForwardCase& c, const Measured& m) {
  if (c.goal_percent == 0) return "-";
  constexpr double kMostPerCycle = 2;
  return std::max(m.percent, 100 * m.fma_per_cycle / kMostPerCycle) >= c.goal_percent ? "met"
                                                                                      : "short";
}

void print_json(const ForwardCase& c, const Measured& m, const char* isa) {
  std::printf(
      "{\"name\": \"%s\", \"isa\": \"%s\", \"ms\": %.4f, \"gflops\": %.2f, \"peak_gflops\": %.2f, "
      "\"percent\": %.2f, \"fma_per_cycle\": %.4f, \"clock_ghz\": %.3f, \"goal_percent\": %g}\n",
      c.name.c_str(), isa, m.milliseconds, m.gflops, m.peak_gflops, m.percent, m.fma_per_cycle,
      m.clock_ghz, c.goal_percent);
}

void print_line(const ForwardCase& c, const Measured& m) {
  std::printf("%-24s %9.2f %8.1f %8.1f %9.1f %10.2f %6.2f %6g  %s\n", c.name.c_str(),
              m.milliseconds, m.gflops, m.peak_gflops, m.percent, m.fma_per_cycle, m.clock_ghz,
              c.goal_percent, verdict(c, m));
}

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--json")
      arguments.json = true;
    else if (word == "--build-info" || word == "--isa")
      arguments.asked = word;
    else if (word == "--filter" && has_value)
      arguments.filter = argv[++i];
    else if (word == "--repetitions" && has_value)
      arguments.repetitions = std::atoi(argv[++i]);
    else
      return false;
  }
  return arguments.repetitions > 0;
}

const char* chosen_isa() {
  for (const rapt::InstructionSet& set : rapt::instruction_sets())
    if (set.chosen) return set.name;
  return "none";
}

}  // namespace

int main(int argc, char** argv) try {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: bench_forward [--filter TEXT] [--repetitions N] [--json] | "
                 "--build-info | --isa\n");
    return 2;
  }
  const char* isa = chosen_isa();
  if (!arguments.asked.empty()) {
    std::printf("%s\n", arguments.asked == "--isa" ? isa : rapt::build_info());
    return 0;
  }
  if (!arguments.json)
    std::printf("rapt %s, %s\n%-24s %9s %8s %8s %9s %10s %6s %6s\n", rapt::build_info(), isa,
                "case", "ms", "GF/s", "peak", "% of peak", "FMA/cycle", "GHz", "goal");
  bool any = false;
  for (const ForwardCase& c : bench::forward_cases()) {
    if (c.name.find(arguments.filter) == std::string::npos) continue;
    any = true;
    const Measured m = measure(c, arguments.repetitions);
    arguments.json ? print_json(c, m, isa) : print_line(c, m);
    std::fflush(stdout);
  }
  if (any) return 0;
  std::fprintf(stderr, "no case has \"%s\" in its name\n", arguments.filter.c_str());
  return 3;
} catch (const rapt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
