#include "nn/rowwise/token_rows.h"

#include <algorithm>

#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

std::span<const int64_t> tokens_of(const TensorView& tokens) {
  return {static_cast<const int64_t*>(tokens.data), static_cast<size_t>(tokens.count())};
}

// "tokens[1, 3]", for the element at a flat index.
std::string element_name(const char* name, const TensorView& view, int64_t at) {
  std::string indices;
  for (int i = view.rank - 1; i >= 0; at /= view.shape[i--])
    indices = std::to_string(at % view.shape[i]) + (indices.empty() ? "" : ", ") + indices;
  return std::string(name) + "[" + indices + "]";
}

}  // namespace

void check_tokens(const char* name, const TensorView& tokens, Shape expected, int64_t count,
                  std::optional<int64_t> ignored) {
  check_input(name, tokens, expected, DType::i64);
  int64_t at = 0;
  for (const int64_t token : tokens_of(tokens)) {
    if ((token < 0 || token >= count) && token != ignored)
      throw Error(ErrorCode::argument,
                  element_name(name, tokens, at) + " is " + std::to_string(token) +
                      "; expected at least 0 and less than " + std::to_string(count) +
                      (ignored ? ", or " + std::to_string(*ignored) + " to ignore it" : ""));
    ++at;
  }
}

int64_t count_tokens(const TensorView& tokens, int64_t ignored) {
  const auto all = tokens_of(tokens);
  return static_cast<int64_t>(all.size()) - std::count(all.begin(), all.end(), ignored);
}

void SortedTokens::sort(const TensorView& tokens, std::optional<int64_t> ignored) {
  auto* const start = static_cast<int64_t*>(starts.data);
  auto* const position = static_cast<int64_t*>(positions.data);
  const int64_t count = starts.shape[0] - 1;
  std::fill_n(start, count + 1, int64_t{0});
  const auto all = tokens_of(tokens);
  for (const int64_t token : all)
    if (token != ignored) ++start[token];
  int64_t end = 0;
  for (int64_t t = 0; t < count; ++t) start[t] = end += start[t];
  start[count] = end;
  // From the last position to the first: each end moves down to its start.
  for (size_t at = all.size(); at-- > 0;)
    if (all[at] != ignored) position[--start[all[at]]] = static_cast<int64_t>(at);
}

void add_token_rows(const SortedTokens& sorted, const TensorView& rows, double factor,
                    const TensorView& gradient, const Context& context) {
  const int64_t count = gradient.shape[0], features = gradient.shape[1];
  const auto* const starts = static_cast<const int64_t*>(sorted.starts.data);
  const auto* const positions = static_cast<const int64_t*>(sorted.positions.data);
  in_computed_type("rows", rows.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.add_chosen[static_cast<int>(rows.dtype)];
    // A task owns the tokens whose positions begin in its range.
    for_ranges(context, starts[count],
               static_cast<double>(starts[count]) * static_cast<double>(features),
               [&](int64_t begin, int64_t end) {
                 const int64_t* start = std::lower_bound(starts, starts + count, begin);
                 for (; start < starts + count && *start < end; ++start)
                   if (const int64_t n = start[1] - start[0]; n > 0)
                     function(rows.data, positions + start[0], n, features, static_cast<E>(factor),
                              static_cast<E*>(gradient.data) + (start - starts) * features);
               });
  });
}

}  // namespace rapt::nn
