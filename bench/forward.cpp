// Speed of the forward pass, one thread: one line per case.
//
//   bench_forward [--filter TEXT] [--repetitions N] [--quick] [--json] [DESCRIPTOR...]
//   bench_forward --build-info | --isa        what is measured, and with which instruction set
//
// With descriptors (check/problem/descriptor.h) exactly these problems are measured, instead of the
// cases of forward_cases.cpp. What is measured, and how: speed.h. Exits with 3 if no case has TEXT
// in its name.
#include <cstdio>
#include <string>

#include "forward_cases.h"
#include "rapt/version.h"
#include "timing/problem.h"

namespace {

bool measure_all(const bench::Arguments& arguments) {
  return bench::measure_speed(arguments, "forward", bench::forward_cases(),
                              bench::work_of<timing::Problem>);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string asked = argc == 2 ? argv[1] : "";
  if (asked == "--build-info" || asked == "--isa") {
    std::puts(asked == "--isa" ? bench::chosen_isa() : rapt::build_info());
    return 0;
  }
  return bench::run_benchmark(
      argc, argv,
      "usage: bench_forward [--filter TEXT] [--repetitions N] [--quick] [--json] [DESCRIPTOR...] | "
      "--build-info | --isa\n",
      measure_all, bench::Descriptors::taken);
}
