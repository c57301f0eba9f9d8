#pragma once
// How a backward call is cut, and in which order its sums are made.
//
// Gradients of what several heads share (grouped heads, broadcast dimensions) are sums over these
// heads. Heads that share any gradient make a *component*; its heads come one after the other, in
// the order of their indices, so that a sum does not depend on which other gradients are wanted.
//
// Within a head, queries are cut into as many *segments* as keys into *chunks*, by the lengths
// alone. In *step* s, chunk c meets segment (c + s) mod parts: all chunks can be worked on at once,
// no two of them write the same number, and every sum has one order, whoever works:
//
//   d_key, d_value of chunk c    over the segments c, c + 1, ..., parts - 1, 0, ..., c - 1
//   d_query of segment s         over the chunks s, s - 1, ..., 0, parts - 1, ..., s + 1
//
// In two passes the same sums are made in the same order by chunk first, then by segment.
//
// Gradients of rows for distances are sums over all chunks and segments. A chunk and a segment have
// few distances, so each chunk has a *window* of sums for a step, and after it the windows are
// added to the table in the order of the chunks. Heads that share a table are one component, whose
// sequences then come one after the other, too. Only in one pass.
#include "attention/call/gradient_request.h"
#include "attention/plan/tiling.h"

namespace rapt {

enum GradientOf : uint8_t {
  kOfQuery,
  kOfKey,
  kOfValue,
  kOfBias,
  kOfKeyRows,
  kOfQueryRows,
  kOfValueRows,
  kGradientOperands
};

// Along which leading dimensions an input is shared: `divisor` neighbours read the same matrix. One
// whose gradient nobody wants counts as not shared.
struct Sharing {
  int64_t divisor[kMaxRank];  // [leading rank]
};

// A head of a component. Matrices are counted within the component.
struct ComponentHead {
  int64_t head;                     // its flat index, less that of the component's first head
  int64_t slot[kGradientOperands];  // where its sums are kept
  bool first[kGradientOperands];    // the first head that adds to the matrix: it starts from 0
  bool last[kGradientOperands];     // the last: the sum is complete
};

struct BackwardPlan {
  Tiling tiling;  // of the products; unit_queries and block_keys are those of the backward pass
  int64_t block[kMaxRank];  // [leading rank] of a component
  int64_t components = 0;
  int64_t component_heads = 1;
  Sharing sharing[kGradientOperands];
  int64_t slots[kGradientOperands];            // matrices of sums that a component needs at once
  int64_t longest_query = 0, longest_key = 0;  // of the sequences, padded to vectors
  int64_t longest_chunk = 0;
  int64_t window_rows = 0;     // of a table, that a chunk and a segment meet at most
  int64_t cells_per_head = 0;  // parts of all sequences together
  int64_t most_parts = 1;      // of a sequence
  int64_t pass_keys = 0;       // whole blocks, which share a walk over the queries
  bool together = false;       // do all workers share one component at a time?
  int64_t items = 0;           // components times sequences; with tables, components
  int64_t items_per_task = 1;
  int workers = 1;
};

// Of a sequence: of one length, but for a grain of queries or a few keys.
struct Parts {
  int64_t count, q_len, k_len, grain;

  Positions segment(int64_t nth) const;
  Positions chunk(int64_t nth) const;

 private:
  Positions part(int64_t nth, int64_t whole, int64_t step) const;
};
Parts parts_of(const Tiling& tiling, int64_t q_len, int64_t k_len);

template <class E>
BackwardPlan backward_plan(const Problem& problem, const WantedGradients& wanted,
                           const Kernels<E>& kernels, const TensorView& query,
                           const TensorView& key, const TensorView& value,
                           const AttentionOptions& options, double work, const Workers& available);

// Writes the heads of a component in order; `scratch` [component_heads].
void order_heads(const Problem& problem, const BackwardPlan& plan, ComponentHead* heads,
                 int64_t* scratch);

// Flat index of the first head of a component.
int64_t first_head(const Problem& problem, const BackwardPlan& plan, int64_t component);

}  // namespace rapt
