#pragma once
// The hooks of the normalisers, compiled for one vector type.
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

// The hooks of sparse normalisers, which list pairs instead of making whole tiles of weights.
template <class V, class N>
constexpr void add_sparse_hooks(NormalizerKernels<typename V::Element>& k) {
  using E = typename V::Element;
  k.collect = [](const void* n, Tile<E>& t) noexcept {
    static_cast<const N*>(n)->template collect<V>(t);
  };
  k.settle = [](const void* n, Tile<E>& t, int64_t query) noexcept {
    return static_cast<const N*>(n)->template settle<V>(t, query);
  };
  k.pairs = [](const void* n, const Tile<E>& t, const E* statistic, const E* delta,
               const uint64_t* bits, int64_t most, bool numbers, SparsePair<E>* pairs) noexcept {
    return static_cast<const N*>(n)->template pairs<V>(t, statistic, delta, bits, most, numbers,
                                                       pairs);
  };
  k.bounds = [](const void* n, const Tile<E>& t, const E* statistic, const E* delta,
                E* bounds) noexcept {
    static_cast<const N*>(n)->template bounds<V>(t, statistic, delta, bounds);
  };
  if constexpr (requires { N::kDeltaRows; }) {
    k.delta_rows = N::kDeltaRows;
    k.cut_capacity = [](const void* n, int64_t k_len, int64_t block) noexcept {
      return static_cast<const N*>(n)->template cut_capacity<V>(k_len, block);
    };
    k.find_cut = [](const void* n, Tile<E>& t, E* cut) noexcept {
      static_cast<const N*>(n)->template find_cut<V>(t, cut);
    };
    k.settle_cut = [](const void* n, Tile<E>& t, E* cut) noexcept {
      static_cast<const N*>(n)->template settle_cut<V>(t, cut);
    };
  } else {
    k.add_slopes = [](const void* n, Tile<E>& t, const E* d_weights, const E* statistic,
                      bool numbers, E* sums) noexcept {
      static_cast<const N*>(n)->template add_slopes<V>(t, d_weights, statistic, numbers, sums);
    };
    k.delta = [](const void* n, const Tile<E>& t, const E* sums, const E* statistic,
                 const E* d_statistic, E* delta, E* number_sums) noexcept {
      static_cast<const N*>(n)->template delta<V>(t, sums, statistic, d_statistic, delta,
                                                  number_sums);
    };
  }
}

// The hooks of rows that are summed in parts.
template <class V, class N>
constexpr void add_merge_hooks(NormalizerKernels<typename V::Element>& k) {
  using E = typename V::Element;
  if constexpr (requires(const N& n, Tile<E>& t, E* e) { n.template merge<V>(t, t, e, e); }) {
    k.merge = [](const void* n, Tile<E>& total, const Tile<E>& part, E* total_factor,
                 E* part_factor) noexcept {
      static_cast<const N*>(n)->template merge<V>(total, part, total_factor, part_factor);
    };
    k.begin_part = k.begin;
    if constexpr (requires(const N& n, Tile<E>& t) { n.template begin_part<V>(t); })
      k.begin_part = [](const void* n, Tile<E>& t) noexcept {
        static_cast<const N*>(n)->template begin_part<V>(t);
      };
  }
}

// The hooks of gradients and tangents that the normaliser has.
template <class V, class N>
constexpr void add_gradient_hooks(NormalizerKernels<typename V::Element>& k) {
  using E = typename V::Element;
  if constexpr (requires(const N& n, Tile<E>& t, E* e) { n.template backward<V>(t, e, e, e); })
    k.backward = [](const void* n, Tile<E>& t, E* d_weights, const E* statistic,
                    const E* delta) noexcept {
      static_cast<const N*>(n)->template backward<V>(t, d_weights, statistic, delta);
    };
  if constexpr (requires(const N& n, Tile<E>& t, E* e) { n.template backward_rows<V>(t, e, e, e); })
    k.backward_rows = [](const void* n, Tile<E>& t, const E* statistic, const E* delta,
                         E* sums) noexcept {
      static_cast<const N*>(n)->template backward_rows<V>(t, statistic, delta, sums);
    };
  if constexpr (requires(const N& n, Tile<E>& t, E* e, SecondTile<E>& s) {
                  n.template tangent<V>(t, e, e);
                  n.template backward_tangent<V>(t, s);
                }) {
    k.tangent = [](const void* n, Tile<E>& t, E* tangents, const E* statistic) noexcept {
      static_cast<const N*>(n)->template tangent<V>(t, tangents, statistic);
    };
    k.backward_tangent = [](const void* n, Tile<E>& t, const SecondTile<E>& second) noexcept {
      static_cast<const N*>(n)->template backward_tangent<V>(t, second);
    };
  }
  k.learned = k.backward_rows || requires { N::kLearned; };
  if constexpr (requires { N::kSharesWithoutWeight; })
    k.shares_without_weight = N::kSharesWithoutWeight;
}

template <class V, class N>
constexpr NormalizerKernels<typename V::Element> normalizer_kernels() {
  using E = typename V::Element;
  NormalizerKernels<E> k = {};
  k.statistic = N::kStatistic;
  k.takes_log2 = N::kTakesLog2;
  k.entropy = N::kEntropy;
  k.state_rows = N::kStateRows;
  k.delta_rows = 1;
  if constexpr (requires { N::kHeadInBegin; }) k.head_in_begin = N::kHeadInBegin;
  k.begin = [](const void* n, Tile<E>& t) noexcept {
    static_cast<const N*>(n)->template begin<V>(t);
  };
  if constexpr (requires(const N& n, Tile<E>& t) { n.template settle<V>(t, 0); }) {
    add_sparse_hooks<V, N>(k);
  } else {
    k.apply = [](const void* n, Tile<E>& t) noexcept {
      static_cast<const N*>(n)->template apply<V>(t);
    };
  }
  add_merge_hooks<V, N>(k);
  add_gradient_hooks<V, N>(k);
  k.weights = [](const void* n, Tile<E>& t) noexcept {
    static_cast<const N*>(n)->template weights<V>(t);
  };
  k.finish = [](const void* n, Tile<E>& t, const Finish<E>& result) noexcept {
    static_cast<const N*>(n)->template finish<V>(t, result);
  };
  return k;
}

// The normalisers of the catalogue as an array. The last element only keeps it from being empty.
template <class V, class Normalizers>
struct NormalizerList;
template <class V, class... N>
struct NormalizerList<V, TypeList<N...>> {
  static constexpr NormalizerKernels<typename V::Element> all[] = {normalizer_kernels<V, N>()...,
                                                                   {}};
};
template <class V, class Normalizers>
constexpr const NormalizerKernels<typename V::Element>* kNormalizers =
    NormalizerList<V, Normalizers>::all;

}  // namespace
}  // namespace rapt::RAPT_ISA
