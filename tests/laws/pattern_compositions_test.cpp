// Compositions of calls by the patterns of their masks (docs/compositions.md) equal their formulas
// in plain loops. Their gradients equal finite differences of the plain loops.
#include <gtest/gtest.h>

#include "laws/compositions.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"

namespace laws {
namespace {

// Adds `rows` [heads, n, dim] to the rows of `to` from `begin` on.
void add_rows(Tensor& to, const Tensor& rows, int64_t begin) {
  for_each(rows,
           [&](int64_t h, int64_t i, int64_t d) { at(to, h, begin + i, d) += at(rows, h, i, d); });
}

Tensor rows_from(const Tensor& of, int64_t begin, int64_t end) {
  Tensor rows = zeros(of.dim(0), end - begin, of.dim(2));
  for_each(rows,
           [&](int64_t h, int64_t i, int64_t d) { at(rows, h, i, d) = at(of, h, begin + i, d); });
  return rows;
}

// The first rows attend to all keys by projections of their own, the others to a window and to the
// first keys. Inputs: query, key, value; those of the global rows, the query's for these rows
// alone.
TEST(Compositions, global_rows_with_projections_of_their_own) {
  constexpr int64_t kGlobal = 2, kReach = 2;
  const auto all = [](int64_t, int64_t) { return true; };
  Composition c;
  c.plain = [&](const Tensors& in) {
    const auto local = [](int64_t i, int64_t j) {
      return std::abs(i - j) <= kReach || j < kGlobal;
    };
    Tensor output = plain_product(plain_softmax(plain_scores(in[0], in[1]), local), in[2]);
    const Tensor global = plain_product(plain_softmax(plain_scores(in[3], in[4]), all), in[5]);
    for_each(global, [&](auto h, auto i, auto d) { at(output, h, i, d) = at(global, h, i, d); });
    return output;
  };
  c.composed = [&](const Tensors& in, const Tensor& d_output) {
    const int64_t n = in[0].dim(1);
    // Aligned bottom-right, the first of these queries stands at key kGlobal.
    const rapt::Window window(kReach, kReach, rapt::Anchor::bottom_right);
    const rapt::Prefix first(kGlobal);
    const rapt::Or either{&window, &first};
    AttentionOptions options;
    options.masks = {&either};
    Called local = call(in[0].view().slice(1, kGlobal, n), in[1], in[2], options,
                        [&](const Tensor&) { return rows_from(d_output, kGlobal, n); });
    Called global = call(in[3], in[4], in[5], AttentionOptions{},
                         [&](const Tensor&) { return rows_from(d_output, 0, kGlobal); });
    Composed composed{zeros(in[0].dim(0), n, in[2].dim(2)), {}};
    add_rows(composed.output, global.forward.output, 0);
    add_rows(composed.output, local.forward.output, kGlobal);
    Tensor d_query = zeros(in[0].dim(0), n, in[0].dim(2));
    add_rows(d_query, local.gradients.d_query, kGlobal);
    composed.gradients.push_back(std::move(d_query));
    composed.gradients.push_back(std::move(local.gradients.d_key));
    composed.gradients.push_back(std::move(local.gradients.d_value));
    composed.gradients.push_back(std::move(global.gradients.d_query));
    composed.gradients.push_back(std::move(global.gradients.d_key));
    composed.gradients.push_back(std::move(global.gradients.d_value));
    return composed;
  };
  expect_law(c, [](int64_t n, Random& random) {
    n += kGlobal;
    Tensors in;
    in.push_back(normal(random, 4, n, 6));
    in.push_back(normal(random, 2, n, 6));
    in.push_back(normal(random, 2, n, 5));
    in.push_back(normal(random, 4, kGlobal, 6));
    in.push_back(normal(random, 2, n, 6));
    in.push_back(normal(random, 2, n, 5));
    return in;
  });
}

// Positions i with the same i mod kStep are a class, a strided view of the rows. One call has the
// classes as a leading dimension, another the first keys, and their results are merged. Each part's
// backward pass gets the merged output and lse.
class DilationClasses {
 public:
  static constexpr int64_t kStep = 3, kReach = 1, kGlobal = 2;

  DilationClasses(const Tensors& in) : in_(in), heads_(in[0].dim(0)), n_(in[0].dim(1)) {
    for (int64_t r = 0; r < kStep; ++r)  // the first keys that are in class r
      counts_[r] = (kGlobal - r + kStep - 1) / kStep;
    options_.masks = {&window_, &others_};
    AttentionResult classes =
        scaled_dot_product_attention(by_class(in[0]), by_class(in[1]), by_class(in[2]), options_);
    merged_ = scaled_dot_product_attention(in[0], first(in[1]), first(in[2]), AttentionOptions{});
    const rapt::Softmax softmax;
    rapt::merge(state_by_class(), classes.state(), softmax);
  }

  const Tensor& output() const { return merged_.output; }

  Tensors gradients(const Tensor& d_output) {
    rapt::BackwardInputs inputs{state_by_class(), by_class(d_output), {}, {}};
    const rapt::Gradients classes = scaled_dot_product_attention_backward(
        by_class(in_[0]), by_class(in_[1]), by_class(in_[2]), options_, inputs);
    inputs = {merged_.state(), d_output, {}, {}};
    const rapt::Gradients columns = scaled_dot_product_attention_backward(
        in_[0], first(in_[1]), first(in_[2]), AttentionOptions{}, inputs);
    Tensors sums;
    sums.push_back(sum(classes.d_query, columns.d_query));
    sums.push_back(sum(classes.d_key, columns.d_key));
    sums.push_back(sum(classes.d_value, columns.d_value));
    return sums;
  }

 private:
  // [heads, n, dim] as [heads, kStep, n / kStep, dim].
  template <class T>  // Tensor or const Tensor
  static TensorView by_class(T& rows) {
    return TensorView(rows.template values<double>().data(),
                      {rows.dim(0), rows.dim(1) / kStep, kStep, rows.dim(2)})
        .transposed(1, 2);
  }
  static TensorView first(const Tensor& rows) { return rows.view().slice(1, 0, kGlobal); }

  rapt::AttentionState state_by_class() {
    return {by_class(merged_.output),
            TensorView(merged_.statistic.values<double>().data(), {heads_, n_ / kStep, kStep})
                .transposed(1, 2)};
  }

  // Of gradients of all classes and gradients of the first rows.
  static Tensor sum(const Tensor& classes, const Tensor& from_first) {
    Tensor to = zeros(classes.dim(0), kStep * classes.dim(2), classes.dim(3));
    const auto* element = classes.values<double>().data();
    for (int64_t h = 0; h < classes.dim(0); ++h)
      for (int64_t r = 0; r < kStep; ++r)
        for (int64_t i = 0; i < classes.dim(2); ++i)
          for (int64_t d = 0; d < classes.dim(3); ++d) at(to, h, i * kStep + r, d) = *element++;
    add_rows(to, from_first, 0);
    return to;
  }

  const Tensors& in_;
  const int64_t heads_, n_;
  int64_t counts_[kStep];
  const rapt::Window window_{kReach, kReach};
  const rapt::TensorView counts_view_{counts_, {1, kStep}};
  const rapt::Prefix global_{counts_view_};  // the other call has these keys
  const rapt::Not others_{&global_};
  AttentionOptions options_;
  AttentionResult merged_;
};

TEST(Compositions, dilation_classes_merged_with_global_columns) {
  using Classes = DilationClasses;
  Composition c;
  c.plain = [](const Tensors& in) {
    const auto allowed = [](int64_t i, int64_t j) {
      const int64_t apart = std::abs(i - j);
      return j < Classes::kGlobal ||
             (apart % Classes::kStep == 0 && apart <= Classes::kReach * Classes::kStep);
    };
    return plain_product(plain_softmax(plain_scores(in[0], in[1]), allowed), in[2]);
  };
  c.composed = [](const Tensors& in, const Tensor& d_output) {
    Classes classes(in);
    return Composed{Tensor::copy_of(classes.output()), classes.gradients(d_output)};
  };
  expect_law(c, [](int64_t n, Random& random) {
    n = (n + Classes::kStep - 1) / Classes::kStep * Classes::kStep;
    Tensors in;
    for (const int64_t dim : {6, 6, 5}) in.push_back(normal(random, 2, n, dim));
    return in;
  });
}

}  // namespace
}  // namespace laws
