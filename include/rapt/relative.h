#pragma once
// Relative positions within the products: learned table rows for each distance from a query to a
// key.
//
//   scores_ij = scale ((query_i + content_bias) . key_j + (query_i + position_bias) . key_rows[c]
//                      + key_j . query_rows[c])
//   output_i  = sum_j weights_ij (value_j + value_rows[c])
//   c = clamp(center + d, 0, distances - 1),   d = j - i, i counted by the anchor (anchor.h)
//
// Terms whose tensor is absent are left out. So this covers
//
//   Shaw             key_rows and value_rows, [2 k + 1, dims], whose middle row is that of d = 0
//                    (equations 3 to 5): Shaw et al. 2018, arXiv:1803.02155
//   Transformer-XL   key_rows (projected sinusoids), content_bias u and position_bias v: Dai et al.
//                    2019, arXiv:1901.02860, section 3.3. Its code orders the rows by the distances
//                    i - j from k_len - 1 down to 0: center = k_len - 1
//   DeBERTa          key_rows and query_rows, both by the distance of the same pair, scale =
//                    1 / sqrt(3 head_dim): He et al. 2020, arXiv:2006.03654, equation 4. Its code
//                    counts i - j: pass the tables with their rows reversed, center = the row of
//                    d = 0
//
// Distances on a log scale (DeBERTa v2 and v3): with exact > 0, distances with |d| > exact share
// rows on a logarithmic scale up to max_distance, before they are clamped:
//
//   d -> sign(d) (exact + ceil(ln(|d| / exact) / ln((max_distance - 1) / exact) (exact - 1)))
//
// Only rows of distances that occur in a block of keys and queries are multiplied. Each table adds
// at most about one more product of the size of the scores' product, and memory stays O(n). bf16 is
// computed in f32 (FMA). Where a bias is added to queries, the sum is rounded to their dtype.
#include <cstdint>

#include "rapt/anchor.h"
#include "rapt/declaration.h"

namespace rapt {

inline constexpr int64_t kMiddleRow = -1;  // distances / 2, rounded down

// Tables have the query's dtype and all have the same number of distances. Their leading dimensions
// broadcast from the right to those of the output: [heads, distances, dims], [distances, dims]. For
// other tables calls throw Error(dtype, shape, argument). They throw Error(argument) for null or
// misaligned data, for numbers outside their range, and for center, exact, max_distance or anchor
// without a table; Error(overflow) if a view's farthest element has no address; Error(unsupported)
// together with rotary or cosine, and for tangents.
struct RelativePositions {
  TensorView key_rows = {};       // [..., distances, head_dim]
  TensorView query_rows = {};     // [..., distances, head_dim]
  TensorView value_rows = {};     // [..., distances, value_dim]
  TensorView content_bias = {};   // [..., head_dim]
  TensorView position_bias = {};  // [..., head_dim]; only with key_rows
  int64_t center = kMiddleRow;    // the row of d = 0
  int64_t exact = 0;              // up to this |d|, distances have a row each; >= 2, or 0: all
  int64_t max_distance = 0;       // of the log scale, above 3 exact; 0 without a log scale
  Anchor anchor = Anchor::top_left;

  static const Declaration kDeclaration;

  bool any() const noexcept {
    return key_rows.defined() || query_rows.defined() || value_rows.defined() ||
           content_bias.defined() || position_bias.defined();
  }
};

// The row of the distance d = j - i in a table with `distances` rows.
[[gnu::always_inline]] inline int64_t relative_row(const RelativePositions& r, int64_t distances,
                                                   int64_t d) noexcept {
  int64_t far = d < 0 ? -d : d;
  if (r.exact > 0 && far > r.exact) {
    // In double and in this order, as in the published function: where a ratio is an exact power,
    // the last bit of the logarithms decides.
    const auto e = static_cast<double>(r.exact);
    const double steps =
        __builtin_ceil(__builtin_log(static_cast<double>(far) / e) /
                       __builtin_log(static_cast<double>(r.max_distance - 1) / e) * (e - 1));
    // A distance that does not fit is mapped beyond any table.
    far = r.exact + (steps < 1e15 ? static_cast<int64_t>(steps) : int64_t{1000000000000000});
  }
  const int64_t center = r.center == kMiddleRow ? distances / 2 : r.center;
  const int64_t row = center + (d < 0 ? -far : far);
  return row < 0 ? 0 : row < distances ? row : distances - 1;
}

}  // namespace rapt
