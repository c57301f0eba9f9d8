#include "rapt/nn/embedding.h"

#include <cstring>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"
#include "nn/rowwise/token_rows.h"

namespace rapt::nn {
namespace {

// The table, and the tensor of its rows.
void check_embedding(const Embedding& layer, const TensorView& tokens, const char* name,
                     const TensorView& rows, bool output) {
  const TensorView weight = layer.weight.value.view();
  if (weight.rank != 2)
    throw Error(ErrorCode::shape,
                "weight " + to_string(weight.dims()) + "; expected [count, features]");
  check_input("weight", weight, weight.dims(), weight.dtype);
  const LongerShape expected("tokens", tokens, layer.features());
  if (output)
    check_output(name, rows, expected, weight.dtype);
  else
    check_input(name, rows, expected, weight.dtype);
  check_tokens("tokens", tokens, tokens.dims(), layer.count());
}

}  // namespace

Embedding make_embedding(int64_t count, int64_t features, DType dtype) {
  return {.weight = make_parameter(dtype, {count, features})};
}

void forward(const Embedding& layer, const TensorView& tokens, const TensorView& y, const Run& run,
             bool add) {
  if (run.counts()) return;
  check_embedding(layer, tokens, "y", y, true);
  check_apart("y", y, "weight", layer.weight.value);
  check_apart("y", y, "tokens", tokens);
  const TensorView weight = layer.weight.value.view();
  const auto* const token = static_cast<const int64_t*>(tokens.data);
  const int64_t features = layer.features(), bytes = features * size_of(weight.dtype);
  in_computed_type("weight", weight.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.add[static_cast<int>(weight.dtype)];
    for_ranges(run.context, tokens.count(), static_cast<double>(y.count()),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const std::byte* const row = element_at(weight, token[i] * features);
                   if (add)
                     function(row, features, element_at(y, i * features));
                   else if (bytes > 0)
                     std::memcpy(element_at(y, i * features), row, static_cast<size_t>(bytes));
                 }
               });
  });
}

void backward(Embedding& layer, const TensorView& tokens, const TensorView& d_y, const Run& run) {
  if (!run.counts()) {
    check_embedding(layer, tokens, "d_y", d_y, false);
    if (layer.weight.learns())
      check_input("the gradient of weight", layer.weight.gradient, layer.weight.value.dims(),
                  computed_type(layer.weight.value.dtype()));
  }
  if (!layer.weight.learns()) return;
  const Arena::Frame frame(run.scratch);
  SortedTokens sorted(layer.count(), tokens.count(), run.scratch);
  if (run.counts()) return;
  sorted.sort(tokens);
  add_token_rows(sorted, d_y, 1, layer.weight.gradient.view(), run.context);
}

}  // namespace rapt::nn
