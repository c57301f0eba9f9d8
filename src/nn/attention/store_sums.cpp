#include "nn/attention/store_sums.h"

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/row_tasks.h"

namespace rapt::nn {

void store_sums(const TensorView& sums, const TensorView& to, bool add, const Context& context) {
  in_computed_type("to", to.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().store_sums[static_cast<int>(to.dtype)];
    const auto* const from = static_cast<const E*>(sums.data);
    auto* const out = static_cast<std::byte*>(to.data);
    for_ranges(context, to.count(), static_cast<double>(to.count()),
               [&](int64_t begin, int64_t end) {
                 function(from + begin, end - begin, add, out + begin * size_of(to.dtype));
               });
  });
}

}  // namespace rapt::nn
