#include "rapt/nn/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocation_hooks.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "rapt/dropout.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;

struct DropoutProblem {
  DropoutProblem(double p, std::vector<int64_t> shape, DType dtype)
      : layer{.probability = p, .stream = 3},
        x(normal(dtype, shape, 1)),
        d_y(normal(dtype, shape, 2)),
        y(normal(dtype, shape, 3)),
        d_x(normal(dtype, shape, 4)) {}
  void operator()(const Context& context = {}, bool add = false) {
    Counted{.context = context, .training = training, .seed = seed}(
        [&](nn::Arena&, const nn::Run& run) {
          forward(layer, x, y, run, add);
          backward(layer, d_y, d_x, run, add);
        });
  }
  nn::Dropout layer;
  Tensor x, d_y, y, d_x;
  bool training = true;
  uint64_t seed = 11;
};

// The mask of attention's dropout, whose queries are columns and whose keys are rows.
std::vector<bool> kept_elements(uint64_t seed, double p, int64_t rows, int64_t columns) {
  Tensor kept(DType::boolean, {columns, rows});
  dropout_mask({p, seed}, kept);
  std::vector<bool> result;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      result.push_back(kept.values<bool>()[static_cast<size_t>(c * rows + r)]);
  return result;
}

TEST(Dropout, KeepsWhatAttentionsGeneratorKeeps) {
  const std::vector<int64_t> shapes[] = {{1}, {5, 7}, {2, 33, 100}, {3, 2500}, {130, 3}, {0, 4}};
  for (const std::vector<int64_t>& shape : shapes)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (const double p : {0.25, 0.9}) {
        DropoutProblem problem(p, shape, dtype);
        const std::vector<double> before = values_of(problem.y), x = values_of(problem.x);
        const std::vector<double> d_y = values_of(problem.d_y);
        const std::vector<bool> kept =
            kept_elements(nn::stream_seed(11, 3), p,
                          shape.back() == 0 ? 0 : problem.x.count() / shape.back(), shape.back());
        problem();
        const std::vector<double> y = values_of(problem.y), d_x = values_of(problem.d_x);
        for (size_t i = 0; i < x.size(); ++i) {
          const double factor = kept[i] ? 1 / (1 - p) : 0;
          EXPECT_NEAR(y[i], x[i] * factor, rounding_of(dtype) * std::abs(x[i] * factor) * 2.01);
          EXPECT_NEAR(d_x[i], d_y[i] * factor,
                      rounding_of(dtype) * std::abs(d_y[i] * factor) * 2.01);
        }
        DropoutProblem adds(p, shape, dtype);
        adds({}, true);
        const std::vector<double> sums = values_of(adds.y);
        for (size_t i = 0; i < x.size(); ++i)
          EXPECT_NEAR(sums[i], before[i] + y[i],
                      2 * rounding_of(dtype) * (std::abs(before[i]) + std::abs(y[i]) + 1));
      }
}

TEST(Dropout, EveryStreamAndSeedDrawsOthers) {
  const auto kept = [](uint64_t seed, uint64_t stream) {
    DropoutProblem p(0.5, {64, 64}, DType::f32);
    p.seed = seed, p.layer.stream = stream;
    p();
    return values_of(p.y);
  };
  const std::vector<double> a = kept(1, 0), b = kept(1, 1), c = kept(2, 0);
  const auto both = [](const std::vector<double>& u, const std::vector<double>& v) {
    int count = 0;
    for (size_t i = 0; i < u.size(); ++i) count += u[i] != 0 && v[i] != 0;
    return count;
  };
  EXPECT_EQ(a, kept(1, 0));
  EXPECT_NEAR(both(a, a), 2048, 200);  // six standard deviations: 192
  EXPECT_NEAR(both(a, b), 1024, 170);
  EXPECT_NEAR(both(a, c), 1024, 170);
}

TEST(Dropout, CopiesUnlessItTrains) {
  for (const bool training : {true, false})
    for (const double p : {0.0, 0.5}) {
      if (training && p > 0) continue;
      DropoutProblem copied(p, {3, 70}, DType::bf16), added(p, {3, 70}, DType::f64);
      copied.training = added.training = training;
      const std::vector<double> before = values_of(added.y);
      copied(), added({}, true);
      EXPECT_EQ(values_of(copied.y), values_of(copied.x));
      EXPECT_EQ(values_of(copied.d_x), values_of(copied.d_y));
      for (size_t i = 0; i < before.size(); ++i)
        EXPECT_EQ(values_of(added.y)[i], before[i] + values_of(added.x)[i]);
    }
}

TEST(Dropout, InPlaceAndNaN) {
  DropoutProblem p(0.5, {70, 70}, DType::f32);
  for (size_t i = 0; i < 70; ++i) p.x.values<float>()[i] = NAN;
  p();
  for (size_t i = 0; i < 70 * 70; ++i) EXPECT_EQ(std::isnan(p.y.values<float>()[i]), i < 70);
  Tensor x = Tensor::copy_of(p.d_y);
  for (const bool training : {false, true}) {
    Counted{.training = training,
            .seed = 11}([&](nn::Arena&, const nn::Run& run) { forward(p.layer, x, x, run); });
    EXPECT_EQ(values_of(x), values_of(training ? p.d_x : p.d_y));
  }
}

TEST(Dropout, SameBitsForAnyThreads) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1000, 300}, {2, 150000}})
    expect_same_bits([&](const Context& context) {
      DropoutProblem p(0.1, shape, DType::f32);
      p(context);
      std::vector<Tensor> results;
      results.push_back(std::move(p.y)), results.push_back(std::move(p.d_x));
      return results;
    });
}

TEST(Dropout, AllocatesNothingAndRejects) {
  DropoutProblem p(0.5, {9, 9}, DType::f32);
  p();
  const std::vector<double> y = values_of(p.y);
  nn::Arena scratch(std::span<std::byte>{});
  const Context context;
  const nn::Run run{.scratch = scratch, .context = context, .training = true};
  if (RAPT_ALLOCATION_HOOKS) {
    laws::start_counting();
    forward(p.layer, p.x, p.d_x, run);
    EXPECT_EQ(laws::stop_counting().made, 0);
  }
  for (const double bad : {-0.1, 1.0, double{NAN}})
    expect_error(ErrorCode::argument, {"probability", "less than 1"},
                 [&] { forward({.probability = bad, .stream = 0}, p.x, p.y, run); });
  Tensor other(DType::f32, {81}), doubles(DType::f64, {9, 9});
  expect_error(ErrorCode::shape, {"y [81]", "[9, 9]"}, [&] { forward(p.layer, p.x, other, run); });
  expect_error(ErrorCode::dtype, {"d_x [9, 9]", "f64"},
               [&] { backward(p.layer, p.d_y, doubles, run); });
  expect_error(ErrorCode::overlap, {"y overlaps x"}, [&] {
    forward(p.layer, p.y.view().slice(0, 1, 5), p.y.view().slice(0, 2, 6), run);
  });
  EXPECT_EQ(values_of(p.y), y);
}

}  // namespace
