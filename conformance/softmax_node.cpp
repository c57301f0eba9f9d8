// ONNX Softmax and LogSoftmax, opset 13, along any axis: attention whose scores are the bias alone.
//
// A query of zeros has products of 0 with any key, so the rows x of the bias are the scores:
// Softmax is the weights, LogSoftmax x - lse. Computed in f64, because an lse of 10,003 has an
// error of 5e-4 in f32, more than the rule allows for a difference of 0.4.
#include <algorithm>

#include "operators.h"
#include "rapt/attention.h"

namespace rapt::conformance {

Outputs run_softmax(const NodeTest& test) {
  require_known(test.node, {"axis"});
  const TensorView x = test.input(0);
  if (!x.defined() || x.dtype != DType::f32 || x.rank < 1)
    throw Error(ErrorCode::unsupported, test.node.op_type + ": expected an f32 tensor");
  const int64_t axis = test.node.integer("axis", -1);
  const int64_t dim = axis < 0 ? axis + x.rank : axis;
  if (dim < 0 || dim >= x.rank)
    throw Error(ErrorCode::argument, test.node.op_type + ": axis " + std::to_string(axis));

  // x as [before, length, after]; rows of scores are along the middle dimension.
  const int64_t length = x.shape[dim];
  const int64_t before = element_count(x.dims().first(static_cast<size_t>(dim)));
  const int64_t behind = element_count(x.dims().subspan(static_cast<size_t>(dim) + 1));
  Tensor wide(DType::f64, {before, length, behind});
  std::copy_n(static_cast<const float*>(x.data), x.count(), wide.values<double>().begin());

  const double zero = 0;
  const TensorView query(&zero, {before, behind, 1}, {0, 0, 0}), key(&zero, {length, 1}, {0, 0});
  const Tensor no_values(DType::f64, {length, 0});
  AttentionOptions options{.bias = wide.view().transposed(1, 2)};
  options.weights.emplace();
  const AttentionResult result = scaled_dot_product_attention(query, key, no_values, options);

  const auto weights = result.weights.values<double>(), lse = result.statistic.values<double>();
  Outputs outputs(1);
  outputs[0] = Tensor(DType::f32, x.dims());
  for (int64_t a = 0; a < before; ++a)
    for (int64_t j = 0; j < length; ++j)
      for (int64_t b = 0; b < behind; ++b) {
        const auto at = static_cast<size_t>((a * length + j) * behind + b);
        const auto row = static_cast<size_t>(a * behind + b);
        outputs[0].values<float>()[at] = static_cast<float>(
            test.node.op_type == "Softmax"
                ? weights[row * static_cast<size_t>(length) + static_cast<size_t>(j)]
                : wide.values<double>()[at] - lse[row]);
      }
  return outputs;
}

}  // namespace rapt::conformance
