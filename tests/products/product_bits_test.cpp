// Results of products have the same bits for any executor and number of threads, a row has the same
// bits whatever rows are computed with it, and strides change none.
#include <gtest/gtest.h>

#include "products/product_problem.h"
#include "support/executors.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

// Copies of the outputs before and after a call.
class Outputs {
 public:
  explicit Outputs(const DrawnProduct& p) : product_(p) { store(before_); }
  // Calls with the outputs as they were at first.
  std::vector<Tensor> after(const Context& context) const {
    const std::vector<const Placed*> outputs = product_.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) assign(*outputs[i], before_[i]);
    product_.call(context);
    std::vector<Tensor> copies;
    store(copies);
    return copies;
  }

 private:
  static void assign(const TensorView& to, const Tensor& from) {
    for_each_index(to.dims(), [&](auto index) { set(to, index, get(from, index)); });
  }
  void store(std::vector<Tensor>& copies) const {
    for (const Placed* output : product_.outputs()) copies.push_back(Tensor::copy_of(*output));
  }
  const DrawnProduct& product_;
  std::vector<Tensor> before_;
};

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(same_bits(got[i], expected[i])) << what << ", output " << i;
}

// Sizes that are worth several workers, and few rows.
constexpr int64_t kSizes[][3] = {{130, 300, 200}, {8, 1000, 1500}, {1, 3000, 2100}, {500, 800, 20},
                                 {1000, 900, 9},  {20, 1700, 400}, {7, 90, 30},     {97, 65, 1200}};

TEST(ProductBits, AnyExecutorAndNumberOfThreads) {
  Random random(base_seed());
  for (const auto& [rows, in, out] : kSizes) {
    if (RAPT_SANITIZED && rows * in * out > 2'000'000) continue;  // takes long
    for (const Product product :
         {Product::forward, Product::input_gradient, Product::weight_gradient}) {
      const DrawnProduct p(random, product, rows, in, out, random.chance(0.2));
      SCOPED_TRACE(p.text());
      const Outputs outputs(p);
      Context context;
      context.threads = 1;
      const std::vector<Tensor> expected = outputs.after(context);
      for (const int threads : {0, 2, 5}) {
        context.threads = threads;
        expect_same(outputs.after(context), expected, std::to_string(threads) + " threads");
      }
      for_each_executor(random, [&](const Context& with) {
        expect_same(outputs.after(with), expected,
                    std::to_string(with.executor->concurrency()) + " workers");
      });
    }
  }
}

Tensor product_of(Product product, const TensorView& left, const TensorView& weight,
                  const rapt::ProductOptions& options) {
  const bool forward = product == Product::forward;
  Tensor y(left.dtype, {left.shape[0], weight.shape[forward ? 0 : 1]});
  if (forward)
    rapt::multiply(left, weight, y, options);
  else
    rapt::multiply_gradient(left, weight, y, false, {}, {}, options.precision);
  return y;
}

TEST(ProductBits, ARowAlone) {
  Random random(base_seed() + 1);
  for (int n = 0; n < problem_count(60) && !HasFailure(); ++n) {
    const int64_t rows = random.between(1, 300), terms = drawn_size(random, 1000) + 1,
                  columns = random.between(1, 200);
    const DType dtype = random.pick({DType::f32, DType::f64, DType::bf16, DType::f16});
    const Product product = random.pick({Product::forward, Product::input_gradient});
    SCOPED_TRACE(testing::Message() << rows << " " << terms << " " << columns << " "
                                    << rapt::name_of(dtype) << " " << static_cast<int>(product));
    const bool forward = product == Product::forward;
    const Tensor x = random_normal(random, dtype, {rows, terms}),
                 bias = random_normal(random, dtype, {columns});
    const bool transposed = forward && random.chance(0.5);  // with dense terms
    const Tensor stored = random_normal(
        random, dtype, forward && !transposed ? Dims{columns, terms} : Dims{terms, columns});
    const TensorView weight = transposed ? stored.view().transposed() : stored.view();
    rapt::ProductOptions options;
    if (random.chance(0.5)) options.bias = bias;
    options.activation = random.pick({rapt::Activation::none, rapt::Activation::gelu});
    options.precision =
        random.pick({rapt::Precision::automatic, rapt::Precision::fma, rapt::Precision::fast});
    const Tensor all = product_of(product, x, weight, options);
    for (const int64_t most : {1, 2, 3, 8, 9, 50}) {
      const int64_t first = random.between(0, rows - 1), end = std::min(rows, first + most);
      const Tensor some = product_of(product, x.view().slice(0, first, end), weight, options);
      EXPECT_TRUE(same_bits(some, Tensor::copy_of(all.view().slice(0, first, end)))) << most;
    }
  }
}

// Few rows read a weight where it lies, one of more than 4 MiB in another order; 9 rows pack it.
TEST(ProductBits, ARowAloneByALargeWeight) {
  Random random(base_seed() + 3);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const rapt::Precision precision : {rapt::Precision::fma, rapt::Precision::automatic}) {
      SCOPED_TRACE(testing::Message() << rapt::name_of(dtype) << static_cast<int>(precision));
      const int64_t terms = 1056, columns = (4 << 20) / (terms * rapt::size_of(dtype)) + 29;
      const Tensor x = random_normal(random, dtype, {9, terms}),
                   weight = random_normal(random, dtype, {columns, terms});
      const Placed by_terms(weight, true, Placed::Gaps::none, false);
      const rapt::ProductOptions options{.precision = precision};
      const Tensor all = product_of(Product::forward, x, weight, options);
      for (const int64_t rows : {1, 2, 3, 7, 8}) {
        const TensorView some = x.view().slice(0, 9 - rows, 9);
        const Tensor expected = Tensor::copy_of(all.view().slice(0, 9 - rows, 9));
        EXPECT_TRUE(same_bits(product_of(Product::forward, some, weight, options), expected))
            << rows;
        EXPECT_TRUE(same_bits(product_of(Product::forward, some, by_terms, options), expected))
            << rows << " by terms";
      }
    }
}

TEST(ProductBits, StridesChangeNone) {
  Random random(base_seed() + 2);
  for (int n = 0; n < problem_count(60) && !HasFailure(); ++n) {
    const int64_t rows = random.between(1, 30), terms = drawn_size(random, 1000) + 1,
                  columns = random.between(1, 50);
    const DType dtype = random.pick({DType::f32, DType::f64, DType::bf16, DType::f16});
    rapt::ProductOptions options;
    options.precision = random.pick({rapt::Precision::automatic, rapt::Precision::fast});
    const Tensor x = random_normal(random, dtype, {rows, terms}),
                 weight = random_normal(random, dtype, {columns, terms}),
                 zeros = filled(dtype, {rows, columns}, 0);
    Tensor expected = Tensor::copy_of(zeros);
    rapt::multiply(x, weight, expected, options);
    for (int layout = 0; layout < 6; ++layout) {
      const Placed y = Placed::drawn(random, zeros);
      rapt::multiply(Placed::drawn(random, x), Placed::drawn(random, weight), y, options);
      EXPECT_TRUE(same_bits(Tensor::copy_of(y), expected));
    }
  }
}

}  // namespace
}  // namespace laws
