#pragma once
// Tokens as indices of the rows of a table: their checks, and their positions sorted by token, so
// that gradients of a row are summed by one task in one order.
#include <cstdint>
#include <optional>

#include "rapt/nn/arena.h"
#include "rapt/nn/run.h"

namespace rapt::nn {

// Checks i64 tokens of this shape: dense, and each in [0, count) or `ignored`. Throws
// Error(argument) that names the position of one that is not.
void check_tokens(const char* name, const TensorView& tokens, Shape expected, int64_t count,
                  std::optional<int64_t> ignored = {});

// The number of tokens that are not `ignored`.
int64_t count_tokens(const TensorView& tokens, int64_t ignored);

// Positions sorted by token, and in order within a token: those of token t are positions
// [starts[t], starts[t + 1]).
struct SortedTokens {
  TensorView starts, positions;  // [count + 1], [tokens], i64

  // Takes the memory.
  SortedTokens(int64_t count, int64_t tokens, Arena& arena)
      : starts(arena.take(DType::i64, {count + 1})), positions(arena.take(DType::i64, {tokens})) {}
  // Sorts checked tokens; those that are `ignored` are left out.
  void sort(const TensorView& tokens, std::optional<int64_t> ignored = {});
};

// gradient [count, features] f32 or f64 += factor times the rows [tokens, features] of any dtype,
// for each token the sum of the rows at its positions. Checks nothing.
void add_token_rows(const SortedTokens& sorted, const TensorView& rows, double factor,
                    const TensorView& gradient, const Context& context);

}  // namespace rapt::nn
