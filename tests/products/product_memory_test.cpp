// Memory of products: nothing is touched beside the tensors and a workspace of exactly the bytes
// that are asked for, which is enough for any strides and executor; a call with it allocates
// nothing.
#include <gtest/gtest.h>

#include <limits>

#include "hostile/guarded.h"
#include "memory/allocation_hooks.h"
#include "products/product_problem.h"
#include "support/executors.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

using rapt::ErrorCode;
using rapt::product_workspace_bytes;

// A matrix in guarded memory, dense or transposed.
class GuardedMatrix {
 public:
  GuardedMatrix(Random& random, DType dtype, int64_t rows, int64_t columns, Edge edge)
      : transposed_(random.chance(0.3)),
        memory_(
            random_normal(random, dtype, transposed_ ? Dims{columns, rows} : Dims{rows, columns}),
            edge) {}
  operator TensorView() const { return transposed_ ? memory_.view().transposed() : memory_.view(); }

 private:
  bool transposed_;
  GuardedTensor memory_;
};

void expect_guarded(Random& random, int64_t rows, int64_t in, int64_t out, Edge edge) {
  const bool f64 = random.chance(0.2);
  const auto dtype = [&] {
    return f64 ? DType::f64 : random.pick({DType::f32, DType::f32, DType::bf16, DType::f16});
  };
  const GuardedMatrix x(random, dtype(), rows, in, edge), weight(random, dtype(), out, in, edge),
      y(random, dtype(), rows, out, edge);
  const GuardedTensor bias(random_normal(random, dtype(), {out}), edge);
  const TensorView before_view = y;
  const GuardedTensor before(filled(before_view.dtype, {rows, out}, 0), edge);
  const size_t bytes = product_workspace_bytes(rows, in, out, f64 ? DType::f64 : DType::f32);
  const Guarded workspace(bytes, edge);
  const std::span<std::byte> room{workspace.data(), bytes};
  const rapt::Context context;
  rapt::ProductOptions options{.bias = bias.view(), .add = random.chance(0.3)};
  if (random.chance(0.5)) {
    options.activation = rapt::Activation::silu;
    options.before_activation = before;
  }
  rapt::multiply(x, weight, y, options, context, room);
  rapt::multiply_gradient(y, weight, x, random.chance(0.5), context, room);
  rapt::add_weight_gradient(y, x, weight, bias.view(), context, room);
}

TEST(ProductMemory, NothingBesideTheTensorsIsTouched) {
  Random random(base_seed());
  // The whole grid has each remainder of a vector; sanitizers see a part of it.
  const int64_t step = RAPT_SANITIZED ? 6 : 1;
  for (int64_t rows = 1; rows <= 20; rows += random.between(1, 2 * step))
    for (int64_t in = 1; in <= 36; in += random.between(1, 3 * step))
      for (int64_t out = 1; out <= 36; out += random.between(1, 3 * step))
        expect_guarded(random, rows, in, out, random.pick({Edge::front, Edge::back}));
  for (int n = 0; n < problem_count(150); ++n) {
    const int64_t rows = drawn_size(random, 300), in = drawn_size(random, 1000),
                  out = drawn_size(random, 500);
    expect_guarded(random, rows, in, out, random.pick({Edge::front, Edge::back}));
  }
}

// The workspace lies between guard pages and has other workers' scratch in it.
TEST(ProductMemory, TheWorkspaceIsEnough) {
  Random random(base_seed() + 1);
  const int64_t sizes[][3] = {{0, 5, 7},     {5, 0, 7},      {5, 7, 0},      {1, 1, 1},
                              {8, 700, 900}, {9, 700, 900},  {3, 1, 100000}, {3, 100000, 1},
                              {1, 9000, 90}, {2000, 30, 40}, {40, 2000, 30}, {100000, 1, 3}};
  for (const auto& [rows, in, out] : sizes)
    for (int workers = 1; workers <= 16; workers += static_cast<int>(random.between(1, 5)))
      for (const Product product :
           {Product::forward, Product::input_gradient, Product::weight_gradient}) {
        const DrawnProduct p(random, product, rows, in, out, random.chance(0.3));
        SCOPED_TRACE(testing::Message() << p.text() << ", " << workers << " workers");
        Shuffled executor(random.next(), workers);
        Context context;
        if (random.chance(0.5))
          context.executor = &executor;
        else
          context.threads = workers;
        const size_t bytes = p.workspace_bytes(context);
        const Guarded memory(bytes, random.pick({Edge::front, Edge::back}));
        EXPECT_NO_THROW(p.call(context, {memory.data(), bytes}));
        if (p.product == Product::weight_gradient && p.has_bias && out > 1000) {
          DrawnProduct alone(random, product, rows, in, out, false);
          alone.has_weight = !alone.has_bias;
          EXPECT_NO_THROW(alone.call(context, {memory.data(), bytes}));
        }
      }
}

TEST(ProductMemory, ACallWithAWorkspaceAllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "no allocation hooks here";
  Random random(base_seed() + 2);
  const int64_t sizes[][3] = {{1, 30, 20}, {8, 300, 200}, {300, 200, 100}, {3, 0, 4}};
  for (const auto& [rows, in, out] : sizes)
    for (const Product product :
         {Product::forward, Product::input_gradient, Product::weight_gradient})
      for (const int threads : {1, 2}) {
        const DrawnProduct p(random, product, rows, in, out, random.chance(0.3));
        SCOPED_TRACE(p.text());
        Context context;
        context.threads = threads;
        std::vector<std::byte> workspace(p.workspace_bytes(context));
        p.call(context, workspace);  // starts the threads
        start_counting();
        p.call(context, workspace);
        EXPECT_EQ(stop_counting().made, 0);
      }
}

TEST(ProductMemory, Limit) {
  Random random(base_seed() + 3);
  const DrawnProduct p(random, Product::forward, 10, 20, 30, false);
  const size_t bytes = p.workspace_bytes();
  std::vector<std::byte> workspace(bytes);
  Context context;
  context.memory_limit = 100;
  expect_error(ErrorCode::memory_limit, {"100"}, [&] { p.call(context); });
  EXPECT_NO_THROW(p.call(context, workspace));
  context.memory_limit = static_cast<int64_t>(bytes);
  EXPECT_NO_THROW(p.call(context));
}

TEST(ProductMemory, BytesOfSizesThatAreNone) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t bad : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    const auto refused = [&](int64_t rows, int64_t in, int64_t out) {
      expect_error(ErrorCode::argument, {std::to_string(bad)},
                   [&] { (void)product_workspace_bytes(rows, in, out, DType::f32); });
    };
    refused(bad, 2, 3);
    refused(2, bad, 3);
    refused(2, 3, bad);
  }
  for (const int64_t big : {kMost, kMost / 2, int64_t{1} << 60})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto refused = [&](int64_t rows, int64_t in, int64_t out) {
        expect_error(ErrorCode::overflow, {},
                     [&] { (void)product_workspace_bytes(rows, in, out, dtype); });
      };
      refused(big, 2, 3);
      refused(2, big, 3);
      refused(2, 3, big);
      refused(big, big, big);
      EXPECT_NO_THROW((void)product_workspace_bytes(big, 0, 0, dtype));
      EXPECT_NO_THROW((void)product_workspace_bytes(0, big, 0, dtype));
    }
  // 16 workers with 2^60 bytes each: 8 rows of 2^55 terms.
  Shuffled sixteen(1, 16);
  Context context;
  context.executor = &sixteen;
  expect_error(ErrorCode::overflow, {"workspace"},
               [&] { (void)product_workspace_bytes(8, int64_t{1} << 55, 1, DType::f32, context); });
}

}  // namespace
}  // namespace laws
