#include "nn/blocks/scale_dense.h"

#include <algorithm>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// The kernel of dropout scales what it keeps. It takes rows of so many columns, and a word of bits
// for each: here all are kept.
constexpr int64_t kScaledColumns = 64, kScaledRows = 64;

struct AllKept {
  uint64_t bits[kScaledRows];
  constexpr AllKept() : bits() { std::fill_n(bits, kScaledRows, ~uint64_t{0}); }
};
constexpr AllKept kAllKept;

}  // namespace

void scale_dense(const TensorView& x, double factor, const TensorView& y, const Run& run,
                 bool add) {
  if (run.counts()) return;
  in_computed_type("x", x.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.drop[static_cast<int>(x.dtype)];
    const auto scaled = [&](int64_t at, int64_t rows, int64_t columns) {
      function(element_at(x, at), kScaledColumns, kAllKept.bits, rows, columns,
               static_cast<E>(factor), add, element_at(y, at));
    };
    for_ranges(run.context, x.count(), static_cast<double>(x.count()),
               [&](int64_t begin, int64_t end) {
                 while (end - begin >= kScaledColumns) {
                   const int64_t rows = std::min((end - begin) / kScaledColumns, kScaledRows);
                   scaled(begin, rows, kScaledColumns);
                   begin += rows * kScaledColumns;
                 }
                 if (begin < end) scaled(begin, 1, end - begin);
               });
  });
}

}  // namespace rapt::nn
