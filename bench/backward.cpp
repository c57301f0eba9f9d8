// Speed of the backward pass, one thread: one line per case. Gradients of query, key and value, and
// of the bias where there is one; the forward pass is not part of the time.
//
//   bench_backward [--filter TEXT] [--repetitions N] [--quick] [--json] [DESCRIPTOR...]
//
// With descriptors (check/problem/descriptor.h) exactly these problems are measured, instead of the
// cases of backward_cases.cpp. What is measured, and how: speed.h; useful flops: 6 head_dim + 4
// value_dim per allowed score (timing/backward_problem.h). Exits with 3 if no case has TEXT in its
// name.
#include "backward_cases.h"
#include "timing/backward_problem.h"

namespace {

bool measure_all(const bench::Arguments& arguments) {
  return bench::measure_speed(arguments, "backward", bench::backward_cases(),
                              bench::work_of<timing::BackwardProblem>);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv,
      "usage: bench_backward [--filter TEXT] [--repetitions N] [--quick] [--json] "
      "[DESCRIPTOR...]\n",
      measure_all, bench::Descriptors::taken);
}
