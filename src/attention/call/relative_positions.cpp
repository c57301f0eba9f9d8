// Relative positions: their declaration, their checks, and the first distance of each log-scale
// row. Formulas: rapt/relative.h.
#include "attention/call/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/rare.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<RelativePositions, &RelativePositions::key_rows>(
        "key_rows", "what queries meet beside the keys [..., distances, head_dim]"),
    parameter<RelativePositions, &RelativePositions::query_rows>(
        "query_rows", "what keys meet beside the queries [..., distances, head_dim]"),
    parameter<RelativePositions, &RelativePositions::value_rows>(
        "value_rows", "what is added to values [..., distances, value_dim]"),
    parameter<RelativePositions, &RelativePositions::content_bias>(
        "content_bias", "added to queries that meet keys [..., head_dim]"),
    parameter<RelativePositions, &RelativePositions::position_bias>(
        "position_bias", "added to queries that meet key_rows [..., head_dim]"),
    parameter<RelativePositions, &RelativePositions::center>(
        "center", "the row of distance 0; -1: the middle one", Range{-1, 4294967296.0}),
    parameter<RelativePositions, &RelativePositions::exact>(
        "exact", "distances that have a row each; 0: all", Range{0, 4294967296.0}),
    parameter<RelativePositions, &RelativePositions::max_distance>(
        "max_distance", "of a log scale: from here on all distances share a row",
        Range{0, 9007199254740992.0}),
    parameter<RelativePositions, &RelativePositions::anchor>(
        "anchor", "which corner of the matrix i = j runs through", kAnyNumber, kAnchorNames),
};

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
  throw Error(code, "relative: " + message);
}

// Checks a tensor [..., own dimensions] whose last dimension has length `dims`; leading dimensions
// broadcast. Text is made only for an error: a call with the caller's memory allocates nothing.
void take(const char* name, const TensorView& view, int own_rank, int64_t dims, const Problem& p,
          Operand& o) {
  if (view.dtype != p.dtype)
    fail(ErrorCode::dtype, described(name, view) + " is " + name_of(view.dtype) + "; expected " +
                               name_of(p.dtype) + " as the query");
  if (view.rank < own_rank || view.rank - own_rank > p.leading_rank)
    fail(ErrorCode::shape, described(name, view) + "; expected " +
                               (own_rank == 2 ? "[..., distances, " : "[..., ") +
                               std::to_string(dims) + "], ... as " + to_string(p.leading_dims()));
  if (view.shape[view.rank - 1] != dims)
    fail(ErrorCode::shape,
         described(name, view) + "; expected a last dimension of " + std::to_string(dims));
  if (!take_relative_operand(view, own_rank, p, o))
    fail(ErrorCode::shape,
         described(name, view) + " does not broadcast to " + to_string(p.leading_dims()));
  if (own_rank == 2 && view.shape[view.rank - 2] == 0)
    fail(ErrorCode::shape,
         described(name, view) + " has no rows; expected one for each distance, at least 1");
  extent_of(name, view);
}

void check_scale(const RelativePositions& r) {
  if (r.exact == 0) {
    if (r.max_distance != 0)
      fail(ErrorCode::argument,
           "max_distance without exact, the distances that have a row each; "
           "expected both for a log scale, or neither");
    return;
  }
  // On a steeper scale some rows would have no distance.
  if (r.exact < 2 || r.max_distance / 3 < r.exact || r.max_distance == 3 * r.exact)
    fail(ErrorCode::argument, "exact " + std::to_string(r.exact) + " and max_distance " +
                                  std::to_string(r.max_distance) +
                                  "; expected exact of at least 2 and max_distance above 3 exact");
}

// Without tables, parameters that choose table rows would be ignored.
void check_no_rows_named(const RelativePositions& r) {
  const char* const named = r.center != kMiddleRow         ? "center"
                            : r.exact != 0                 ? "exact"
                            : r.max_distance != 0          ? "max_distance"
                            : r.anchor != Anchor::top_left ? "anchor"
                                                           : nullptr;
  if (named)
    fail(ErrorCode::argument, std::string(named) +
                                  " without a table whose rows it would choose; expected "
                                  "key_rows, query_rows or value_rows beside it");
}

}  // namespace

const Declaration RelativePositions::kDeclaration = {
    "relative", "rows for each distance of a key from a query, within the products",
    "Shaw et al. 2018, arXiv:1803.02155; Dai et al. 2019, arXiv:1901.02860; He et al. 2020, "
    "arXiv:2006.03654",
    kParameters};

bool take_relative_operand(const TensorView& view, int own_rank, const Problem& p, Operand& o) {
  o.data = view.data;
  o.dtype = view.dtype;
  o.heads_per_group = 1;
  std::fill_n(o.lead_strides, p.leading_rank, 0);
  const int leading = view.rank - own_rank;
  for (int i = 0; i < leading; ++i) {
    const int at = p.leading_rank - leading + i;
    const int64_t n = view.shape[i];
    if (n != 1 && n != p.leading[at]) return false;
    o.lead_strides[at] = n == 1 ? 0 : view.strides[i];
  }
  const bool rows = own_rank == 2 && view.shape[view.rank - 2] > 1;
  o.row_stride = rows ? view.strides[view.rank - 2] : 0;
  o.dim_stride = view.shape[view.rank - 1] > 1 ? view.strides[view.rank - 1] : 1;
  if (view.empty()) {  // strides of no element
    o.row_stride = 0, o.dim_stride = 1;
    std::fill_n(o.lead_strides, p.leading_rank, 0);
  }
  return true;
}

void take_relative(const AttentionOptions& options, Problem& p) {
  const RelativePositions& given = options.relative;
  if (!rare(given.any())) return check_no_rows_named(given);
  Relative& r = p.relative;
  check_parameters(RelativePositions::kDeclaration, &given);
  if (p.rows.any())
    fail(ErrorCode::unsupported,
         "together with rotary or cosine, which change the rows that it is to meet; expected one "
         "of them");
  r.given = &given;
  const auto table = [&](const char* name, const TensorView& view, int64_t dims, bool& there,
                         Operand& rows) {
    if (!view.defined()) return;
    take(name, view, 2, dims, p, rows);
    const int64_t distances = view.shape[view.rank - 2];
    if (r.distances != 0 && distances != r.distances)
      fail(ErrorCode::shape, std::string(name) + " " + to_string(view.dims()) + " has " +
                                 std::to_string(distances) + " rows, but another table " +
                                 std::to_string(r.distances) + "; expected as many");
    r.distances = distances;
    there = true;
  };
  table("key_rows", given.key_rows, p.head_dim, r.key, r.key_rows);
  table("query_rows", given.query_rows, p.head_dim, r.query, r.query_rows);
  table("value_rows", given.value_rows, p.value_dim, r.value, r.value_rows);
  if (given.position_bias.defined() && !r.key)
    fail(ErrorCode::argument, "position_bias without key_rows, which it would meet");
  if (!r.tables()) check_no_rows_named(given);
  if (r.tables() && given.center >= r.distances)
    fail(ErrorCode::argument, "center " + std::to_string(given.center) + " of tables with " +
                                  std::to_string(r.distances) + " rows; expected 0 to " +
                                  std::to_string(r.distances - 1) + ", or -1 for the middle one");
  check_scale(given);
  const auto bias = [&](const char* name, const TensorView& view, Operand& query_bias) {
    query_bias.data = nullptr;
    if (view.defined()) take(name, view, 1, p.head_dim, p, query_bias), p.rows.adds_biases = true;
  };
  bias("content_bias", given.content_bias, p.rows.content_bias);
  bias("position_bias", given.position_bias, p.rows.position_bias);
}

int64_t first_distance(const RelativePositions& r, int64_t distances, int64_t row) {
  const int64_t steps = row - (r.center == kMiddleRow ? distances / 2 : r.center);
  const int64_t size = std::abs(steps);
  if (r.exact == 0 || size < r.exact || steps == r.exact) return steps;
  // Starts from the inverse of the log scale and searches for the exact answer.
  const auto e = static_cast<double>(r.exact);
  const double step = std::log(static_cast<double>(r.max_distance - 1) / e) / (e - 1);
  constexpr int64_t kNever = int64_t{1} << 53;  // no sequence is as long
  const auto distance_of = [&](int64_t far) {
    const double d = e * std::exp(static_cast<double>(far - r.exact) * step);
    return static_cast<int64_t>(std::min(d, 2.0 * kNever));
  };
  if (steps > 0) {
    int64_t d = std::max(distance_of(size - 1) - 2, r.exact);
    if (d > kNever) return kNever;
    while (relative_row(r, distances, d) < row) ++d;
    return d;
  }
  int64_t d = distance_of(size) + 2;
  if (d > kNever) return -kNever;
  while (relative_row(r, distances, -d) < row) --d;
  return -d;
}

}  // namespace rapt
