// Products of layers of any sizes, dtypes, strides and options are those of plain loops.
#include <gtest/gtest.h>

#include "products/product_problem.h"

namespace laws {
namespace {

// What the outputs hold, in their order.
std::vector<std::vector<double>> numbers_of(const DrawnProduct& p) {
  std::vector<std::vector<double>> numbers;
  for (const Placed* output : p.outputs()) numbers.push_back(values_of(*output));
  return numbers;
}

void expect_right(const DrawnProduct& p) {
  SCOPED_TRACE(p.text());
  const std::vector<check::Expectation> expected = expectations_of(p);
  ASSERT_EQ(expected.size(), p.outputs().size());
  ASSERT_NO_THROW(p.call());
  const auto numbers = numbers_of(p);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(met_by(expected[i], numbers[i], i == 0 ? "first output" : "second output"));
  for (const Placed* output : p.outputs()) EXPECT_TRUE(output->gaps_untouched());
}

// Draws sizes of at most `most_work` multiplications.
void expect_law(Product product, int count, int64_t most_work) {
  Random random(base_seed() + static_cast<uint64_t>(product));
  for (int n = 0; n < problem_count(count) && !testing::Test::HasFailure(); ++n) {
    int64_t sizes[3];
    do {
      for (int64_t& size : sizes) size = drawn_size(random, 2400);
    } while (sizes[0] * sizes[1] * sizes[2] > most_work);
    expect_right(DrawnProduct(random, product, sizes[0], sizes[1], sizes[2], random.chance(0.25)));
  }
}

TEST(ProductLaw, Forward) { expect_law(Product::forward, 1200, 1'000'000); }
TEST(ProductLaw, InputGradient) { expect_law(Product::input_gradient, 800, 1'000'000); }
TEST(ProductLaw, WeightGradient) { expect_law(Product::weight_gradient, 800, 1'000'000); }

// All remainders of tiles and panels, in sums of one term and of some.
TEST(ProductLaw, EveryRemainder) {
  Random random(base_seed() + 3);
  for (int64_t rows = 1; rows <= 14; ++rows)
    for (int64_t columns = 1; columns <= 34; ++columns)
      for (const int64_t terms : {int64_t{1}, random.between(2, 21)}) {
        if (testing::Test::HasFailure()) return;
        expect_right(DrawnProduct(random, Product::forward, rows, terms, columns, false));
        expect_right(DrawnProduct(random, Product::input_gradient, rows, columns, terms, false));
        expect_right(DrawnProduct(random, Product::weight_gradient, terms, columns, rows, false));
      }
}

// Sums longer than a chunk, over several pieces of rows, several groups of columns and few of both.
TEST(ProductLaw, LongSums) {
  Random random(base_seed() + 4);
  const int64_t cases[][3] = {{970, 770, 3}, {2, 1600, 390}, {97, 1537, 17}, {8, 5000, 20},
                              {9, 5000, 20}, {961, 1025, 1}, {1, 20000, 9},  {12, 20000, 1}};
  for (const auto& [rows, terms, columns] : cases) {
    expect_right(DrawnProduct(random, Product::forward, rows, terms, columns, false));
    expect_right(DrawnProduct(random, Product::input_gradient, rows, columns, terms, false));
    expect_right(DrawnProduct(random, Product::weight_gradient, terms, columns, rows, false));
  }
}

}  // namespace
}  // namespace laws
