#pragma once
// The kernel tables of one instruction set: what kernel_table.h declares, filled in.
//
// *.simd.h = compiled once per instruction set, inside namespace rapt::isa_<set>; isa_tu.cpp
// includes simd/<set>.h first. No standard library and no concrete mask here: a weak symbol
// compiled for a set could be picked by the linker for every CPU (dev/check_isa_leaks.sh).
#include "kernels/vector/captures.simd.h"
#include "kernels/vector/dropout.simd.h"
#include "kernels/vector/few_queries.simd.h"
#include "kernels/vector/few_rows.simd.h"
#include "kernels/vector/gradients.simd.h"
#include "kernels/vector/linear.simd.h"
#include "kernels/vector/long_lists.simd.h"
#include "kernels/vector/matrix_products.simd.h"
#include "kernels/vector/normalizers.simd.h"
#include "kernels/vector/packed_products.simd.h"
#include "kernels/vector/products.simd.h"
#include "kernels/vector/relative.simd.h"
#include "kernels/vector/row_transforms.simd.h"
#include "kernels/vector/rows.simd.h"
#include "kernels/vector/scores.simd.h"
#include "kernels/vector/sparse.simd.h"
#include "rapt/variants.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S>
constexpr ScoreKernels<typename V::Element> score_kernels() {
  using E = typename V::Element;
  ScoreKernels<E> k = {};
  k.apply = [](const void* s, Tile<E>& t) noexcept {
    static_cast<const S*>(s)->template apply<V>(t);
  };
  if constexpr (requires { S::kPlaceless; }) k.placeless = S::kPlaceless;
  if constexpr (requires { S::kUsesBefore; }) {
    k.uses_before = S::kUsesBefore;
    k.uses_after = S::kUsesAfter;
    k.backward = [](const void* s, const E* before, const E* after, Tile<E>& t, E* sums) noexcept {
      static_cast<const S*>(s)->template backward<V>(before, after, t, sums);
    };
  }
  if constexpr (requires(const S& s, Tile<E>& t, E* e, const double* p) {
                  s.template tangent<V>(e, t, p);
                  s.template backward_tangent<V>(e, e, t, e, p, e);
                }) {
    k.tangent = [](const void* s, const E* before, Tile<E>& t, const double* parameters) noexcept {
      static_cast<const S*>(s)->template tangent<V>(before, t, parameters);
    };
    k.backward_tangent = [](const void* s, const E* before, const E* before_tangents, Tile<E>& t,
                            E* d_tangents, const double* parameters, E* sums) noexcept {
      static_cast<const S*>(s)->template backward_tangent<V>(before, before_tangents, t, d_tangents,
                                                             parameters, sums);
    };
  }
  return k;
}

template <class V, int Vectors>
constexpr ProductKernels<typename V::Element> product_kernels() {
  if constexpr (Vectors <= V::kMaxVectors)
    return {.scores = scores<V, Vectors>, .output = output<V, Vectors>};
  else
    return {};
}
template <class V>
constexpr ProductKernels<typename V::Element> kProducts[kMaxVectors] = {
    product_kernels<V, 1>(), product_kernels<V, 2>(), product_kernels<V, 3>(),
    product_kernels<V, 4>()};

template <class V, class S>
constexpr RouteKernels<typename V::Element> kRoute = {
    .kernel = "tile",
    .step = 1,
    .element_size = sizeof(typename V::Element),
    .weight_size = sizeof(typename V::Element),
    .keys_in_place = !S::kConverts,
    .values_in_place = !S::kConverts,
    .products = kProducts<V>,
    .grain = 1,
    .long_vectors = V::kLongVectors,
    .pack_queries = pack_queries<V, S>,
    .pack_keys = pack_rows<V, S>,
    .pack_values = pack_rows<V, S>,
    .pack_rows = pack_rows<V, S>,
    .output_of_bits = output_of_bits<V>,
    .all_finite = all_finite<V, AsElement<V>>,
    .key_gradients = {.add = add_to_keys<V>, .add_of_bits = add_to_keys_of_bits<V>}};

// The route for at most `Rows` queries; null where a tile of the fma route is as fast, because each
// query costs an FMA per vector of elements here, and each element one per vector of queries there.
// The fma route also has to convert elements of 16 bits, so for them queries may fill a vector.
template <class V, class S, int Rows>
constexpr ProductKernels<typename V::Element> kFewProducts[kMaxVectors] = {
    {.scores = scores_of_few<V, S, Rows>, .output = output_of_few<V, S, Rows>}};
template <class V, class S, int Rows>
constexpr RouteKernels<typename V::Element> kFewRoute = {
    .kernel = "few queries",
    .step = 1,
    .element_size = sizeof(typename S::Stored),
    .weight_size = sizeof(typename V::Element),
    .keys_in_place = true,
    .values_in_place = true,
    .reads_runs = true,
    .products = kFewProducts<V, S, Rows>,
    .grain = 1,
    .long_vectors = 1,
    .pack_queries = pack_queries<V, S>,
    .pack_keys = pack_rows<V, S>,
    .pack_values = pack_rows<V, S>,
    .pack_rows = pack_rows<V, S>,
    .output_of_bits = few_output_of_bits<V, S>,
    .all_finite = all_finite<V, S>,
    .key_gradients = {.add = add_to_keys<V>, .add_of_bits = add_to_keys_of_bits<V>}};
template <class V, class S, int Rows>
constexpr const RouteKernels<typename V::Element>* few_route() {
  if constexpr ((S::kConverts ? 1 : 2) * Rows <= V::kLanes)
    return &kFewRoute<V, S, Rows>;
  else
    return nullptr;
}
template <class V, class S>
constexpr const RouteKernels<typename V::Element>* kFewRoutes[kFewWidths] = {
    few_route<V, S, 1>(), few_route<V, S, 2>(), few_route<V, S, 4>(), few_route<V, S, 8>()};

// The kernels that differ between the storage types of E, by DType.
template <class V, class E = typename V::Element>
struct Storages;
template <class V>
struct Storages<V, float> {
  static constexpr const RouteKernels<float>* kRoutes[kStorageTypes] = {
      &kRoute<V, AsElement<V>>, nullptr, &kRoute<V, AsBFloat16<V>>, &kRoute<V, AsFloat16<V>>};
  static constexpr const RouteKernels<float>* const* kFew[kStorageTypes] = {
      kFewRoutes<V, AsElement<V>>, nullptr, kFewRoutes<V, AsBFloat16<V>>,
      kFewRoutes<V, AsFloat16<V>>};
  static constexpr void fill(KernelTable<float>& t) {
    t.fma = kRoutes;
    t.few_queries = kFew;
    t.gradients.store_key_rows[0] = store_key_rows<V, AsElement<V>>;
    t.gradients.store_key_rows[2] = store_key_rows<V, AsBFloat16<V>>;
    t.gradients.store_key_rows[3] = store_key_rows<V, AsFloat16<V>>;
    t.matrices.pack_left[0] = pack_left<V, AsElement<V>>;
    t.matrices.pack_right[0] = pack_right<V, AsElement<V>>;
    t.matrices.few_rows[0] = few_rows<V, AsElement<V>>;
    t.matrices.few_rows_by_terms[0] = few_rows_by_terms<V, AsElement<V>>;
    t.matrices.pack_left[2] = pack_left<V, AsBFloat16<V>>;
    t.matrices.pack_right[2] = pack_right<V, AsBFloat16<V>>;
    t.matrices.few_rows[2] = few_rows<V, AsBFloat16<V>>;
    t.matrices.few_rows_by_terms[2] = few_rows_by_terms<V, AsBFloat16<V>>;
    t.matrices.pack_left[3] = pack_left<V, AsFloat16<V>>;
    t.matrices.pack_right[3] = pack_right<V, AsFloat16<V>>;
    t.matrices.few_rows[3] = few_rows<V, AsFloat16<V>>;
    t.matrices.few_rows_by_terms[3] = few_rows_by_terms<V, AsFloat16<V>>;
    t.matrices.store[0] = store_product<V, AsElement<V>>;
    t.matrices.store[2] = store_product<V, AsBFloat16<V>>;
    t.matrices.store[3] = store_product<V, AsFloat16<V>>;
    t.add_bias[0] = add_bias<V, AsElement<V>>, t.store_rows[0] = store_rows<V, AsElement<V>>;
    t.add_bias[2] = add_bias<V, AsBFloat16<V>>, t.store_rows[2] = store_rows<V, AsBFloat16<V>>;
    t.add_bias[3] = add_bias<V, AsFloat16<V>>, t.store_rows[3] = store_rows<V, AsFloat16<V>>;
  }
};
template <class V>
struct Storages<V, double> {
  static constexpr const RouteKernels<double>* kRoutes[kStorageTypes] = {
      nullptr, &kRoute<V, AsElement<V>>, nullptr, nullptr};
  static constexpr const RouteKernels<double>* const* kFew[kStorageTypes] = {
      nullptr, kFewRoutes<V, AsElement<V>>, nullptr, nullptr};
  static constexpr void fill(KernelTable<double>& t) {
    t.fma = kRoutes;
    t.few_queries = kFew;
    t.gradients.store_key_rows[1] = store_key_rows<V, AsElement<V>>;
    t.matrices.pack_left[1] = pack_left<V, AsElement<V>>;
    t.matrices.pack_right[1] = pack_right<V, AsElement<V>>;
    t.matrices.few_rows[1] = few_rows<V, AsElement<V>>;
    t.matrices.few_rows_by_terms[1] = few_rows_by_terms<V, AsElement<V>>;
    t.matrices.store[1] = store_product<V, AsElement<V>>;
    t.add_bias[1] = add_bias<V, AsElement<V>>, t.store_rows[1] = store_rows<V, AsElement<V>>;
  }
};

// The variants of the catalogue as arrays of functions. The last element only keeps them from being
// empty.
template <class V, class Normalizers, class Scores>
struct Tables;
template <class V, class... N, class... S>
struct Tables<V, TypeList<N...>, TypeList<S...>> {
  using E = typename V::Element;
  static constexpr ScoreKernels<E> score_list[] = {score_kernels<V, S>()..., {}};
  static constexpr KernelTable<E> make() {
    KernelTable<E> t = {};
    t.isa = RAPT_ISA_NAME;
    t.lanes = V::kLanes, t.max_vectors = V::kMaxVectors;
    t.normalizers = kNormalizers<V, TypeList<N...>>, t.scores = score_list;
    t.captures = {.keep_top = keep_top<V>,
                  .append_to_long = LongLists::append_tile<V>,
                  .settle_long = LongLists::settle<V>,
                  .add_received = add_received<V>,
                  .pool = pool<V>};
    t.gradients.add_dots = add_dots<V>;
    t.gradients.add_bias_gradient = add_bias_gradient<V>;
    t.gradients.add_sums = add_sums<V>;
    t.gradients.sum_of_tile = sum_of_tile<V>;
    t.dropout = {draw, keep<V>};
    t.row_transforms = {rotate<V>, combine<V>};
    t.sparse = {add_rows<V>, add_pair_slopes<V>, add_pair_gradients<V>};
    t.relative = {add_by_distance<V>, take_by_distance<V>, add_row<V>};
    t.matrices.tile_rows = kTileRows<V>, t.matrices.panel_vectors = kPanelVectors;
    t.matrices.multiply_panel = multiply_panel_of<V>;
    t.matrices.add_left_sums = add_left_sums<V>;
    t.matrices.add_column_sums = add_column_sums<V>;
    t.exclude = exclude<V>;
    t.find_max = find_max<V>;
    t.fma_loop = fma_loop<V>;
    t.linear = kLinear<V>;
    Storages<V>::fill(t);
    return t;
  }
  static constexpr KernelTable<E> table = make();
};

}  // namespace

IsaTables tables() noexcept {
  return {&Tables<F, Normalizers, Scores>::table, &Tables<D, Normalizers, Scores>::table};
}

}  // namespace rapt::RAPT_ISA
