#include "rapt/nn/dropout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// Bits are drawn for so many rows and columns at once (DropoutKernels::draw); a task has so many
// columns at least.
constexpr int64_t kDrawnRows = 64, kDrawnColumns = 64, kTaskColumns = 1024;

// Operations that an element takes, about.
constexpr double kDropoutWork = 20;

// y = x, or y + x.
template <class E>
void copy_or_add(const TensorView& x, const TensorView& y, bool add, const Context& context) {
  if (!add && x.data == y.data) return;
  const auto function = layer_kernels<E>().rows.add[static_cast<int>(x.dtype)];
  for_ranges(context, x.count(), static_cast<double>(x.count()), [&](int64_t begin, int64_t end) {
    if (add)
      function(element_at(x, begin), end - begin, element_at(y, begin));
    else
      std::memcpy(element_at(y, begin), element_at(x, begin),
                  static_cast<size_t>((end - begin) * size_of(x.dtype)));
  });
}

// y = x keep factor, or y + that.
template <class E>
void drop(const TensorView& x, const TensorView& y, bool add, uint64_t seed, uint64_t threshold,
          const Context& context) {
  const auto draw = kernels<E>().dropout.draw;
  const auto function = layer_kernels<E>().rows.drop[static_cast<int>(x.dtype)];
  const auto factor = static_cast<E>(1 / (1 - static_cast<double>(threshold) * 0x1p-32));
  const int64_t columns = last_dim(x), rows = rows_of(x);
  const int64_t across = (columns + kTaskColumns - 1) / kTaskColumns;
  const int64_t down = (rows + kDrawnRows - 1) / kDrawnRows;
  for_ranges(context, across * down, kDropoutWork * static_cast<double>(x.count()),
             [&](int64_t begin, int64_t end) {
               uint64_t bits[kDrawnRows];
               for (int64_t part = begin; part < end; ++part) {
                 const int64_t row = part / across * kDrawnRows;
                 const int64_t some_rows = std::min(kDrawnRows, rows - row);
                 const int64_t first = part % across * kTaskColumns;
                 const int64_t last = std::min(columns, first + kTaskColumns);
                 for (int64_t c = first; c < last; c += kDrawnColumns) {
                   const int64_t some = std::min(kDrawnColumns, last - c);
                   draw(seed, threshold, 0, c, row, some_rows, some, bits);
                   function(element_at(x, row * columns + c), columns, bits, some_rows, some,
                            factor, add, element_at(y, row * columns + c));
                 }
               }
             });
}

void dropout(const Dropout& layer, const char* from, const TensorView& x, const char* to,
             const TensorView& y, const Run& run, bool add) {
  if (run.counts()) return;
  const double p = layer.probability;
  if (!(p >= 0 && p < 1))
    throw Error(ErrorCode::argument, "the probability of dropout is " + std::to_string(p) +
                                         "; expected at least 0 and less than 1");
  check_input(from, x, x.dims(), x.dtype);
  check_output(to, y, x.dims(), x.dtype);
  check_same_or_apart(to, y, from, x);
  if (x.rank < 1)
    throw Error(ErrorCode::shape, std::string(from) + " has rank 0; expected [..., columns]");
  in_computed_type(from, x.dtype, [&]<class E>() {
    if (p == 0 || !run.training) return copy_or_add<E>(x, y, add, run.context);
    // As attention's dropout rounds it (rapt/dropout.h).
    const auto threshold =
        std::min(static_cast<uint64_t>(std::llround(p * 0x1p32)), uint64_t{0xFFFFFFFF});
    drop<E>(x, y, add, stream_seed(run.seed, layer.stream), threshold, run.context);
  });
}

}  // namespace

uint64_t stream_seed(uint64_t run_seed, uint64_t stream) noexcept {
  uint64_t z = run_seed + (stream + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void forward(const Dropout& layer, const TensorView& x, const TensorView& y, const Run& run,
             bool add) {
  dropout(layer, "x", x, "y", y, run, add);
}

void backward(const Dropout& layer, const TensorView& d_y, const TensorView& d_x, const Run& run,
              bool add) {
  dropout(layer, "d_y", d_y, "d_x", d_x, run, add);
}

}  // namespace rapt::nn
