#include "rapt/nn/glu.h"

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// Operations that an element of y takes, about.
constexpr double kGluWork = 30;

// The rows of x, and the features of y.
struct GluSizes {
  int64_t rows = 1, features = 0;
};
GluSizes glu_sizes(const TensorView& x) {
  if (!x.defined()) throw Error(ErrorCode::argument, "x is missing");
  if (x.rank < 1 || x.rank > kMaxRank || x.shape[x.rank - 1] % 2 != 0)
    throw Error(ErrorCode::shape, "x " + to_string(x.dims()) +
                                      "; expected [..., 2 features]: the last dimension has an a "
                                      "and a b for each feature of y");
  GluSizes sizes{.features = x.shape[x.rank - 1] / 2};
  if (sizes.features > 0) sizes.rows = x.count() / (2 * sizes.features);
  return sizes;
}

// Shapes of y and of tensors like it.
Shape glu_output(const TensorView& x, int64_t (&shape)[kMaxRank], int64_t features) {
  for (int i = 0; i < x.rank; ++i) shape[i] = x.shape[i];
  shape[x.rank - 1] = features;
  return {shape, static_cast<size_t>(x.rank)};
}

double glu_work(const GluSizes& sizes) {
  return kGluWork * static_cast<double>(sizes.rows) * static_cast<double>(sizes.features);
}

}  // namespace

void glu(const TensorView& x, const TensorView& y, const Run& run) {
  if (run.counts()) return;
  const GluSizes sizes = glu_sizes(x);
  int64_t shape[kMaxRank];
  check_input("x", x, x.dims(), x.dtype);
  check_output("y", y, glu_output(x, shape, sizes.features), x.dtype);
  check_apart("y", y, "x", x);
  in_computed_type("x", x.dtype, [&]<class E>() {
    if (y.empty()) return;
    const auto function = layer_kernels<E>().sequences.glu[static_cast<int>(x.dtype)];
    const int64_t row = sizes.features * size_of(x.dtype);
    for_ranges(run.context, sizes.rows, glu_work(sizes), [&](int64_t begin, int64_t end) {
      function(static_cast<const std::byte*>(x.data) + 2 * begin * row, end - begin, sizes.features,
               static_cast<std::byte*>(y.data) + begin * row);
    });
  });
}

void glu_gradient(const TensorView& x, const TensorView& d_y, const TensorView& d_x,
                  const Run& run) {
  if (run.counts()) return;
  const GluSizes sizes = glu_sizes(x);
  int64_t shape[kMaxRank];
  check_input("x", x, x.dims(), x.dtype);
  check_input("d_y", d_y, glu_output(x, shape, sizes.features), x.dtype);
  check_output("d_x", d_x, x.dims(), x.dtype);
  check_same_or_apart("d_x", d_x, "x", x);
  check_apart("d_x", d_x, "d_y", d_y);
  in_computed_type("x", x.dtype, [&]<class E>() {
    if (d_x.empty()) return;
    const auto function = layer_kernels<E>().sequences.glu_gradient[static_cast<int>(x.dtype)];
    const int64_t row = sizes.features * size_of(x.dtype);
    for_ranges(run.context, sizes.rows, glu_work(sizes), [&](int64_t begin, int64_t end) {
      function(static_cast<const std::byte*>(x.data) + 2 * begin * row,
               static_cast<const std::byte*>(d_y.data) + begin * row, end - begin, sizes.features,
               static_cast<std::byte*>(d_x.data) + 2 * begin * row);
    });
  });
}

}  // namespace rapt::nn
