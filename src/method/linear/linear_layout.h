#pragma once
// The memory of a pass: what the call has once, what each head at work has, what each worker has.
#include "method/linear/sweep.h"
#include "method/shared_heads.h"

namespace rapt {

template <class E>
struct LinearLayout {
  LinearThreads threads;
  CallPlace<double> drawn;  // [inputs][head_dim] the projection as it is drawn
  CallPlace<E> projection;  // [inputs][head_dim] times B
  CallPlace<E> offsets;     // [inputs], if the exponent is not 0
  SweepPlaces<E> sweep;
  // Of the backward pass, per head at work.
  ComponentPlace<E> inverse_sums;             // [q_len] 1 / sum of weights
  ComponentPlace<E> d_sums;                   // [q_len] the gradient of the sum of weights
  ComponentPlace<E> query_powers;             // [q_len] minus the powers of rows
  ComponentPlace<E> d_query, d_key, d_value;  // [slots x rows][dims], where heads share a gradient
  Place<E> rows;  // [kChunk][dims] rows of a gradient before they are added
  RepeatedMemory heads, workers;
  size_t bytes = 0;

  LinearLayout(const LinearCall<E>& c, const LinearThreads& of) : threads(of) { begin(c); }

  // Lays out a forward pass.
  static LinearLayout forward(const LinearCall<E>& c) {
    const Problem& p = c.p;
    const double products = static_cast<double>(c.model.features) *
                            static_cast<double>(p.head_dim + p.value_dim) *
                            static_cast<double>(p.q_len + p.k_len) * static_cast<double>(p.heads);
    LinearLayout layout(c,
                        {products, p.heads, chunks_of(std::max(p.q_len, p.k_len)), c.call.context});
    layout.finish(c, false, {}, {});
    return layout;
  }

  // Lays out a backward pass.
  static LinearLayout backward(const LinearCall<E>& c, const WantedGradients& wanted) {
    const Problem& p = c.p;
    const SharedHeads shared(c.call, wanted);
    const double products = 2.25 * static_cast<double>(c.model.features) *
                            static_cast<double>(p.head_dim + p.value_dim) *
                            static_cast<double>(p.q_len + p.k_len) * static_cast<double>(p.heads);
    LinearLayout layout(
        c, {products, shared.components(), chunks_of(std::max(p.q_len, p.k_len)), c.call.context});
    ScratchPlanner<Per::component> head;
    ScratchPlanner<Per::worker> worker;
    for (ComponentPlace<E>* place : {&layout.inverse_sums, &layout.d_sums, &layout.query_powers})
      head.place(*place, {p.q_len});
    const bool sums = shared.heads() > 1;
    head.place_if(sums, layout.d_query, {shared.query_slots() * p.q_len, p.head_dim});
    head.place_if(sums, layout.d_key, {shared.key_slots() * p.k_len, p.head_dim});
    head.place_if(sums, layout.d_value, {shared.value_slots() * p.k_len, p.value_dim});
    worker.place(layout.rows, {kChunk, std::max(p.head_dim, p.value_dim)});
    layout.finish(c, true, head, worker);
    return layout;
  }

 private:
  ScratchPlanner<Per::call> call_;

  void begin(const LinearCall<E>& c) {
    const LinearModel& m = c.model;
    const bool projects = c.map.projects;
    call_.place_if(projects, drawn, {m.inputs, c.p.head_dim});
    call_.place_if(projects, projection, {m.inputs, c.p.head_dim});
    call_.place_if(projects && m.exponent != 0, offsets, {m.inputs});
  }
  void finish(const LinearCall<E>& c, bool gradients, ScratchPlanner<Per::component> head,
              ScratchPlanner<Per::worker> worker) {
    sweep = place_sweep(c, threads, gradients, head, worker);
    heads = call_.repeat(head, threads.share_heads ? 1 : threads.workers);
    workers = call_.repeat(worker, threads.workers);
    bytes = call_.total();
  }
};

// Draws or copies the projection, and lets the call read it.
template <class E>
void prepare_projection(const LinearLayout<E>& layout, std::byte* scratch, LinearCall<E>& call);

extern template void prepare_projection(const LinearLayout<float>&, std::byte*, LinearCall<float>&);
extern template void prepare_projection(const LinearLayout<double>&, std::byte*,
                                        LinearCall<double>&);

// The state of a head at `flat` in a tensor of states [..., features + 1, value_dim + 1].
template <class E>
void load_state(const TensorView& states, const LinearCall<E>& call, int64_t flat,
                ChunkSums<E>& sums) noexcept;
template <class E>
void store_state(const ChunkSums<E>& sums, const LinearCall<E>& call, int64_t flat,
                 const TensorView& states) noexcept;

extern template void load_state(const TensorView&, const LinearCall<float>&, int64_t,
                                ChunkSums<float>&) noexcept;
extern template void load_state(const TensorView&, const LinearCall<double>&, int64_t,
                                ChunkSums<double>&) noexcept;
extern template void store_state(const ChunkSums<float>&, const LinearCall<float>&, int64_t,
                                 const TensorView&) noexcept;
extern template void store_state(const ChunkSums<double>&, const LinearCall<double>&, int64_t,
                                 const TensorView&) noexcept;

}  // namespace rapt
