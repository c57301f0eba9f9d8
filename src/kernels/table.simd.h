// The kernel tables of one instruction set: what kernel_table.h declares, filled in.
//
// *.simd.h = compiled once per instruction set, inside namespace rapt::isa_<set>; isa_tu.cpp
// includes simd/<set>.h first. No standard library and no concrete mask here: a weak symbol
// compiled for a set could be picked by the linker for every CPU (dev/check_isa_leaks.sh).
#include "kernels/products.simd.h"
#include "kernels/rows.simd.h"
#include "rapt/variants.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class N>
constexpr NormalizerKernels<typename V::Element> normalizer_kernels() {
  using E = typename V::Element;
  NormalizerKernels<E> k = {};
  k.statistic = N::kStatistic;
  k.whole_row = N::kWholeRow;
  k.extra = N::kExtra;
  k.takes_log2 = N::kTakesLog2;
  k.state_rows = N::kStateRows;
  k.candidates = N::kCandidates;
  k.begin = [](const void* n, Tile<E>& t) noexcept {
    static_cast<const N*>(n)->template begin<V>(t);
  };
  if constexpr (N::kWholeRow) {
    k.collect = [](const void* n, Tile<E>& t) noexcept {
      static_cast<const N*>(n)->template collect<V>(t);
    };
    k.solve = [](const void* n, Tile<E>& t) noexcept {
      return static_cast<const N*>(n)->template solve<V>(t);
    };
  }
  k.apply = [](const void* n, Tile<E>& t) noexcept {
    static_cast<const N*>(n)->template apply<V>(t);
  };
  k.weights = [](const void* n, Tile<E>& t) noexcept {
    static_cast<const N*>(n)->template weights<V>(t);
  };
  k.finish = [](const void* n, Tile<E>& t, Finish<E> result) noexcept {
    static_cast<const N*>(n)->template finish<V>(t, result);
  };
  return k;
}

template <class V, class S>
constexpr ScoreKernels<typename V::Element> score_kernels() {
  using E = typename V::Element;
  return {
      [](const void* s, Tile<E>& t) noexcept { static_cast<const S*>(s)->template apply<V>(t); }};
}

// The lists of the catalogue as arrays of functions. The last element only keeps them from being
// empty.
template <class V, class Normalizers, class Scores>
struct Tables;
template <class V, class... N, class... S>
struct Tables<V, TypeList<N...>, TypeList<S...>> {
  using E = typename V::Element;
  static constexpr NormalizerKernels<E> normalizers[] = {normalizer_kernels<V, N>()..., {}};
  static constexpr ScoreKernels<E> score_list[] = {score_kernels<V, S>()..., {}};
  static constexpr ProductKernels<E> products[kMaxVectors] = {
      {scores<V, 1>, output<V, 1>},
      {scores<V, 2>, output<V, 2>},
      {scores<V, V::kMaxVectors>, output<V, V::kMaxVectors>}};
  static constexpr KernelTable<E> table = {
      RAPT_ISA_NAME, V::kLanes,       V::kMaxVectors, products,    normalizers,
      score_list,    pack_queries<V>, exclude<V>,     add_bias<V>, output_of_bits<V>,
      all_finite<V>, store_rows<V>,   fma_loop<V>};
};

template <class V>
constexpr const KernelTable<double>* float64_table() {
  if constexpr (__is_same(V, void))
    return nullptr;
  else
    return &Tables<V, Normalizers, Scores>::table;
}

}  // namespace

IsaTables tables() noexcept { return {&Tables<F, Normalizers, Scores>::table, float64_table<D>()}; }

}  // namespace rapt::RAPT_ISA
