#include "rapt/nn/mse.h"

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// Squares are summed in blocks of so many elements, and the sums of blocks in f64.
constexpr int64_t kErrorBlock = 1 << 14;

void check_errors(const TensorView& x, const TensorView& target) {
  check_input("x", x, x.dims(), x.dtype);
  check_input("target", target, x.dims(), x.dtype);
}

}  // namespace

double mean_squared_error(const TensorView& x, const TensorView& target, const Run& run) {
  if (!run.counts()) check_errors(x, target);
  const int64_t count = x.count(), blocks = (count + kErrorBlock - 1) / kErrorBlock;
  const Arena::Frame frame(run.scratch);
  const TensorView sums = run.scratch.take(DType::f64, {blocks});
  if (run.counts()) return 0;
  auto* const sum = static_cast<double*>(sums.data);
  in_computed_type("x", x.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().losses.squared_error[static_cast<int>(x.dtype)];
    for_ranges(
        run.context, blocks, 2 * static_cast<double>(count), [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b)
            sum[b] = function(element_at(x, b * kErrorBlock), element_at(target, b * kErrorBlock),
                              std::min(kErrorBlock, count - b * kErrorBlock));
        });
  });
  double total = 0;
  for (int64_t b = 0; b < blocks; ++b) total += sum[b];
  return total / static_cast<double>(count);
}

void mean_squared_error_gradient(const TensorView& x, const TensorView& target,
                                 const TensorView& d_x, const Run& run, double d_loss) {
  if (run.counts()) return;
  check_errors(x, target);
  check_output("d_x", d_x, x.dims(), x.dtype);
  check_same_or_apart("d_x", d_x, "x", x);
  check_same_or_apart("d_x", d_x, "target", target);
  const int64_t count = x.count();
  in_computed_type("x", x.dtype, [&]<class E>() {
    const auto function =
        layer_kernels<E>().losses.squared_error_gradient[static_cast<int>(x.dtype)];
    const auto factor = static_cast<E>(2 * d_loss / static_cast<double>(count));
    for_ranges(run.context, count, 2 * static_cast<double>(count), [&](int64_t begin, int64_t end) {
      function(element_at(x, begin), element_at(target, begin), end - begin, factor,
               element_at(d_x, begin));
    });
  });
}

}  // namespace rapt::nn
