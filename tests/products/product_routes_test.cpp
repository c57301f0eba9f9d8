// The routes of products: which one a product takes, that it really takes it, and what happens to
// elements that a route cannot multiply.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "products/product_problem.h"
#include "rapt/instruction_sets.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::PackedFor;
using rapt::Precision;
using rapt::product_kernel;

constexpr DType kComputedInF32[] = {DType::f32, DType::bf16, DType::f16};

bool has_tiles() {
  for (const rapt::InstructionSet& set : rapt::instruction_sets())
    if (set.chosen) return std::string(set.name).starts_with("amx");
  return false;
}
bool by_tiles(DType dtype, Precision precision) {
  return std::string(product_kernel(dtype, dtype, precision)).starts_with("tile registers");
}

Tensor product_by(Product product, const TensorView& left, const TensorView& right,
                  Precision precision) {
  switch (product) {
    case Product::forward: {
      Tensor y(DType::f32, {left.shape[0], right.shape[0]});
      rapt::multiply(left, right, y, {.precision = precision});
      return y;
    }
    case Product::input_gradient: {
      Tensor d_x(DType::f32, {left.shape[0], right.shape[1]});
      rapt::multiply_gradient(left, right, d_x, false, {}, {}, precision);
      return d_x;
    }
    case Product::weight_gradient: {
      Tensor d_weight = filled(DType::f32, {left.shape[1], right.shape[1]}, 0);
      rapt::add_weight_gradient(left, right, d_weight, {}, {}, {}, precision);
      return d_weight;
    }
  }
  return {};
}
constexpr Product kAllProducts[] = {Product::forward, Product::input_gradient,
                                    Product::weight_gradient};

// Both sides of a product, with 200 terms.
struct Sides {
  Tensor left, right;
  Sides(Random& random, Product product, DType dtype, int64_t rows, int64_t columns)
      : left(
            random_normal(random, dtype,
                          product == Product::weight_gradient ? Dims{200, rows} : Dims{rows, 200})),
        right(random_normal(
            random, dtype, product == Product::forward ? Dims{columns, 200} : Dims{200, columns})) {
  }
};

TEST(ProductRoutes, FollowFromDtypesAndPrecision) {
  const bool decided = rapt::bf16_dot().forced;
  for (const DType dtype : kComputedInF32) {
    EXPECT_STREQ(product_kernel(dtype, dtype, Precision::fma), "fma");
    for (const Precision precision : {Precision::automatic, Precision::fast}) {
      if (!decided || dtype != DType::bf16) {
        EXPECT_EQ(by_tiles(dtype, precision), has_tiles());
      }
      for (const DType other : kComputedInF32)
        if (other != dtype) {
          EXPECT_STREQ(product_kernel(dtype, other, precision), "fma");
        }
    }
  }
  EXPECT_STREQ(product_kernel(DType::f64, DType::f64), "fma");
  if (has_tiles()) {
    EXPECT_STREQ(product_kernel(DType::f32, DType::f32), "tile registers, six products");
    EXPECT_STREQ(product_kernel(DType::f32, DType::f32, Precision::fast),
                 "tile registers, three products");
  }
  expect_error(rapt::ErrorCode::argument, {"precision", "7"},
               [] { (void)product_kernel(DType::f32, DType::f32, static_cast<Precision>(7)); });
}

// Sums of 200 random terms have the bits of FMA by FMA alone, because each route adds in another
// order; and those of two parts are others than those of three.
TEST(ProductRoutes, AreTaken) {
  Random random(base_seed());
  for (const Product product : kAllProducts)
    for (const DType dtype : kComputedInF32) {
      SCOPED_TRACE(testing::Message()
                   << kProductNames[static_cast<int>(product)] << " " << rapt::name_of(dtype));
      const Sides s(random, product, dtype, 40, 50);
      const Tensor fma = product_by(product, s.left, s.right, Precision::fma);
      const Tensor automatic = product_by(product, s.left, s.right, Precision::automatic);
      const Tensor fast = product_by(product, s.left, s.right, Precision::fast);
      const bool by_fma = std::string(product_kernel(dtype, dtype)) == "fma";
      EXPECT_EQ(same_bits(automatic, fma), by_fma);
      EXPECT_EQ(same_bits(automatic, fast), dtype == DType::bf16 || by_fma);
    }
}

// Numbers of 8 bits and their products are exact in every route, in sums below 2^24.
TEST(ProductRoutes, WholeNumbersAreExact) {
  Random random(base_seed() + 1);
  for (const Product product : kAllProducts)
    for (const DType dtype : kComputedInF32) {
      Sides s(random, product, dtype, 70, 90);
      for (Tensor* side : {&s.left, &s.right})
        for_each_index(side->view().dims(), [&](auto index) {
          set(*side, index, static_cast<double>(random.between(-255, 255)));
        });
      const Tensor fma = product_by(product, s.left, s.right, Precision::fma);
      for (const Precision precision : {Precision::automatic, Precision::fast})
        EXPECT_TRUE(same_bits(product_by(product, s.left, s.right, precision), fma));
    }
}

// A row or a column with an element that parts cannot hold has the bits of FMA; all others keep
// theirs.
TEST(ProductRoutes, ElementsThatPartsCannotHold) {
  Random random(base_seed() + 2);
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  for (const Product product : kAllProducts)
    for (const DType dtype : {DType::f32, DType::f16})
      for (const Precision precision : {Precision::automatic, Precision::fast})
        for (const double odd : {0x1p41, -0x1p-49, kUnbounded, -kUnbounded}) {
          if (dtype == DType::f16 && std::isfinite(odd)) continue;
          SCOPED_TRACE(testing::Message() << kProductNames[static_cast<int>(product)] << " "
                                          << rapt::name_of(dtype) << " " << odd);
          const int64_t rows = random.chance(0.2) ? 1 : random.between(2, 120),
                        columns = random.chance(0.2) ? 1 : random.between(2, 120);
          Sides s(random, product, dtype, rows, columns);
          const Tensor before = product_by(product, s.left, s.right, precision);
          const int64_t row = random.between(0, rows - 1), column = random.between(0, columns - 1);
          const int64_t term = random.between(0, 199);
          const bool turned = product == Product::weight_gradient;
          set(s.left, turned ? Dims{term, row} : Dims{row, term}, odd);
          set(s.right, product == Product::forward ? Dims{column, 3} : Dims{3, column}, odd);
          const Tensor after = product_by(product, s.left, s.right, precision);
          const Tensor fma = product_by(product, s.left, s.right, Precision::fma);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
              const bool kept = by_tiles(dtype, precision) && r != row && c != column;
              const auto i = static_cast<size_t>(r * columns + c);
              const float expected = (kept ? before : fma).values<float>()[i];
              const float got = after.values<float>()[i];
              ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
                  << r << " " << c << ": " << got << " instead of " << expected;
            }
        }
}

// A packed weight has the bits of the weight: of the route, by FMA beside x of another dtype, and
// in columns with elements that parts cannot hold.
TEST(ProductRoutes, PackedWeights) {
  Random random(base_seed() + 3);
  for (int n = 0; n < problem_count(100) && !HasFailure(); ++n) {
    const int64_t rows = random.between(1, 120), in = drawn_size(random, 700),
                  out = drawn_size(random, 700);
    const DType dtype = random.pick({DType::f32, DType::bf16, DType::f16, DType::f64});
    const DType other = dtype == DType::f64 || random.chance(0.7) ? dtype : DType::f32;
    const DType computed = dtype == DType::f64 ? dtype : DType::f32;
    const Precision precision =
        random.pick({Precision::automatic, Precision::fma, Precision::fast});
    SCOPED_TRACE(testing::Message() << rows << " " << in << "->" << out << " "
                                    << rapt::name_of(other) << " " << rapt::name_of(dtype) << " "
                                    << rapt::kPrecisionNames[static_cast<int>(precision)]);
    const Tensor weight = random_normal(random, dtype, {out, in}),
                 x = random_normal(random, other, {rows, in}),
                 d_y = random_normal(random, other, {rows, out});
    if (weight.count() > 0 && random.chance(0.5))
      set(weight, Dims{random.between(0, out - 1), random.between(0, in - 1)}, 0x1p-50);
    std::vector<std::byte> memory(
        rapt::packed_weight_bytes(out, in, computed, PackedFor::multiply)),
        of_gradient(rapt::packed_weight_bytes(out, in, computed, PackedFor::multiply_gradient)),
        workspace(rapt::product_workspace_bytes(rows, in, out, computed));
    const rapt::PackedWeight packed =
        rapt::pack_weight(weight, PackedFor::multiply, memory, precision);
    const rapt::PackedWeight packed_gradient =
        rapt::pack_weight(weight, PackedFor::multiply_gradient, of_gradient, precision);
    Tensor y(computed, {rows, out}), packed_y(computed, {rows, out});
    rapt::multiply(x, weight, y, {.precision = precision});
    rapt::multiply(x, packed, packed_y, {.precision = precision}, {}, workspace);
    EXPECT_TRUE(same_bits(y, packed_y));
    Tensor d_x(computed, {rows, in}), packed_d_x(computed, {rows, in});
    rapt::multiply_gradient(d_y, weight, d_x, false, {}, {}, precision);
    rapt::multiply_gradient(d_y, packed_gradient, packed_d_x, false, {}, workspace, precision);
    EXPECT_TRUE(same_bits(d_x, packed_d_x));
    const Precision wrong = precision == Precision::fma ? Precision::fast : Precision::fma;
    expect_error(rapt::ErrorCode::argument, {"precision", "fma"},
                 [&] { rapt::multiply(x, packed, y, {.precision = wrong}); });
  }
}

}  // namespace
}  // namespace laws
