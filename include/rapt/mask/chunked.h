#pragma once
// Chunks of `size` positions that attend to themselves and to neighbouring chunks: with
// c = floor((i + o) / size), o as in causal.h, query i may attend to key j where
//   c - back <= floor(j / size) <= c + forward.
// With back = forward = 0 a query attends to its own chunk, as in the chunked layers of Llama 4
// beside a causal mask. chunked(size, -1, 0) is causal by chunks, as in block diffusion.
// Source: Kitaev et al. 2020 (Reformer), arXiv:2001.04451, section 2: chunks that attend to
// themselves and one back.
#include "rapt/mask/mask.h"

namespace rapt {

class Chunked final : public Mask {
 public:
  int64_t size = 0;     // positions of a chunk, >= 1
  int64_t back = 0;     // chunks before its own that a query may attend to; -1 = all
  int64_t forward = 0;  // chunks after it; -1 = all
  Anchor anchor = Anchor::top_left;
  TensorView lengths;  // as in causal.h: the bottom-right corner of each batch; or absent

  Chunked() = default;  // without a size; check() rejects it
  explicit Chunked(int64_t positions, int64_t before = 0, int64_t after = 0,
                   Anchor at = Anchor::top_left)
      : size(positions), back(before), forward(after), anchor(at) {}
  Chunked(int64_t positions, int64_t before, int64_t after, const TensorView& counts)
      : size(positions),
        back(before),
        forward(after),
        anchor(Anchor::bottom_right),
        lengths(counts) {}
  template <TemporaryTensor T>
  Chunked(int64_t, int64_t, int64_t, T&&) = delete;

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;
  // 1 if a query attends to all chunks on one side: a tile of two chunks computes little more.
  int64_t query_group() const noexcept override { return back < 0 || forward < 0 ? 1 : size; }
};

}  // namespace rapt
