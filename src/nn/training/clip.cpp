#include "rapt/nn/clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/row_tasks.h"
#include "nn/training/parameter_arrays.h"

namespace rapt::nn {
namespace {

// Operations that take as long as an element, whose 4 bytes come from memory.
constexpr double kClipWork = 50;
// Elements that are summed one after the other, and the most sums that are added at the end.
constexpr int64_t kSquaresBlock = 4096;
constexpr int64_t kMostSquares = 256;

int64_t length_of(const Parameter* p) { return p->learns() ? p->gradient.count() : 0; }

// Elements of all gradients.
int64_t checked_length(std::span<Parameter* const> parameters) {
  int64_t count = 0;
  for (const Parameter* p : parameters) {
    if (!p) throw Error(ErrorCode::argument, "a parameter whose gradient is clipped is null");
    if (!p->learns()) continue;
    if (const DType dtype = p->gradient.dtype(); dtype != DType::f32 && dtype != DType::f64)
      throw Error(ErrorCode::dtype,
                  std::string("a gradient is ") + name_of(dtype) + "; expected f32 or f64");
    count += length_of(p);
  }
  return count;
}

// Calls f.template operator()<E>(elements, count) for the parts of gradients in [begin, end).
template <class Function>
void for_gradients(std::span<Parameter* const> parameters, int64_t begin, int64_t end,
                   const Function& f) {
  const auto length = [&](size_t i) { return length_of(parameters[i]); };
  for_parts(parameters.size(), length, begin, end, [&](size_t i, int64_t from, int64_t to) {
    Tensor& gradient = parameters[i]->gradient;
    in_computed_type("a gradient", gradient.dtype(), [&]<class E>() {
      f.template operator()<E>(static_cast<E*>(gradient.data()) + from, to - from);
    });
  });
}

double sum_in_blocks(std::span<Parameter* const> parameters, int64_t begin, int64_t end) {
  double sum = 0;
  for_gradients(parameters, begin, end, [&]<class E>(const E* x, int64_t count) {
    for (int64_t i = 0; i < count; i += kSquaresBlock)
      sum += layer_kernels<E>().sum_of_squares(x + i, std::min(kSquaresBlock, count - i));
  });
  return sum;
}

}  // namespace

double gradient_norm(std::span<Parameter* const> parameters, const Context& context) {
  const int64_t count = checked_length(parameters);
  const int64_t length = std::max(kSquaresBlock, (count + kMostSquares - 1) / kMostSquares);
  const int64_t chunks = (count + length - 1) / length;
  std::array<double, kMostSquares> sums;
  const double work = kClipWork * static_cast<double>(count);
  for_ranges(context, chunks, work, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      sums[static_cast<size_t>(c)] =
          sum_in_blocks(parameters, c * length, std::min(count, (c + 1) * length));
  });
  double sum = 0;
  for (int64_t c = 0; c < chunks; ++c) sum += sums[static_cast<size_t>(c)];
  return std::sqrt(sum);
}

double clip_gradients(std::span<Parameter* const> parameters, double max_norm,
                      const Context& context) {
  if (!(max_norm >= 0))
    throw Error(ErrorCode::argument,
                "max_norm is " + std::to_string(max_norm) + "; expected 0 or more");
  const double norm = gradient_norm(parameters, context);
  const double factor = max_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || !(factor < 1)) return norm;
  const int64_t count = checked_length(parameters);
  const Context whole = uninterrupted(context);
  const double work = kClipWork * static_cast<double>(count);
  for_ranges(whole, count, work, [&](int64_t begin, int64_t end) {
    for_gradients(parameters, begin, end,
                  [&]<class E>(E* x, int64_t n) { layer_kernels<E>().scale(x, n, factor); });
  });
  return norm;
}

}  // namespace rapt::nn
