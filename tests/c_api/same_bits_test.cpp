// The C call is the C++ call: the same bits, whatever the options, and the same plan.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "rapt/rapt.h"
#include "rapt/rapt_c.h"

namespace {

using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;

const rapt_variant kNamedSoftmax = {sizeof(rapt_variant), "softmax", 0, nullptr};

rapt_dtype c_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return RAPT_F32;
    case DType::f64:
      return RAPT_F64;
    case DType::bf16:
      return RAPT_BF16;
    case DType::f16:
      return RAPT_F16;
    case DType::i64:
      return RAPT_I64;
    case DType::i32:
      return RAPT_I32;
    case DType::u8:
      return RAPT_U8;
    case DType::boolean:
      return RAPT_BOOL;
  }
  return 0;
}

// A descriptor of the same memory. It points to a shape, which is kept until the process ends.
rapt_tensor c_view(const TensorView& of) {
  static std::deque<TensorView> kept;
  const TensorView& view = kept.emplace_back(of);
  rapt_tensor t = {};
  t.size = sizeof t;
  t.data = view.data;
  t.dtype = c_dtype(view.dtype);
  t.device = RAPT_CPU;
  t.read_only = view.read_only;
  t.rank = view.rank;
  t.shape = view.shape;
  t.strides = view.strides;
  return t;
}

// Numbers in [-1, 1) that differ from element to element.
Tensor numbers(DType dtype, rapt::Shape shape, uint64_t seed) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double x = static_cast<double>(seed >> 11) * 0x1p-52 - 1;
    if (dtype == DType::f64)
      t.values<double>()[static_cast<size_t>(i)] = x;
    else
      t.values<float>()[static_cast<size_t>(i)] = static_cast<float>(x);
  }
  return t;
}
Tensor numbers(DType dtype, std::initializer_list<int64_t> shape, uint64_t seed) {
  return numbers(dtype, rapt::Shape(shape.begin(), shape.size()), seed);
}

void expect_same_bits(const Tensor& a, const Tensor& b, const char* what) {
  ASSERT_TRUE(std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end()));
  const auto bytes = static_cast<size_t>(a.count() * rapt::size_of(a.dtype()));
  EXPECT_EQ(std::memcmp(a.view().data, b.view().data, bytes), 0) << what;
}

// Calls both, with and without a workspace of the caller, and compares all results and the plan.
void compare(const TensorView& query, const TensorView& key, const TensorView& value,
             const rapt::AttentionOptions& cpp_options, const rapt_options& c_options) {
  const rapt::AttentionResult expected =
      rapt::scaled_dot_product_attention(query, key, value, cpp_options);
  const rapt::Plan expected_plan = rapt::plan(query, key, value, cpp_options);

  const rapt_tensor q = c_view(query), k = c_view(key), v = c_view(value);
  rapt_plan_info plan = {};
  plan.size = sizeof plan;
  ASSERT_EQ(rapt_plan(&q, &k, &v, &c_options, nullptr, &plan), RAPT_OK) << rapt_last_error();
  EXPECT_STREQ(plan.isa, expected_plan.isa);
  EXPECT_STREQ(plan.kernel, expected_plan.kernel);
  EXPECT_EQ(plan.tile_queries, expected_plan.tile_queries);
  EXPECT_EQ(plan.block_keys, expected_plan.block_keys);
  EXPECT_EQ(plan.tiles_computed, expected_plan.tiles_computed);
  EXPECT_EQ(plan.tiles_partial, expected_plan.tiles_partial);
  EXPECT_EQ(plan.tiles_skipped, expected_plan.tiles_skipped);
  EXPECT_EQ(plan.allowed_scores, expected_plan.allowed_scores);
  EXPECT_EQ(plan.workspace_bytes, expected_plan.workspace_bytes);
  EXPECT_EQ(plan.result_bytes, expected_plan.result_bytes);
  EXPECT_EQ(plan.matrix_bytes, expected_plan.matrix_bytes);

  std::vector<std::byte> workspace(plan.workspace_bytes);
  for (const bool own_workspace : {true, false}) {
    const DType dtype = query.dtype;
    Tensor output(dtype, expected.output.dims());
    Tensor statistic(dtype, expected.statistic.dims());
    Tensor weights;
    const rapt_tensor o = c_view(output), s = c_view(statistic);
    rapt_tensor w = {};
    rapt_results results = {sizeof results, &o, &s, nullptr};
    if (c_options.weights) {
      weights = Tensor(dtype, expected.weights.dims());
      w = c_view(weights);
      results.weights = &w;
    }
    ASSERT_EQ(rapt_attention_forward(&q, &k, &v, &c_options, &results,
                                     own_workspace ? workspace.data() : nullptr,
                                     own_workspace ? workspace.size() : 0, nullptr),
              RAPT_OK)
        << rapt_last_error();
    expect_same_bits(output, expected.output, "output");
    expect_same_bits(statistic, expected.statistic, "statistic");
    if (c_options.weights) expect_same_bits(weights, expected.weights, "weights");
  }
}

class SameBits : public testing::TestWithParam<DType> {
 protected:
  const Tensor query_ = numbers(GetParam(), {2, 4, 70, 24}, 1);
  const Tensor key_ = numbers(GetParam(), {2, 2, 133, 24}, 2);
  const Tensor value_ = numbers(GetParam(), {2, 2, 133, 17}, 3);
};
INSTANTIATE_TEST_SUITE_P(DTypes, SameBits, testing::Values(DType::f32, DType::f64),
                         [](const auto& dtype) { return rapt::name_of(dtype.param); });

TEST_P(SameBits, Plain) {
  compare(query_, key_, value_, {},
          {sizeof(rapt_options), nullptr, 0, nullptr, nullptr, nullptr, nullptr});
}

TEST_P(SameBits, Strided) {
  const Tensor turned = numbers(GetParam(), {2, 2, 24, 133}, 4);
  compare(query_.view().slice(2, 3, 60), turned.view().transposed(), value_, {},
          {sizeof(rapt_options), nullptr, 0, nullptr, nullptr, &kNamedSoftmax, nullptr});
}

TEST_P(SameBits, ScaleBiasMasksAndWeights) {
  const double scale = -0.3;
  const Tensor bias = numbers(GetParam(), {70, 133}, 5);
  Tensor lengths(DType::i64, {2});
  lengths.values<int64_t>()[0] = 120;
  lengths.values<int64_t>()[1] = 7;
  Tensor allowed(DType::boolean, {70, 133});
  for (int64_t i = 0; i < allowed.count(); ++i)
    allowed.values<bool>()[static_cast<size_t>(i)] = i % 7 != 3;

  const rapt::Causal causal(rapt::Anchor::bottom_right);
  const rapt::Lengths padding(lengths);
  const rapt::Boolean boolean(allowed);
  const rapt::Mask* cpp_masks[] = {&causal, &padding, &boolean};
  const int64_t heads[] = {7, 0, 3};
  rapt::AttentionOptions cpp_options;
  cpp_options.scale = scale;
  cpp_options.masks = cpp_masks;
  cpp_options.bias = bias;
  cpp_options.weights = rapt::WeightsRequest{5, 66, heads};

  const rapt_tensor n = c_view(lengths), m = c_view(allowed), b = c_view(bias);
  const rapt_named_tensor named[] = {{"m", &m}, {"n", &n}};
  const rapt_variant c_causal = {sizeof c_causal, "causal(bottom-right)", 0, nullptr};
  const rapt_variant c_padding = {sizeof c_padding, "lengths(n)", 2, named};
  const rapt_variant c_boolean = {sizeof c_boolean, "boolean(allowed=m)", 2, named};
  const rapt_variant* c_masks[] = {&c_causal, &c_padding, &c_boolean};
  const rapt_weights_request request = {sizeof request, 5, 66, 3, heads};
  compare(query_, key_, value_, cpp_options,
          {sizeof(rapt_options), &scale, 3, c_masks, &b, &kNamedSoftmax, &request});
}

// A text may combine masks; its tensors have names there, too.
TEST_P(SameBits, CombinedMasks) {
  Tensor lengths(DType::i64, {2}), ids(DType::i64, {2, 70}), key_ids(DType::i64, {133});
  for (size_t i = 0; i < 2; ++i) lengths.values<int64_t>()[i] = i == 0 ? 120 : 7;
  for (size_t i = 0; i < 140; ++i) ids.values<int64_t>()[i] = static_cast<int64_t>(i) / 30;
  for (size_t i = 0; i < 133; ++i) key_ids.values<int64_t>()[i] = static_cast<int64_t>(i) / 40;
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  const rapt::Lengths padding(lengths);
  const rapt::Prefix prefix(9);
  const rapt::Documents documents(ids, key_ids);
  const rapt::Not others(&documents);
  const rapt::Or either{&causal, &prefix};
  const rapt::And all{&either, &others};
  rapt::AttentionOptions cpp_options;
  cpp_options.masks = {&all, &padding};

  const rapt_tensor n = c_view(lengths), q = c_view(ids), k = c_view(key_ids);
  const rapt_named_tensor named[] = {{"k", &k}, {"n", &n}, {"q", &q}};
  const rapt_variant combined = {sizeof combined,
                                 "(causal(bottom-right) | prefix(9)) & !documents(q, k)", 3, named};
  const rapt_variant alone = {sizeof alone, "lengths:n", 3, named};
  const rapt_variant* c_masks[] = {&combined, &alone};
  rapt_options c_options = {};
  c_options.size = sizeof c_options;
  c_options.mask_count = 2;
  c_options.masks = c_masks;
  compare(query_, key_, value_, cpp_options, c_options);
}

// An executor with two workers that runs tasks backwards must not change a bit.
TEST_P(SameBits, CallersExecutor) {
  struct Pool {
    int64_t tasks_run = 0;
    double last_fraction = 0;
  } pool;
  rapt_executor executor = {};
  executor.size = sizeof executor;
  executor.user = &pool;
  executor.concurrency = [](void*) { return 2; };
  executor.run = [](void* user, int64_t tasks, rapt_task task, void* argument) {
    for (int64_t t = tasks - 1; t >= 0; --t) {
      task(argument, t, static_cast<int>(t % 2));
      ++static_cast<Pool*>(user)->tasks_run;
    }
  };
  rapt_context context = {};
  context.size = sizeof context;
  context.executor = &executor;
  context.progress = [](void* user, double fraction) {
    static_cast<Pool*>(user)->last_fraction = fraction;
  };
  context.progress_user = &pool;
  context.memory_limit = int64_t{1} << 30;

  const rapt::AttentionResult expected = rapt::scaled_dot_product_attention(query_, key_, value_);
  Tensor output(GetParam(), expected.output.dims());
  const rapt_tensor q = c_view(query_), k = c_view(key_), v = c_view(value_), o = c_view(output);
  const rapt_results results = {sizeof results, &o, nullptr, nullptr};
  ASSERT_EQ(rapt_attention_forward(&q, &k, &v, nullptr, &results, nullptr, 0, &context), RAPT_OK)
      << rapt_last_error();
  expect_same_bits(output, expected.output, "output");
  EXPECT_GT(pool.tasks_run, 0);
  EXPECT_EQ(pool.last_fraction, 1);
}

}  // namespace
