// Tensors and views: shapes, strides, slices, and sizes that overflow.
#include "rapt/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "support/sanitizers.h"

namespace {

using rapt::DType;
using rapt::ErrorCode;
using rapt::Shape;
using rapt::Tensor;
using rapt::TensorView;

template <class F>
int code_of(F&& call) {
  try {
    call();
  } catch (const rapt::Error& error) {
    return static_cast<int>(error.code());
  }
  return -1;
}
constexpr int kShape = static_cast<int>(ErrorCode::shape);
constexpr int kOverflow = static_cast<int>(ErrorCode::overflow);
constexpr int kArgument = static_cast<int>(ErrorCode::argument);
constexpr int kDtype = static_cast<int>(ErrorCode::dtype);

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(TensorView, DenseStridesAreRowMajor) {
  float memory[24];
  const TensorView view(memory, {2, 3, 4});
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.strides[0], 12);
  EXPECT_EQ(view.strides[1], 4);
  EXPECT_EQ(view.strides[2], 1);
  EXPECT_EQ(view.count(), 24);
  EXPECT_TRUE(view.contiguous());
  EXPECT_FALSE(view.read_only);
  EXPECT_EQ(view.dtype, DType::f32);
}

TEST(TensorView, ConstMemoryIsReadOnly) {
  const double memory[2] = {1, 2};
  const TensorView view(memory, {2});
  EXPECT_TRUE(view.read_only);
  EXPECT_EQ(view.dtype, DType::f64);
}

TEST(TensorView, AbsentByDefault) {
  const TensorView nothing;
  EXPECT_FALSE(nothing.defined());
  EXPECT_EQ(nothing.count(), 0);
  EXPECT_TRUE(nothing.dims().empty());
}

TEST(TensorView, ScalarHasOneElement) {
  float one = 3;
  const TensorView scalar(&one, {});
  EXPECT_TRUE(scalar.defined());
  EXPECT_EQ(scalar.count(), 1);
  const Tensor copy = Tensor::copy_of(scalar);
  EXPECT_EQ(copy.values<float>()[0], 3);
}

TEST(TensorView, SliceMovesTheStart) {
  auto values = counting(24);
  const TensorView view(values.data(), {2, 3, 4});
  const TensorView part = view.slice(1, 1, 3);
  EXPECT_EQ(rapt::to_string(part.dims()), "[2, 2, 4]");
  EXPECT_EQ(part.data, values.data() + 4);
  EXPECT_FALSE(part.contiguous());
  EXPECT_EQ(view.slice(-1, 2, 3).data, values.data() + 2);
  EXPECT_EQ(view.slice(0, 1, 1).count(), 0);
  const Tensor copy = Tensor::copy_of(part);
  const std::vector<float> expected = {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23};
  EXPECT_EQ(std::vector<float>(copy.values<float>().begin(), copy.values<float>().end()), expected);
}

TEST(TensorView, SliceRefusesWhatIsNotThere) {
  auto values = counting(6);
  const TensorView view(values.data(), {2, 3});
  EXPECT_EQ(code_of([&] { view.slice(0, 0, 3); }), kShape);
  EXPECT_EQ(code_of([&] { view.slice(0, -1, 1); }), kShape);
  EXPECT_EQ(code_of([&] { view.slice(0, 2, 1); }), kShape);
  EXPECT_EQ(code_of([&] { view.slice(2, 0, 1); }), kShape);
  EXPECT_EQ(code_of([&] { view.slice(-3, 0, 1); }), kShape);
  try {
    view.slice(1, 1, 9);
    FAIL();
  } catch (const rapt::Error& error) {
    EXPECT_NE(std::string(error.what()).find("[1, 9)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("[2, 3]"), std::string::npos) << error.what();
  }
}

TEST(TensorView, TransposedExchangesTwoDimensions) {
  auto values = counting(24);
  const TensorView view(values.data(), {2, 3, 4});
  const TensorView turned = view.transposed();
  EXPECT_EQ(rapt::to_string(turned.dims()), "[2, 4, 3]");
  EXPECT_FALSE(turned.contiguous());
  const Tensor copy = Tensor::copy_of(turned);
  EXPECT_EQ(copy.values<float>()[1], 4);
  EXPECT_TRUE(turned.transposed().contiguous());
  EXPECT_EQ(rapt::to_string(view.transposed(0, 2).dims()), "[4, 3, 2]");
  EXPECT_EQ(code_of([&] { view.transposed(0, 3); }), kShape);
  EXPECT_EQ(code_of([&] { view.transposed(-4, 0); }), kShape);
}

TEST(TensorView, CopyOfAnyStrides) {
  auto values = counting(10);
  const TensorView backwards(values.data() + 9, {5}, {-2});
  const Tensor copy = Tensor::copy_of(backwards);
  EXPECT_EQ(std::vector<float>(copy.values<float>().begin(), copy.values<float>().end()),
            (std::vector<float>{9, 7, 5, 3, 1}));
  EXPECT_TRUE(copy.view().contiguous());
  EXPECT_NE(copy.view().data, backwards.data);
  const TensorView repeated(values.data() + 3, {2, 3}, {0, 0});
  const Tensor repetitions = Tensor::copy_of(repeated);
  for (const float x : repetitions.values<float>()) EXPECT_EQ(x, 3);
}

TEST(TensorView, ContiguousIgnoresStridesOfSingleElements) {
  float memory[4];
  EXPECT_TRUE(TensorView(memory, {1, 4}, {77, 1}).contiguous());
  EXPECT_TRUE(TensorView(memory, {0, 4}, {5, 5}).contiguous());
  EXPECT_FALSE(TensorView(memory, {2, 2}, {2, 2}).contiguous());
}

TEST(TensorView, RefusesSizesThatDoNotFit) {
  float one;
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_EQ(code_of([&] { TensorView(&one, {kHuge, 2}); }), kOverflow);
  EXPECT_EQ(code_of([&] { TensorView(&one, {kHuge, kHuge, 4}); }), kOverflow);
  // 2^64 elements wrap to 0 without an overflow check.
  EXPECT_EQ(code_of([&] { TensorView(&one, {int64_t{1} << 32, int64_t{1} << 32}); }), kOverflow);
  EXPECT_EQ(code_of([&] { TensorView(&one, {std::numeric_limits<int64_t>::max()}); }), kOverflow);
  EXPECT_EQ(code_of([&] { TensorView(&one, {-1}); }), kShape);
  EXPECT_EQ(code_of([&] { TensorView(&one, {0, -1}); }), kShape);
  EXPECT_EQ(code_of([&] { TensorView(&one, {2, 2}, {1}); }), kShape);
  // Without elements the other lengths may be of any size.
  EXPECT_EQ(TensorView(&one, {kHuge, 0, kHuge}).count(), 0);
}

TEST(TensorView, RefusesRanksBeyondTheLargest) {
  float one;
  const std::vector<int64_t> most(rapt::kMaxRank, 1), more(rapt::kMaxRank + 1, 1);
  EXPECT_EQ(TensorView(&one, DType::f32, most, true).rank, rapt::kMaxRank);
  EXPECT_EQ(code_of([&] { TensorView(&one, DType::f32, more, true); }), kShape);
  EXPECT_EQ(code_of([&] { TensorView(&one, DType::f32, more, more, true); }), kShape);
}

TEST(Tensor, OwnsAlignedMemory) {
  for (const int64_t n : {1, 3, 17, 1000}) {
    Tensor tensor(DType::f32, {n});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.view().data) % 64, 0u);
    EXPECT_EQ(tensor.count(), n);
    EXPECT_FALSE(tensor.view().read_only);
    EXPECT_TRUE(std::as_const(tensor).view().read_only);
  }
  const Tensor empty(DType::f64, {3, 0});
  EXPECT_TRUE(empty.defined());
  EXPECT_EQ(empty.count(), 0);
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, MovesWithoutMovingItsMemory) {
  Tensor a(DType::f32, {4});
  a.values<float>()[2] = 5;
  const void* memory = a.view().data;
  const Tensor b = std::move(a);
  EXPECT_EQ(b.view().data, memory);
  EXPECT_EQ(b.values<float>()[2], 5);
  EXPECT_FALSE(a.defined());  // NOLINT(bugprone-use-after-move): a moved-from tensor is undefined
  EXPECT_EQ(a.count(), 0);
  Tensor c(DType::f64, {2});
  a = std::move(c);
  EXPECT_EQ(a.dtype(), DType::f64);
  EXPECT_FALSE(c.defined());  // NOLINT(bugprone-use-after-move)
}

TEST(Tensor, CopyRefusesWhatIsNotThere) {
  EXPECT_EQ(code_of([] { Tensor::copy_of({}); }), kArgument);
  EXPECT_EQ(code_of([] { Tensor::copy_of(TensorView(static_cast<float*>(nullptr), {2})); }),
            kArgument);
  EXPECT_EQ(Tensor::copy_of(TensorView(static_cast<float*>(nullptr), {2, 0})).count(), 0);
}

TEST(Tensor, ValuesAskForTheirType) {
  const Tensor tensor(DType::f32, {2, 3});
  EXPECT_EQ(tensor.values<float>().size(), 6u);
  EXPECT_EQ(code_of([&] { tensor.values<double>(); }), kDtype);
  EXPECT_EQ(code_of([&] { tensor.values<int32_t>(); }), kDtype);
  EXPECT_EQ(tensor.dim(-1), 3);
  EXPECT_EQ(tensor.dim(0), 2);
  EXPECT_EQ(code_of([&] { tensor.dim(2); }), kShape);
  EXPECT_EQ(code_of([&] { tensor.dim(-3); }), kShape);
  EXPECT_EQ(code_of([] { Tensor().dim(0); }), kShape);
}

TEST(Tensor, RefusesAbsurdSizes) {
  EXPECT_EQ(code_of([] { Tensor(DType::f32, {int64_t{1} << 62}); }), kOverflow);
#if !RAPT_SANITIZED  // sanitizers end the process instead
  EXPECT_THROW(Tensor(DType::f32, {int64_t{1} << 56}), std::bad_alloc);
#endif
}

TEST(DTypes, NamesAndSizes) {
  EXPECT_STREQ(rapt::name_of(DType::f32), "f32");
  EXPECT_STREQ(rapt::name_of(DType::boolean), "bool");
  EXPECT_EQ(rapt::size_of(DType::f32), 4);
  EXPECT_EQ(rapt::size_of(DType::f64), 8);
  EXPECT_EQ(rapt::size_of(DType::bf16), 2);
  EXPECT_EQ(rapt::size_of(DType::i64), 8);
  EXPECT_EQ(rapt::size_of(DType::boolean), 1);
  EXPECT_EQ(rapt::to_string(Shape()), "[]");
}

}  // namespace
