#pragma once
// How a backward call is cut, and the order of its sums.
//
// Gradients of tensors that several heads share (grouped heads, broadcast dimensions) are summed
// over those heads. Heads that share any wanted gradient form a *component*. Its heads run one
// after the other, in the order of their indices, so a sum does not depend on which other gradients
// are wanted.
//
// Within a head, queries are cut into *segments* and keys into as many *chunks*, by the lengths
// alone. In *step* s, chunk c is paired with segment (c + s) mod parts. All chunks of a step can
// run at once, and no two of them write the same element. Every sum has one order for any number of
// workers:
//
//   d_key, d_value of chunk c    over the segments c, c + 1, ..., parts - 1, 0, ..., c - 1
//   d_query of segment s         over the chunks s, s - 1, ..., 0, parts - 1, ..., s + 1
//
// In two passes the same sums are made in the same order, first by chunk, then by segment.
//
// Gradients of distance tables are sums over all chunks and segments. A chunk and a segment have
// few distances, so each chunk has a *window* of sums for a step. After the step the windows are
// added to the table, in the order of the chunks. Heads that share a table form one component, and
// its sequences then run one after the other, too. These gradients need one pass.
#include "attention/call/gradient_request.h"
#include "attention/plan/prepare.h"
#include "attention/plan/scratch_plan.h"
#include "attention/tiles/bound_masks.h"

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

// How an input is shared along the leading dimensions: `divisor` neighbours read the same matrix.
// An input without a wanted gradient counts as not shared.
struct Sharing {
  int64_t divisor[kMaxRank];  // [leading rank]
};

// A head of a component. Matrices are counted within the component.
struct ComponentHead {
  int64_t head;                     // flat index, relative to the component's first head
  int64_t slot[kGradientOperands];  // the slot of its sums
  bool first[kGradientOperands];    // first head that adds to the matrix: its sum starts from 0
  bool last[kGradientOperands];     // last head that adds to it: the sum is complete
};

struct BackwardPlan {
  Tiling tiling;    // of the products; unit_queries and block_keys are those of the backward pass
  HeadRange heads;  // a part of the last leading dimension; count 0: all
  int64_t block[kMaxRank];  // [leading rank] heads of a component along each dimension
  int64_t components = 0;
  int64_t component_heads = 1;
  Sharing sharing[kGradientOperands];
  int64_t slots[kGradientOperands];            // matrices of sums that a component needs at once
  int64_t longest_query = 0, longest_key = 0;  // of the sequences; queries padded to vectors
  int64_t longest_chunk = 0;
  int64_t window_rows = 0;               // table rows for a chunk and a segment, at most
  int64_t cells_per_head = 0;            // parts of all sequences together
  int64_t most_parts = 1;                // parts of a sequence, at most
  int64_t pass_keys = 0;                 // keys that share a walk over the queries: whole blocks
  bool workers_share_component = false;  // do all workers share one component at a time?
  int64_t items = 0;  // components times sequences; with distance tables, components
  int64_t items_per_task = 1;
  int workers = 1;
};

// The parts of a sequence. Their lengths differ by a grain of queries or a few keys at most.
struct Parts {
  int64_t count, q_len, k_len, grain;

  Positions segment(int64_t nth) const;
  Positions chunk(int64_t nth) const;

 private:
  Positions part(int64_t nth, int64_t whole, int64_t step) const;
};
Parts parts_of(const Tiling& tiling, int64_t q_len, int64_t k_len);

template <class E>
BackwardPlan backward_plan(const CheckedCall& call, const WantedGradients& wanted,
                           const PreparedCall<E>& prepared);

// The inputs of the scratch layout of gradients.
template <class E>
struct GradientScratch : ScratchPlan<E> {
  const WantedGradients& wanted;
  const BackwardPlan& plan;
  const AttentionOptions& options;
  ScratchPlanner<Per::component> component = {};

  // Queries and keys of the arrays of a component: of its longest sequence; in two passes, of a
  // work unit and a chunk.
  int64_t queries() const noexcept { return wanted.two_passes ? this->unit : this->longest_query; }
  int64_t keys() const noexcept {
    return wanted.two_passes ? plan.longest_chunk : plan.longest_key;
  }
  // Scores of a tile and a block.
  int64_t tile_scores() const noexcept { return this->tiling.block_keys * this->tile; }
};
template <class E>
GradientScratch<E> gradient_scratch(const CheckedCall& call, const WantedGradients& wanted,
                                    const BackwardPlan& plan, const Kernels<E>& kernels) {
  return {{call.problem, kernels, plan.tiling, BoundMasks::slots(call.options.masks),
           plan.longest_query},
          wanted,
          plan,
          call.options};
}

// Writes the heads of a component in order; `scratch` [component_heads].
void order_heads(const Problem& problem, const BackwardPlan& plan, ComponentHead* heads,
                 int64_t* scratch);

// Flat index of the first head of a component.
int64_t first_head(const Problem& problem, const BackwardPlan& plan, int64_t component);

}  // namespace rapt
