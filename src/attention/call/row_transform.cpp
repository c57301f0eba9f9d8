// Checks of row transforms: rotary embedding and cosine attention.
#include <algorithm>
#include <string>

#include "attention/call/rotary.h"
#include "base/check_argument.h"
#include "base/rare.h"

namespace rapt {
namespace {

bool any(const RotaryPositions& positions) noexcept {
  return positions.values.defined() || positions.start != 0 || positions.step != 1;
}

// Rejects parameters that no transform would use.
void check_use(const FusedRotary& fused) {
  if (!fused.embedding && (any(fused.query) || any(fused.key) || !fused.rotate_key))
    throw Error(ErrorCode::argument,
                "rotary: positions or rotated keys without an embedding; expected one in "
                "options.rotary",
                "rotary");
  if (!fused.rotate_key && any(fused.key))
    throw Error(ErrorCode::argument,
                "rotary of keys: positions of keys that come rotated; expected none, nobody looks "
                "at them",
                "rotary");
}

// Rejects sequences of a cache with more queries than keys: the first queries would have positions
// before 0, which tables of cosines do not have.
void check_counted(const Problem& p) {
  const int64_t sequences = p.query_starts ? p.sequences : p.leading[0];
  for (int64_t s = 0; s < sequences; ++s)
    if (const int64_t queries = p.query_starts ? p.sequence(s).q_len : p.q_len;
        queries > p.pages.length(s))
      throw Error(ErrorCode::argument,
                  "rotary of queries: sequence " + std::to_string(s) + " of the cache has " +
                      std::to_string(queries) + " queries and " +
                      std::to_string(p.pages.length(s)) +
                      " keys; expected positions as a tensor beside cos_cache",
                  "rotary");
}

void take_rotary(const FusedRotary& fused, Problem& p) {
  RowTransform& c = p.rows;
  c.rotary = fused.embedding;
  c.pairs = check_rotary(*c.rotary, p.head_dim);
  int64_t longest_query = 0, longest_key = 0;
  if (p.pages.used()) {  // queries are the last positions of their keys
    longest_query = p.k_len;
    if (c.rotary->cos_cache.defined() && !fused.query.values.defined()) check_counted(p);
  }
  for (int64_t s = 0; s < p.sequences; ++s) {
    longest_query = std::max(longest_query, p.sequence(s).q_len);
    longest_key = std::max(longest_key, p.sequence(s).k_len);
  }
  take_positions("rotary of queries", *c.rotary, fused.query, c.pairs, p.leading_dims(), p.q_len,
                 longest_query, p.dtype, c.query);
  if (!fused.rotate_key) return;
  take_positions("rotary of keys", *c.rotary, fused.key, c.pairs, p.leading_dims(), p.k_len,
                 longest_key, p.dtype, c.key);
  c.turns_key = c.transforms_key = true;
}

// Plans one matrix of transformed keys for all heads that share keys and positions.
void take_copy(Problem& p) {
  RowTransform& c = p.rows;
  c.original_key = p.key;
  c.transformed_matrices = 1;
  int64_t stride = p.k_len * p.head_dim;
  p.key.data = nullptr;
  p.key.row_stride = p.head_dim, p.key.dim_stride = 1;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    const bool head_axis = i == p.leading_rank - 1;
    if (c.turns_key && c.key.vary(i)) {
      c.copies[i] = p.leading[i];
      if (head_axis) p.key.heads_per_group = 1;
    } else if (p.key.lead_strides[i] == 0) {
      c.copies[i] = std::min<int64_t>(p.leading[i], 1);
    } else {
      c.copies[i] = head_axis ? p.leading[i] / p.key.heads_per_group : p.leading[i];
    }
    p.key.lead_strides[i] = c.copies[i] > 1 ? stride : 0;
    stride *= c.copies[i];
    c.transformed_matrices *= c.copies[i];
  }
}

}  // namespace

void take_row_transform(const AttentionOptions& options, Problem& p) {
  RowTransform& c = p.rows;
  if (rare(options.cosine.has_value())) {
    check_argument("cosine", [&] { check_parameters(Cosine::kDeclaration, &*options.cosine); });
    c.cosine = c.transforms_key = true;
    c.epsilon = options.cosine->epsilon;
  }
  check_use(options.rotary);
  if (rare(options.rotary.embedding != nullptr))
    check_argument("rotary", [&] { take_rotary(options.rotary, p); });
  if (!rare(c.transforms_key)) return;
  take_copy(p);
  const int64_t copy[] = {c.transformed_matrices, p.k_len, p.head_dim};
  check_argument("key", [&] { element_count(copy); });  // throws
}

}  // namespace rapt
