// Products by a packed weight have the bits of products by the weight.
#include <gtest/gtest.h>

#include <cstring>

#include "nn/gradient_check.h"
#include "rapt/product.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;

struct PackedCase {
  int64_t rows, in, out;
};
const PackedCase kPackedCases[] = {{1, 5, 7},     {16, 128, 384}, {8, 300, 33}, {100, 257, 130},
                                   {3, 2100, 20}, {5, 0, 6},      {4, 6, 0},    {0, 3, 4}};

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), static_cast<size_t>(a.count() * size_of(a.dtype()))) == 0;
}

TEST(PackedWeightTest, HasTheBitsOfTheWeight) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const PackedCase& c : kPackedCases) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(c.rows) + " " +
                   std::to_string(c.in) + " " + std::to_string(c.out));
      const DType computed = dtype == DType::f64 ? dtype : DType::f32;
      const Tensor weight = normal(dtype, {c.out, c.in}, 1), bias = normal(dtype, {c.out}, 2);
      const Tensor x = normal(dtype, {c.rows, c.in}, 3), d_y = normal(dtype, {c.rows, c.out}, 4);
      for (const int threads : {1, 3}) {
        Context context;
        context.threads = threads;
        std::vector<std::byte> memory(packed_weight_bytes(c.out, c.in, dtype, PackedFor::multiply));
        std::vector<std::byte> gradient_memory(
            packed_weight_bytes(c.out, c.in, dtype, PackedFor::multiply_gradient));
        std::vector<std::byte> workspace(
            product_workspace_bytes(c.rows, c.in, c.out, dtype, context));
        const PackedWeight packed = pack_weight(weight, PackedFor::multiply, memory);
        const PackedWeight packed_gradient =
            pack_weight(weight, PackedFor::multiply_gradient, gradient_memory);
        Tensor y(computed, {c.rows, c.out}), packed_y(computed, {c.rows, c.out});
        multiply(x, weight, y, {.bias = bias, .activation = Activation::silu}, context);
        multiply(x, packed, packed_y, {.bias = bias, .activation = Activation::silu}, context,
                 workspace);
        EXPECT_TRUE(same_bits(y, packed_y));
        Tensor d_x = normal(computed, {c.rows, c.in}, 5), packed_d_x = Tensor::copy_of(d_x);
        multiply_gradient(d_y, weight, d_x, true, context);
        multiply_gradient(d_y, packed_gradient, packed_d_x, true, context, workspace);
        EXPECT_TRUE(same_bits(d_x, packed_d_x));
      }
    }
}

TEST(PackedWeightTest, TakesAWeightOfAnyStrides) {
  const Tensor weight = normal(DType::f32, {20, 30}, 1), x = normal(DType::f32, {9, 20}, 2);
  std::vector<std::byte> memory(packed_weight_bytes(30, 20, DType::f32, PackedFor::multiply));
  Tensor y(DType::f32, {9, 30}), packed_y(DType::f32, {9, 30});
  const TensorView turned = weight.view().transposed();
  multiply(x, turned, y);
  multiply(x, pack_weight(turned, PackedFor::multiply, memory), packed_y);
  EXPECT_TRUE(same_bits(y, packed_y));
}

TEST(PackedWeightTest, RejectsWhatDoesNotFit) {
  const Tensor weight = normal(DType::f32, {6, 5}, 1), x = normal(DType::f32, {2, 5}, 2);
  const Tensor wide_x = normal(DType::f64, {2, 5}, 2), long_x = normal(DType::f32, {2, 6}, 2);
  Tensor y(DType::f32, {2, 6}), wide_y(DType::f64, {2, 6});
  std::vector<std::byte> memory(packed_weight_bytes(6, 5, DType::f32, PackedFor::multiply));
  laws::expect_error(ErrorCode::argument, {"workspace"}, [&] {
    pack_weight(weight, PackedFor::multiply, std::span(memory).first(memory.size() - 1));
  });
  const PackedWeight packed = pack_weight(weight, PackedFor::multiply, memory);
  laws::expect_error(ErrorCode::argument, {"packed for multiply;"}, [&] {
    multiply_gradient(y, packed, Tensor(DType::f32, {2, 5}).view());
  });
  laws::expect_error(ErrorCode::dtype, {"f64"}, [&] { multiply(wide_x, packed, wide_y); });
  laws::expect_error(ErrorCode::shape, {"in_features"}, [&] { multiply(long_x, packed, y); });
  laws::expect_error(ErrorCode::argument, {"missing"}, [&] { multiply(x, PackedWeight{}, y); });
  laws::expect_error(ErrorCode::overlap, {"weight"}, [&] {
    multiply(x, packed, TensorView(static_cast<float*>(const_cast<void*>(packed.panels)), {2, 6}));
  });
  laws::expect_error(ErrorCode::argument, {"-1"},
                     [] { packed_weight_bytes(-1, 2, DType::f32, PackedFor::multiply); });
}

}  // namespace
