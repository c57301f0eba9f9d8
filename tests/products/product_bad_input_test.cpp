// Bad input to the products of layers: one Error with the right code that names what was expected
// and what came, and no byte of an output is written.
#include <gtest/gtest.h>

#include <limits>

#include "products/product_problem.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

constexpr double kBefore = 77;  // what outputs hold

// Valid calls of all three products, parts of which a test makes invalid.
struct Call {
  Tensor x = filled(DType::f32, {3, 5}, 1), weight = filled(DType::f32, {7, 5}, 1),
         bias = filled(DType::f32, {7}, 1), d_y = filled(DType::f32, {3, 7}, 1);
  Tensor y = filled(DType::f32, {3, 7}, kBefore), before = filled(DType::f32, {3, 7}, kBefore),
         d_x = filled(DType::f32, {3, 5}, kBefore), d_weight = filled(DType::f32, {7, 5}, kBefore),
         d_bias = filled(DType::f32, {7}, kBefore);
  TensorView in_x = x, in_weight = weight, in_bias = bias, in_d_y = d_y, out_y = y,
             out_before = before, out_d_x = d_x, out_d_weight = d_weight, out_d_bias = d_bias;
  rapt::ProductOptions options;
  rapt::Precision precision = rapt::Precision::automatic;
  Context context;
  std::vector<std::byte> memory{std::vector<std::byte>(1 << 20)};
  std::span<std::byte> workspace = memory;

  void forward() {
    options.bias = in_bias, options.before_activation = out_before;
    options.precision = precision;
    rapt::multiply(in_x, in_weight, out_y, options, context, workspace);
  }
  void input_gradient() {
    rapt::multiply_gradient(in_d_y, in_weight, out_d_x, false, context, workspace, precision);
  }
  void weight_gradient() {
    rapt::add_weight_gradient(in_d_y, in_x, out_d_weight, out_d_bias, context, workspace,
                              precision);
  }
  bool untouched() const {
    for (const Tensor* t : {&y, &before, &d_x, &d_weight, &d_bias})
      for (const double value : values_of(*t))
        if (value != kBefore) return false;
    return true;
  }
};

using Verb = void (Call::*)();
constexpr Verb kForward = &Call::forward, kInput = &Call::input_gradient,
               kWeight = &Call::weight_gradient;
using Part = TensorView Call::*;

void expect_refused(Verb run, ErrorCode code, const std::vector<std::string>& fragments,
                    const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  expect_error(code, fragments, [&] { (call.*run)(); });
  EXPECT_TRUE(call.untouched()) << "written in spite of the error";
}

struct Input {
  Verb run;
  Part part;
  const char* name;
};
constexpr Input kInputs[] = {
    {kForward, &Call::in_x, "x"},         {kForward, &Call::in_weight, "weight"},
    {kForward, &Call::in_bias, "bias"},   {kInput, &Call::in_d_y, "d_y"},
    {kInput, &Call::in_weight, "weight"}, {kWeight, &Call::in_d_y, "d_y"},
    {kWeight, &Call::in_x, "x"}};
constexpr Input kOutputs[] = {{kForward, &Call::out_y, "y"},
                              {kForward, &Call::out_before, "before_activation"},
                              {kInput, &Call::out_d_x, "d_x"},
                              {kWeight, &Call::out_d_weight, "d_weight"},
                              {kWeight, &Call::out_d_bias, "d_bias"}};

bool optional(const Input& tensor) {
  return tensor.part == &Call::in_bias || tensor.part == &Call::out_before ||
         tensor.part == &Call::out_d_weight || tensor.part == &Call::out_d_bias;
}

TEST(BadProductInput, TheUnspoiltCallsWork) {
  for (const Verb run : {kForward, kInput, kWeight}) {
    Call call;
    EXPECT_NO_THROW((call.*run)());
    EXPECT_FALSE(call.untouched());
  }
}

template <class Visit>
void for_each_tensor(const Visit& visit) {
  for (const auto& tensors : {std::span<const Input>(kInputs), std::span<const Input>(kOutputs)})
    for (const Input& tensor : tensors) {
      SCOPED_TRACE(tensor.name);
      visit(tensor);
    }
}

TEST(BadProductInput, Missing) {
  for_each_tensor([](const Input& t) {
    if (!optional(t))
      expect_refused(t.run, ErrorCode::argument, {t.name, "missing"},
                     [&](Call& c) { c.*t.part = {}; });
    expect_refused(t.run, ErrorCode::argument, {t.name, "null"},
                   [&](Call& c) { (c.*t.part).data = nullptr; });
  });
  for (const Input& t : kOutputs)
    expect_refused(t.run, ErrorCode::argument, {t.name, "read-only"},
                   [&](Call& c) { (c.*t.part).read_only = true; });
}

TEST(BadProductInput, Dtypes) {
  const Tensor wide = filled(DType::f64, {20}, 1);
  for_each_tensor([&](const Input& t) {
    const auto with_dtype = [&](DType dtype) {
      return [&t, dtype, &wide](Call& c) {
        (c.*t.part).dtype = dtype;
        if (dtype == DType::f64) (c.*t.part).data = wide.view().data;
      };
    };
    for (const DType bad : {DType::i64, DType::i32, DType::u8, DType::boolean, DType{100}})
      expect_refused(t.run, ErrorCode::dtype, {t.name}, with_dtype(bad));
    expect_refused(t.run, ErrorCode::dtype, {"f64"}, with_dtype(DType::f64));
  });
  const Tensor half = filled(DType::bf16, {3, 7}, 1);
  expect_refused(kForward, ErrorCode::dtype, {"before_activation", "bf16", "f32"}, [&](Call& c) {
    c.out_before = half;
    c.out_before.read_only = false;
  });
}

TEST(BadProductInput, Shapes) {
  for_each_tensor([](const Input& t) {
    for (int i = 0; i < (Call().*t.part).rank; ++i)
      expect_refused(t.run, ErrorCode::shape, {"expected"},
                     [&](Call& c) { (c.*t.part).shape[i] -= 1; });
    for (const int rank : {0, 1, 2, 3, rapt::kMaxRank, rapt::kMaxRank + 1, 1000}) {
      Call call;
      if (rank == (call.*t.part).rank) continue;
      expect_refused(t.run, ErrorCode::shape, {}, [&](Call& c) {
        TensorView& view = c.*t.part;
        for (int i = view.rank; i < std::min(rank, rapt::kMaxRank); ++i)
          view.shape[i] = view.strides[i] = 1;
        view.rank = rank;
      });
    }
  });
  // Negative lengths, which only views that are filled in by hand can have.
  expect_refused(kForward, ErrorCode::shape, {"negative"},
                 [](Call& c) { c.in_x.shape[0] = c.out_y.shape[0] = c.out_before.shape[0] = -3; });
  expect_refused(kForward, ErrorCode::shape, {"negative"},
                 [](Call& c) { c.in_x.shape[1] = c.in_weight.shape[1] = -5; });
  expect_refused(kWeight, ErrorCode::shape, {"negative"},
                 [](Call& c) { c.in_x.shape[0] = c.in_d_y.shape[0] = -3; });
}

TEST(BadProductInput, Memory) {
  for_each_tensor([](const Input& t) {
    expect_refused(t.run, ErrorCode::argument, {t.name, "aligned"},
                   [&](Call& c) { (c.*t.part).data = static_cast<char*>((c.*t.part).data) + 1; });
    expect_refused(t.run, ErrorCode::overflow, {t.name}, [&](Call& c) {
      (c.*t.part).strides[0] = std::numeric_limits<int64_t>::max() / 4;
    });
    expect_refused(t.run, ErrorCode::overlap, {t.name, "workspace"}, [&](Call& c) {
      c.workspace = {static_cast<std::byte*>((c.*t.part).data) + 4, 8};
    });
  });
  for (const Input& t : kOutputs) {
    const int rank = (Call().*t.part).rank;
    for (int i = 0; i < rank; ++i)
      expect_refused(t.run, ErrorCode::overlap, {t.name},
                     [&](Call& c) { (c.*t.part).strides[i] = 0; });
  }
}

TEST(BadProductInput, Overlaps) {
  for (const Input& output : kOutputs) {
    const auto meets = [&](const Input& other) {
      if (other.run != output.run || other.part == output.part) return;
      SCOPED_TRACE(testing::Message() << output.name << " over " << other.name);
      expect_refused(output.run, ErrorCode::overlap, {output.name, other.name}, [&](Call& c) {
        // The last element of the one is the first of the other.
        static float room[200];
        c.*output.part = TensorView(room, DType::f32, (c.*output.part).dims(), false);
        c.*other.part = TensorView(room + (c.*output.part).count() - 1, DType::f32,
                                   (c.*other.part).dims(), false);
      });
    };
    for (const Input& t : kInputs) meets(t);
    for (const Input& t : kOutputs) meets(t);
  }
}

TEST(BadProductInput, Options) {
  for (const int bad : {5, 255})
    expect_refused(kForward, ErrorCode::argument, {"activation", std::to_string(bad)},
                   [&](Call& c) { c.options.activation = static_cast<rapt::Activation>(bad); });
  for (const Verb run : {kForward, kInput, kWeight}) {
    for (const int bad : {3, 255})
      expect_refused(run, ErrorCode::argument, {"precision", std::to_string(bad)},
                     [&](Call& c) { c.precision = static_cast<rapt::Precision>(bad); });
    expect_refused(run, ErrorCode::argument, {"workspace", "10"},
                   [](Call& c) { c.workspace = c.workspace.first(10); });
    expect_refused(run, ErrorCode::argument, {"threads"}, [](Call& c) { c.context.threads = -1; });
    Threads two(2);
    expect_refused(run, ErrorCode::argument, {"threads", "executor"}, [&](Call& c) {
      c.context.executor = &two;
      c.context.threads = 2;
    });
    expect_refused(run, ErrorCode::memory_limit, {"limit"}, [](Call& c) {
      c.workspace = {};
      c.context.memory_limit = 10;
    });
    rapt::CancelToken token;
    token.cancel();
    expect_refused(run, ErrorCode::cancelled, {}, [&](Call& c) { c.context.cancel = &token; });
  }
}

TEST(BadProductInput, AsMatrix) {
  float room[64] = {};
  const auto refused = [](const TensorView& view, ErrorCode code, const char* fragment) {
    expect_error(code, {fragment}, [&] { (void)rapt::as_matrix(view); });
  };
  refused({}, ErrorCode::argument, "missing");
  refused(TensorView(room, {}), ErrorCode::shape, "rank 0");
  TensorView deep(room, {1, 1});
  deep.rank = rapt::kMaxRank + 1;
  refused(deep, ErrorCode::shape, "rank");
  refused(TensorView(room, {2, 3, 4}, {24, 4, 1}), ErrorCode::shape, "equal distances");
  refused(TensorView(room, {2, 3, 4}, {4, 8, 1}), ErrorCode::shape, "equal distances");
  refused(TensorView(room, {2, 3, 4}, {0, 4, 1}), ErrorCode::shape, "equal distances");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  refused(TensorView(room, {2, 3, 4}, {1, kMost, 1}), ErrorCode::shape, "equal distances");
  TensorView large(room, {1, 1, 1});
  large.shape[0] = large.shape[1] = int64_t{1} << 40;
  large.strides[0] = large.strides[1] = 0;
  refused(large, ErrorCode::overflow, "too many");
}

void expect_matrix(const TensorView& view, const Dims& dims, const Dims& strides) {
  const TensorView matrix = rapt::as_matrix(view);
  EXPECT_EQ(Dims(matrix.dims().begin(), matrix.dims().end()), dims);
  EXPECT_EQ(Dims(matrix.strides, matrix.strides + 2), strides);
  EXPECT_EQ(matrix.data, view.data);
  EXPECT_EQ(matrix.dtype, view.dtype);
  EXPECT_EQ(matrix.read_only, view.read_only);
}

TEST(AsMatrix, MergesLeadingDimensions) {
  float room[64] = {};
  const float* const fixed = room;
  expect_matrix(TensorView(room, {4}), {1, 4}, {0, 1});
  expect_matrix(TensorView(room, {3, 4}), {3, 4}, {4, 1});
  expect_matrix(TensorView(fixed, {2, 3, 4}), {6, 4}, {4, 1});
  expect_matrix(TensorView(room, {2, 3, 4}, {30, 10, 2}), {6, 4}, {10, 2});
  expect_matrix(TensorView(room + 50, {2, 3, 4}, {-30, -10, 2}), {6, 4}, {-10, 2});
  expect_matrix(TensorView(room, {2, 3, 4}, {0, 0, 1}), {6, 4}, {0, 1});
  // Strides of dimensions of length 1 mean nothing.
  expect_matrix(TensorView(room, {2, 1, 3, 1, 4}, {15, 99, 5, -7, 1}), {6, 4}, {5, 1});
  expect_matrix(TensorView(room, {1, 1, 4}, {9, 9, 1}), {1, 4}, {0, 1});
  // Nor do those of a tensor without elements.
  expect_matrix(TensorView(room, {2, 0, 3, 4}, {1, 2, 3, 4}), {0, 4}, {0, 4});
  expect_matrix(TensorView(room, {2, 3, 0}, {50, 7, 1}), {6, 0}, {0, 1});
}

}  // namespace
}  // namespace laws
