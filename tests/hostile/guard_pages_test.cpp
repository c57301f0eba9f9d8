// No byte outside of a tensor is read or written: all of them, and the workspace, lie flush against
// a page that cannot be touched, first on one side, then on the other.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>

#include "hostile/guarded.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

// Calls into guarded memory; compares with the simple call.
void expect_guarded(const Case& c, Edge edge) {
  const Descriptor& p = c.descriptor;
  const GuardedTensor query(c.query, edge), key(c.key, edge), value(c.value, edge);
  AttentionOptions options = c.options;
  std::unique_ptr<GuardedTensor> bias;
  if (c.bias.defined()) {
    bias = std::make_unique<GuardedTensor>(c.bias, edge);
    options.bias = *bias;
  }
  std::vector<std::unique_ptr<GuardedTensor>> tables;
  rapt::RelativePositions& relative = options.relative;
  for (TensorView* table : {&relative.key_rows, &relative.query_rows, &relative.value_rows,
                            &relative.content_bias, &relative.position_bias})
    if (table->defined()) {
      tables.push_back(std::make_unique<GuardedTensor>(*table, edge));
      *table = *tables.back();
    }
  std::vector<std::unique_ptr<GuardedTensor>> mask_values;
  std::vector<std::unique_ptr<rapt::Mask>> masks;
  std::vector<const rapt::Mask*> pointers;
  for (MaskSpec spec : p.masks) {
    for (TensorView& tensor : spec.tensors) {
      if (!tensor.defined()) continue;
      mask_values.push_back(std::make_unique<GuardedTensor>(tensor, edge));
      tensor = *mask_values.back();
    }
    masks.push_back(spec.make());
    pointers.push_back(masks.back().get());
  }
  options.masks = pointers;
  options.weights.emplace();

  Dims dims = p.leading;
  dims.push_back(p.q_len);
  const GuardedTensor statistic(p.dtype, dims, edge);
  dims.push_back(p.value_dim);
  const GuardedTensor output(p.dtype, dims, edge);
  dims.back() = p.k_len;
  const GuardedTensor weights(p.dtype, dims, edge);
  const size_t bytes = rapt::plan(query, key, value, options).workspace_bytes;
  const Guarded workspace(bytes, edge);
  rapt::AttentionState state;
  state.output = output;
  state.statistic = statistic;
  scaled_dot_product_attention(query, key, value, options, {state, weights},
                               {workspace.data(), bytes});

  options = c.options;
  options.weights.emplace();
  const AttentionResult expected = scaled_dot_product_attention(c.query, c.key, c.value, options);
  EXPECT_TRUE(same_bits(output, expected.output));
  EXPECT_TRUE(same_bits(statistic, expected.statistic));
  EXPECT_TRUE(same_bits(weights, expected.weights));
}

TEST(GuardPages, RandomProblems) {
  Wanted wanted;
  wanted.layouts = false;
  wanted.rows = true;
  for_problems(250, wanted, [](const Case& c, Random&) {
    expect_guarded(c, Edge::front);
    expect_guarded(c, Edge::back);
  });
}

TEST(GuardPages, EveryRemainder) {
  for (int64_t d = 1; d <= 40; ++d)
    for (const int64_t n : {1, 3, 16, 17, 33, 65}) {
      Descriptor p;
      p.seed = static_cast<uint64_t>(d * 100 + n);
      p.q_len = n;
      p.k_len = 34 - d % 17;
      p.head_dim = d;
      p.value_dim = 41 - d;
      set_leading(p, {2});
      if (n % 3 == 0) p.rows.cosine = RowSpec::kEpsilon;
      if (n != 1 && d % 2 == 0) p.rows.rotary.emplace().query.start = 3;
      SCOPED_TRACE(to_string(p));
      const Case c(p);
      expect_guarded(c, Edge::front);
      expect_guarded(c, Edge::back);
    }
}

TEST(GuardPages, RelativePositions) {
  for (int64_t d = 1; d <= 20; ++d)
    for (const int64_t n : {1, 7, 17, 33, 130})
      for (const char* relative :
           {"keys+values(9)", "keys+queries(6,center=1)", "keys+queries+values(2,bottom-right)",
            "keys+content+position(40,center=39,bottom-right)", "content"}) {
        const std::string line = "h2q" + std::to_string(n) + "k" + std::to_string(150 - n) + "d" +
                                 std::to_string(d) + "v" + std::to_string(21 - d) +
                                 ":relative=" + relative;
        SCOPED_TRACE(line);
        const Case c(parse_descriptor(line));
        expect_guarded(c, Edge::front);
        expect_guarded(c, Edge::back);
      }
}

// Calls with keys and values some of whose rows are inaccessible memory.
void expect_unread(const Tensor& query, const Tensor& rows, const AttentionOptions& options,
                   std::span<const rapt::KeyRange> unseen) {
  const AttentionResult expected = scaled_dot_product_attention(query, rows, rows, options);
  const GuardedTensor key(rows, Edge::front), value(rows, Edge::front);
  for (const rapt::KeyRange& range : unseen) {
    key.forbid_rows(range.begin, range.end);
    value.forbid_rows(range.begin, range.end);
  }
  Threads two(2);
  for (const rapt::Memory memory : {rapt::Memory::automatic, rapt::Memory::low}) {
    Context context;
    context.memory = memory;
    EXPECT_TRUE(
        same_results(scaled_dot_product_attention(query, key, value, options, context), expected));
    context.executor = &two;
    EXPECT_TRUE(
        same_results(scaled_dot_product_attention(query, key, value, options, context), expected));
  }
}

Tensor listed(const Dims& numbers) {
  Tensor tensor(DType::i64, {static_cast<int64_t>(numbers.size())});
  std::ranges::copy(numbers, tensor.values<int64_t>().begin());
  return tensor;
}

// Blocks of 128 keys without queries are not read: unused ends of caches, keys before a window,
// gaps between sequences, keys of a sequence without queries. Their memory may be inaccessible.
TEST(GuardPages, WhatNobodySeesIsNotRead) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    SCOPED_TRACE(rapt::name_of(dtype));
    const Tensor query = random_normal(random, dtype, {2, 4, 200, 32});
    const Tensor caches = random_normal(random, dtype, {2, 2, 1024, 32});  // rows 0 to 4095
    AttentionOptions options;
    const rapt::Window window(100, 0, rapt::Anchor::bottom_right);
    const rapt::Prefix prefix(16);
    const rapt::Or both{&window, &prefix};
    options.masks = {&both};
    expect_unread(
        query, caches, options,
        std::to_array<rapt::KeyRange>({{128, 640}, {1152, 1664}, {2176, 2688}, {3200, 3712}}));
    const Tensor lengths = listed({300, 700});
    const rapt::Lengths used(lengths);
    options.masks = {&used};
    expect_unread(
        query, caches, options,
        std::to_array<rapt::KeyRange>({{384, 1024}, {1408, 2048}, {2816, 3072}, {3840, 4096}}));
    options.masks = {&window};
    expect_unread(
        query, caches, options,
        std::to_array<rapt::KeyRange>({{0, 256}, {1024, 1280}, {2048, 2304}, {3072, 3328}}));
    const Tensor queries = random_normal(random, dtype, {4, 300, 32});
    const Tensor sequences = random_normal(random, dtype, {2, 1024, 32});
    const Tensor starts = listed({0, 280, 300, 300}), key_starts = listed({0, 512, 896, 1024});
    options.packed = {starts, key_starts};
    expect_unread(queries, sequences, options,
                  std::to_array<rapt::KeyRange>(
                      {{0, 128}, {512, 768}, {896, 1152}, {1536, 1792}, {1920, 2048}}));
  }
}

// PyTorch #156022: 1030 queries, 17 keys, 3 heads of 8 wrote out of bounds.
TEST(GuardPages, reg_1030_17_3_8) {
  Descriptor p;
  p.q_len = 1030;
  p.k_len = 17;
  p.head_dim = p.value_dim = 8;
  set_leading(p, {3});
  const Case c(p);
  expect_guarded(c, Edge::front);
  expect_guarded(c, Edge::back);
}

// Strided inputs: the last element of the last row is the last byte that may be read.
TEST(GuardPages, StridedInputs) {
  for (const int64_t d : {1, 3, 8, 15, 16, 17, 40})
    for (const int64_t n : {1, 5, 16, 33, 70})
      for (const Edge edge : {Edge::front, Edge::back}) {
        Random random(base_seed());
        const Tensor dense = random_normal(random, DType::f32, {n, d});
        const AttentionResult expected = scaled_dot_product_attention(dense, dense, dense);
        // Views: [d, n] in memory, transposed; every second column of [n, 2 d - 1], as [n, 1, d].
        const GuardedTensor columns(dense.view().transposed(), edge);
        const AttentionResult by_columns = scaled_dot_product_attention(
            columns.view().transposed(), columns.view().transposed(), columns.view().transposed());
        EXPECT_TRUE(same_bits(by_columns.output, expected.output)) << n << " " << d;

        const auto spread_count = static_cast<size_t>((n * d - 1) * 2 + 1);
        const Guarded spread(spread_count * sizeof(float), edge);
        const Dims dims{n, d}, strides{2 * d, 2};
        const TensorView every_second(spread.data(), DType::f32, dims, strides, false);
        for_each_index(dims, [&](auto i) { set(every_second, i, get(dense, i)); });
        const AttentionResult by_spread =
            scaled_dot_product_attention(every_second, every_second, every_second);
        EXPECT_TRUE(same_bits(by_spread.output, expected.output)) << n << " " << d;

        // Upside down: row 0 is the last in memory, its columns run backwards.
        const GuardedTensor reversed(dense, edge);
        const Dims back{-d, -1};
        const TensorView upside_down(reversed.view().data == nullptr
                                         ? nullptr
                                         : static_cast<float*>(reversed.view().data) + n * d - 1,
                                     DType::f32, dims, back, false);
        for_each_index(dims, [&](auto i) { set(upside_down, i, get(dense, i)); });
        const AttentionResult by_reversed =
            scaled_dot_product_attention(upside_down, upside_down, upside_down);
        EXPECT_TRUE(same_bits(by_reversed.output, expected.output)) << n << " " << d;
      }
}

// Outputs with strides: only their own elements are written.
TEST(GuardPages, StridedOutputs) {
  for_problems(60, unmasked(), [](const Case& c, Random& random) {
    const AttentionResult expected = attend(c);
    const Tensor nothing = filled(
        c.descriptor.dtype, Dims(expected.output.dims().begin(), expected.output.dims().end()), 0);
    const Strided out(nothing, static_cast<Layout>(random.between(0, kLayouts - 1)));
    const Strided lse(Tensor::copy_of(expected.statistic),
                      random.chance(0.5) ? Layout::strided : Layout::negative);
    rapt::AttentionState state;
    state.output = out;
    state.statistic = lse;
    state.output.read_only = state.statistic.read_only = false;
    std::vector<std::byte> workspace(
        rapt::plan(c.query, c.key, c.value, c.options).workspace_bytes);
    scaled_dot_product_attention(c.query, c.key, c.value, c.options, {state}, workspace);
    EXPECT_TRUE(same_bits(out, expected.output));
    EXPECT_TRUE(same_bits(lse, expected.statistic));
  });
}

// The promised workspace suffices for as many workers as the executor has, at any alignment, and
// no memory outside it is touched; one byte less is rejected before anything is written.
TEST(Workspace, ExactlyAsPromised) {
  for_problems(60, {}, [](const Case& c, Random& random) {
    Threads threads(static_cast<int>(random.between(1, 4)));
    Context context;
    context.executor = &threads;
    const AttentionResult expected = attend(c);
    const size_t bytes = rapt::plan(c.query, c.key, c.value, c.options, context).workspace_bytes;
    constexpr size_t kCanary = 64;
    const auto shift = static_cast<size_t>(random.between(0, 63));
    std::vector<std::byte> memory(bytes + shift + 2 * kCanary, std::byte{0x5a});
    const std::span<std::byte> workspace(memory.data() + kCanary + shift, bytes);
    AttentionResult got;
    got.output = filled(c.descriptor.dtype,
                        Dims(expected.output.dims().begin(), expected.output.dims().end()), 77);
    got.statistic =
        filled(c.descriptor.dtype,
               Dims(expected.statistic.dims().begin(), expected.statistic.dims().end()), 77);
    rapt::AttentionState state;
    state.output = got.output;
    state.statistic = got.statistic;
    if (bytes > 0) {
      const Tensor before = Tensor::copy_of(got.output);
      try {
        scaled_dot_product_attention(c.query, c.key, c.value, c.options, {state},
                                     workspace.first(bytes - 1), context);
        ADD_FAILURE() << "took a workspace of " << bytes - 1 << " instead of " << bytes;
      } catch (const rapt::Error& error) {
        EXPECT_EQ(error.code(), rapt::ErrorCode::argument) << error.what();
        EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos)
            << error.what();
      }
      EXPECT_TRUE(same_bits(got.output, before));
    }
    scaled_dot_product_attention(c.query, c.key, c.value, c.options, {state}, workspace, context);
    EXPECT_TRUE(same_results(got, expected));
    for (size_t i = 0; i < memory.size(); ++i)
      if (i < kCanary + shift || i >= kCanary + shift + bytes) {
        ASSERT_EQ(memory[i], std::byte{0x5a}) << "byte " << i << " of " << bytes;
      }
  });
}

// plan() does not ask masks about the keys of a tile without keys: there may be none.
TEST(GuardPages, PlanOfADocumentWithoutKeys) {
  const Tensor query(DType::f32, {1, 4}), key(DType::f32, {3, 4});
  const Tensor of_query = filled(DType::i64, {1}, 2), of_keys = filled(DType::i64, {3}, 1);
  const GuardedTensor ids(of_keys, Edge::back);
  const rapt::Documents mask(of_query, ids.view());
  AttentionOptions options;
  options.masks = {&mask};
  const rapt::Plan plan = rapt::plan(query, key, key, options);
  EXPECT_EQ(plan.allowed_scores, 0);
  EXPECT_EQ(plan.tiles_skipped, 1);
}

TEST(Workspace, StatisticMayBeAbsent) {
  for_problems(20, {}, [](const Case& c, Random&) {
    const AttentionResult expected = attend(c);
    Tensor output(c.descriptor.dtype, expected.output.dims());
    rapt::AttentionState state;
    state.output = output;
    std::vector<std::byte> workspace(
        rapt::plan(c.query, c.key, c.value, c.options).workspace_bytes);
    scaled_dot_product_attention(c.query, c.key, c.value, c.options, {state}, workspace);
    EXPECT_TRUE(same_bits(output, expected.output));
  });
}

}  // namespace
}  // namespace laws
