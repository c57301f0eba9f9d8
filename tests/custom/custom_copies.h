#pragma once
// Copies of the catalogue's scores and normalisers, written as a caller's project would write them:
// their formulas over the words of the scalar set, as the hooks of custom_score.h and
// custom_normalizer.h. On the scalar set they have the same arithmetic and therefore the same bits,
// where scores are in natural units. On other sets they must agree with the reference like the
// catalogue's.
#include <memory>
#include <vector>

#include "check/compare/case.h"
#define RAPT_ISA isa_scalar
#include "kernels/simd/scalar.h"
#undef RAPT_ISA

namespace laws {

template <class E>
using Words =
    std::conditional_t<std::is_same_v<E, float>, rapt::isa_scalar::F, rapt::isa_scalar::D>;

template <class S>
struct CopyOfScore {
  S score;  // first, so that the parameters of the declaration are found here

  static constexpr bool kUsesBefore = S::kUsesBefore, kUsesAfter = S::kUsesAfter;
  const rapt::Declaration& declaration() const noexcept { return S::kDeclaration; }
  void check(rapt::Shape leading) const {
    if constexpr (requires { score.check(leading); })
      score.check(leading);
    else if constexpr (requires { score.check(); })
      score.check();
  }
  template <class E>
  void apply(rapt::Tile<E>& t) const noexcept {
    score.template apply<Words<E>>(t);
  }
  template <class E>
  void backward(const E* before, const E* after, rapt::Tile<E>& t, E* sums) const noexcept {
    score.template backward<Words<E>>(before, after, t, sums);
  }
  template <class E>
  void tangent(const E* before, rapt::Tile<E>& t, const double* parameters) const noexcept {
    score.template tangent<Words<E>>(before, t, parameters);
  }
  template <class E>
  void backward_tangent(const E* before, const E* before_tangents, rapt::Tile<E>& t, E* d_tangents,
                        const double* parameters, E* sums) const noexcept {
    score.template backward_tangent<Words<E>>(before, before_tangents, t, d_tangents, parameters,
                                              sums);
  }
};

template <class N>
struct CopyOfNormalizer {
  N normalizer;  // first, as above

  static constexpr rapt::Statistic kStatistic = N::kStatistic;
  static constexpr bool kMergeable = N::kMergeable, kEntropy = N::kEntropy;
  static constexpr int kStateRows = N::kStateRows;
  static constexpr bool kSharesWithoutWeight = requires { N::kSharesWithoutWeight; };
  static constexpr bool kBeginsPartsOtherwise = requires(const N& n, rapt::Tile<float>& t) {
    n.template begin_part<Words<float>>(t);
  };
  const rapt::Declaration& declaration() const noexcept { return N::kDeclaration; }
  template <class E>
  void begin(rapt::Tile<E>& t) const noexcept {
    normalizer.template begin<Words<E>>(t);
  }
  template <class E>
  void apply(rapt::Tile<E>& t) const noexcept {
    normalizer.template apply<Words<E>>(t);
  }
  template <class E>
  void finish(rapt::Tile<E>& t, const rapt::Finish<E>& result) const noexcept {
    normalizer.template finish<Words<E>>(t, result);
  }
  // Custom normalisers begin each chunk of a row alike, which sinks must not.
  template <class E>
  requires requires(const N& n, rapt::Tile<E>& t, E* e) {
    n.template merge<Words<E>>(t, t, e, e);
    requires !kBeginsPartsOtherwise;
  }
  void merge(rapt::Tile<E>& total, const rapt::Tile<E>& part, E* total_factor,
             E* part_factor) const noexcept {
    normalizer.template merge<Words<E>>(total, part, total_factor, part_factor);
  }
  template <class E>
  void weights(rapt::Tile<E>& t) const noexcept {
    normalizer.template weights<Words<E>>(t);
  }
  template <class E>
  void backward(rapt::Tile<E>& t, E* d_weights, const E* statistic, const E* delta) const noexcept {
    normalizer.template backward<Words<E>>(t, d_weights, statistic, delta);
  }
  template <class E>
  requires requires(const N& n, rapt::Tile<E>& t, E* e) {
    n.template backward_rows<Words<E>>(t, e, e, e);
  }
  void backward_rows(rapt::Tile<E>& t, const E* statistic, const E* delta, E* sums) const noexcept {
    normalizer.template backward_rows<Words<E>>(t, statistic, delta, sums);
  }
  template <class E>
  void tangent(rapt::Tile<E>& t, E* tangents, const E* statistic) const noexcept {
    normalizer.template tangent<Words<E>>(t, tangents, statistic);
  }
  template <class E>
  void backward_tangent(rapt::Tile<E>& t, const rapt::SecondTile<E>& second) const noexcept {
    normalizer.template backward_tangent<Words<E>>(t, second);
  }
};

// Makes the options of a case use copies, which live as long as this object.
class Copies {
 public:
  explicit Copies(check::Case& c) {
    std::vector<rapt::ScoreRef> refs;
    for (const rapt::MadeScore& made : c.scores) refs.push_back(copied(made.ref, rapt::Scores{}));
    c.options.scores = refs;
    take(c.options, rapt::Normalizers{});
  }

  size_t count() const { return owned_.size(); }
  // Whether long rows are summed in chunks by both or by neither.
  bool sums_in_the_same_order(int64_t k_len) const {
    constexpr int64_t kChunkKeys = 1024;  // attention/plan/tiling.h
    return k_len <= kChunkKeys || !begins_parts_otherwise_;
  }

 private:
  template <class... S>
  rapt::ScoreRef copied(const rapt::ScoreRef& given, rapt::TypeList<S...>) {
    rapt::ScoreRef ref;
    const auto try_one = [&]<class T>(const T*) {
      if (given.index != rapt::index_in<T>(rapt::Scores{})) return;
      const auto copy =
          std::make_shared<CopyOfScore<T>>(CopyOfScore<T>{*static_cast<const T*>(given.object)});
      owned_.push_back(copy);
      ref = *copy;
    };
    (try_one(static_cast<const S*>(nullptr)), ...);
    return ref;
  }

  // Sparse normalisers have hooks that custom ones lack, so they are not replaced.
  template <class... N>
  void take(rapt::AttentionOptions& options, rapt::TypeList<N...>) {
    const int index = options.normalizer.index;
    const auto try_one = [&]<class T>(const T*) {
      if constexpr (requires { &T::template apply<Words<float>>; }) {
        if (index != rapt::index_in<T>(rapt::Normalizers{})) return;
        const auto copy = std::make_shared<CopyOfNormalizer<T>>(
            CopyOfNormalizer<T>{*static_cast<const T*>(options.normalizer.object)});
        begins_parts_otherwise_ = CopyOfNormalizer<T>::kBeginsPartsOtherwise;
        owned_.push_back(copy);
        options.normalizer = *copy;
      }
    };
    (try_one(static_cast<const N*>(nullptr)), ...);
  }

  std::vector<std::shared_ptr<void>> owned_;
  bool begins_parts_otherwise_ = false;
};

}  // namespace laws
