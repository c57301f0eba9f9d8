// The C call gives the same bits and the same plan as the C++ call, with any options.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "described_tensors.h"
#include "rapt/rapt.h"
#include "rapt/rapt_c.h"

namespace {

const rapt_variant kNamedSoftmax = {sizeof(rapt_variant), "softmax", 0, nullptr};

void expect_same_plan(const rapt_plan_info& plan, const rapt::Plan& expected) {
  EXPECT_EQ(plan.size, sizeof plan);
  EXPECT_STREQ(plan.isa, expected.isa);
  EXPECT_STREQ(plan.kernel, expected.kernel);
  EXPECT_EQ(plan.statistic, static_cast<int32_t>(expected.statistic));
  EXPECT_EQ(plan.threads, expected.threads);
  EXPECT_EQ(plan.tile_queries, expected.tile_queries);
  EXPECT_EQ(plan.block_keys, expected.block_keys);
  EXPECT_EQ(plan.tiles_computed, expected.tiles_computed);
  EXPECT_EQ(plan.tiles_partial, expected.tiles_partial);
  EXPECT_EQ(plan.tiles_skipped, expected.tiles_skipped);
  EXPECT_EQ(plan.allowed_scores, expected.allowed_scores);
  EXPECT_EQ(plan.workspace_bytes, expected.workspace_bytes);
  EXPECT_EQ(plan.result_bytes, expected.result_bytes);
  EXPECT_EQ(plan.matrix_bytes, expected.matrix_bytes);
  EXPECT_EQ(plan.group_heads, expected.group_heads);
}

struct FreePrepared {
  void operator()(rapt_prepared* prepared) const { rapt_prepared_destroy(prepared); }
};
using PreparedPointer = std::unique_ptr<rapt_prepared, FreePrepared>;

PreparedPointer prepare(const rapt_options& options, const rapt_context* context = nullptr) {
  rapt_prepared* prepared = nullptr;
  EXPECT_EQ(rapt_prepare(&options, context, &prepared), RAPT_OK) << rapt_last_error();
  return PreparedPointer(prepared);
}

// Every result of a call, and the member of rapt_results that points to its tensor.
constexpr struct {
  const char* name;
  Tensor rapt::AttentionResult::*expected;
  const rapt_tensor* rapt_results::*place;
} kResults[] = {
    {"output", &rapt::AttentionResult::output, &rapt_results::output},
    {"statistic", &rapt::AttentionResult::statistic, &rapt_results::statistic},
    {"weights", &rapt::AttentionResult::weights, &rapt_results::weights},
    {"map", &rapt::AttentionResult::map, &rapt_results::map},
    {"top_keys", &rapt::AttentionResult::top_keys, &rapt_results::top_keys},
    {"top_weights", &rapt::AttentionResult::top_weights, &rapt_results::top_weights},
    {"entropy", &rapt::AttentionResult::entropy, &rapt_results::entropy},
    {"received", &rapt::AttentionResult::received, &rapt_results::received},
};

// Makes the C++ call and the C calls, plain and prepared, with and without the caller's workspace.
// Compares all results, the plan and the workspace size.
void compare(const TensorView& query, const TensorView& key, const TensorView& value,
             const rapt::AttentionOptions& cpp_options, const rapt_options& c_options,
             const rapt::Context& cpp_context = {}, const rapt_context* c_context = nullptr) {
  const rapt::AttentionResult expected =
      rapt::scaled_dot_product_attention(query, key, value, cpp_options, cpp_context);
  const rapt::Plan expected_plan = rapt::plan(query, key, value, cpp_options, cpp_context);

  const rapt_tensor q = c_view(query), k = c_view(key), v = c_view(value);
  const PreparedPointer prepared = prepare(c_options, c_context);
  ASSERT_TRUE(prepared);
  std::vector<std::byte> workspace(expected_plan.workspace_bytes);
  for (const bool is_prepared : {false, true}) {
    rapt_plan_info plan = {};
    plan.size = sizeof plan;
    size_t bytes = 0;
    if (is_prepared) {
      EXPECT_EQ(rapt_prepared_plan(prepared.get(), &q, &k, &v, &plan), RAPT_OK);
      EXPECT_EQ(rapt_prepared_workspace_bytes(prepared.get(), &q, &k, &v, &bytes), RAPT_OK);
    } else {
      EXPECT_EQ(rapt_plan(&q, &k, &v, &c_options, c_context, &plan), RAPT_OK);
      EXPECT_EQ(rapt_workspace_bytes(&q, &k, &v, &c_options, c_context, &bytes), RAPT_OK);
    }
    expect_same_plan(plan, expected_plan);
    EXPECT_EQ(bytes, expected_plan.workspace_bytes);

    for (const bool own_workspace : {true, false}) {
      std::deque<Tensor> tensors;
      std::deque<rapt_tensor> places;
      rapt_results results = {};
      results.size = sizeof results;
      for (const auto& result : kResults) {
        const Tensor& like = expected.*result.expected;
        if (!like.defined()) continue;
        Tensor& tensor = tensors.emplace_back(like.dtype(), like.dims());
        std::memset(tensor.data(), 0x5A,
                    static_cast<size_t>(like.count() * rapt::size_of(like.dtype())));
        results.*result.place = &places.emplace_back(c_view(tensor));
      }
      void* const scratch = own_workspace ? workspace.data() : nullptr;
      const size_t room = own_workspace ? workspace.size() : 0;
      ASSERT_EQ(
          is_prepared
              ? rapt_prepared_forward(prepared.get(), &q, &k, &v, &results, scratch, room)
              : rapt_attention_forward(&q, &k, &v, &c_options, &results, scratch, room, c_context),
          RAPT_OK)
          << rapt_last_error();
      size_t i = 0;
      for (const auto& result : kResults)
        if ((expected.*result.expected).defined())
          expect_same_bits(tensors[i++], expected.*result.expected, result.name);
    }
  }
}

class SameBits : public testing::TestWithParam<DType> {
 protected:
  bool is_16_bit() const { return GetParam() == DType::bf16 || GetParam() == DType::f16; }

  const Tensor query_ = numbers(GetParam(), {2, 4, 70, 24}, 1);
  const Tensor key_ = numbers(GetParam(), {2, 2, 133, 24}, 2);
  const Tensor value_ = numbers(GetParam(), {2, 2, 133, 17}, 3);
};
INSTANTIATE_TEST_SUITE_P(DTypes, SameBits,
                         testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                         [](const auto& dtype) { return rapt::name_of(dtype.param); });

TEST_P(SameBits, Plain) { compare(query_, key_, value_, {}, no_options()); }

// Heads share keys, so on the tiles route the two workspaces have different sizes.
TEST_P(SameBits, LowMemory) {
  rapt::Context cpp_context;
  rapt_context c_context = {};
  c_context.size = sizeof c_context;
  compare(query_, key_, value_, {}, no_options(), cpp_context, &c_context);
  cpp_context.memory = rapt::Memory::low;
  c_context.memory = RAPT_MEMORY_LOW;
  compare(query_, key_, value_, {}, no_options(), cpp_context, &c_context);
}

TEST_P(SameBits, Strided) {
  const Tensor turned = numbers(GetParam(), {2, 2, 24, 133}, 4);
  rapt_options c_options = no_options();
  c_options.normalizer = &kNamedSoftmax;
  compare(query_.view().slice(2, 3, 60), turned.view().transposed(), value_, {}, c_options);
}

TEST_P(SameBits, ScaleBiasMasksAndWeights) {
  const double scale = -0.3;
  const Tensor bias = numbers(is_16_bit() ? DType::f32 : GetParam(), {70, 133}, 5);
  const Tensor lengths = integers({120, 7});
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
  const rapt_weights_request request = {sizeof request,     5, 66, 3, heads, 0, nullptr,
                                        RAPT_STAGE_WEIGHTS, 0};
  rapt_options c_options = no_options();
  c_options.scale = &scale;
  c_options.mask_count = 3;
  c_options.masks = c_masks;
  c_options.bias = &b;
  c_options.normalizer = &kNamedSoftmax;
  c_options.weights = &request;
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, Scores) {
  const rapt::Softcap softcap(0.7), narrower(0.4);
  rapt::AttentionOptions cpp_options;
  cpp_options.scores = {softcap, narrower};
  const rapt_variant c_softcap = {sizeof c_softcap, "softcap(0.7)", 0, nullptr};
  const rapt_variant c_narrower = {sizeof c_narrower, "softcap:0.4", 0, nullptr};
  const rapt_variant* c_scores[] = {&c_softcap, &c_narrower};
  rapt_options c_options = no_options();
  c_options.score_count = 2;
  c_options.scores = c_scores;
  compare(query_, key_, value_, cpp_options, c_options);

  cpp_options.weights.emplace().stage = rapt::WeightsStage::scores;
  const rapt_weights_request request = {sizeof request,    0, 0, 0, nullptr, 0, nullptr,
                                        RAPT_STAGE_SCORES, 0};
  c_options.weights = &request;
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, RowChanges) {
  rapt::Rotary rotary;
  rotary.theta = 500, rotary.pairs = rapt::RotaryPairs::interleaved;
  Tensor of_queries(DType::i64, {70});
  for (int64_t i = 0; i < 70; ++i) of_queries.values<int64_t>()[static_cast<size_t>(i)] = i * i;
  rapt::AttentionOptions cpp_options;
  cpp_options.rotary.embedding = &rotary;
  cpp_options.rotary.key.start = 5;
  const rapt_variant c_rotary = {sizeof c_rotary, "rotary(500, interleaved)", 0, nullptr};
  rapt_options c_options = no_options();
  c_options.rotary = &c_rotary;
  c_options.rotary_key_start = 5;
  compare(query_, key_, value_, cpp_options, c_options);
  cpp_options.rotary.query.step = -2, cpp_options.rotary.key.step = 3;
  c_options.rotary_query_step = -2, c_options.rotary_key_step = 3;
  compare(query_, key_, value_, cpp_options, c_options);
  cpp_options.rotary.key = {}, cpp_options.rotary.rotate_key = false;
  c_options.rotary_key_start = c_options.rotary_key_step = 0;
  c_options.rotary_keys_are_rotated = 1;
  compare(query_, key_, value_, cpp_options, c_options);
  cpp_options.rotary.query.step = 1, c_options.rotary_query_step = 0;
  const rapt_tensor c_positions = c_view(of_queries);
  cpp_options.rotary.query.values = of_queries;
  cpp_options.cosine = rapt::Cosine{1e-6};
  c_options.rotary_query_positions = &c_positions;
  c_options.cosine_epsilon = 1e-6;
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, RelativePositions) {
  const Tensor key_rows = numbers(GetParam(), {4, 9, query_.dim(3)}, 21);
  const Tensor value_rows = numbers(GetParam(), {9, value_.dim(3)}, 22);
  const Tensor bias = numbers(GetParam(), {query_.dim(3)}, 23);
  rapt::AttentionOptions cpp_options;
  cpp_options.relative.key_rows = key_rows;
  cpp_options.relative.value_rows = value_rows;
  cpp_options.relative.content_bias = bias;
  cpp_options.relative.center = 3;
  cpp_options.relative.anchor = rapt::Anchor::bottom_right;
  const rapt_tensor k = c_view(key_rows), v = c_view(value_rows), b = c_view(bias);
  const rapt_named_tensor tensors[] = {{"k", &k}, {"v", &v}, {"b", &b}};
  const rapt_variant c_relative = {
      sizeof c_relative,
      "relative(key_rows=k, value_rows=v, content_bias=b, center=3, anchor=bottom-right)", 3,
      tensors};
  rapt_options c_options = no_options();
  c_options.relative = &c_relative;
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, Captures) {
  const int64_t rows[] = {69, 3, 3, 0}, map_heads[] = {5, 2};
  rapt::AttentionOptions cpp_options;
  cpp_options.weights = rapt::WeightsRequest{0, rapt::kToEnd, {}, rows};
  cpp_options.top_k = 5;
  cpp_options.entropy = true;
  cpp_options.received = true;
  const rapt_weights_request request = {sizeof request,     0, 0, 0, nullptr, 4, rows,
                                        RAPT_STAGE_WEIGHTS, 0};
  rapt_map_request map = {sizeof map, 7, 11, RAPT_POOL_MEAN, 0, 2, map_heads};
  rapt_options c_options = no_options();
  c_options.weights = &request;
  c_options.map = &map;
  c_options.top_k = 5;
  c_options.entropy = 1;
  c_options.received = 1;
  const struct {
    rapt::Pool cpp;
    rapt_pool c;
  } pools[] = {{rapt::Pool::mean, RAPT_POOL_MEAN},
               {rapt::Pool::max, RAPT_POOL_MAX},
               {rapt::Pool::sum, RAPT_POOL_SUM}};
  for (const auto& pool : pools) {
    map.pool = pool.c;
    cpp_options.map = rapt::MapRequest{7, 11, pool.cpp, map_heads};
    compare(query_, key_, value_, cpp_options, c_options);
  }
  map.head_count = 0;
  cpp_options.map->heads = {};
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, BiasBeforeScores) {
  const Tensor bias = numbers(GetParam(), {70, 133}, 6);
  const rapt::Softcap cap(0.5);
  rapt::AttentionOptions cpp_options;
  cpp_options.bias = bias;
  cpp_options.scores = {cap};
  cpp_options.bias_order = rapt::BiasOrder::before_scores;
  const rapt_tensor c_bias = c_view(bias);
  const rapt_variant c_cap = {sizeof c_cap, "softcap(0.5)", 0, nullptr};
  const rapt_variant* c_scores[] = {&c_cap};
  rapt_options c_options = no_options();
  c_options.bias = &c_bias;
  c_options.score_count = 1;
  c_options.scores = c_scores;
  c_options.bias_order = RAPT_BIAS_BEFORE_SCORES;
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, OutputDtypePrecisionAndInvariant) {
  const DType result = GetParam() == DType::f64 ? DType::f64 : DType::f32;
  rapt::AttentionOptions cpp_options;
  cpp_options.output_dtype = result;
  rapt_options c_options = no_options();
  c_options.output_dtype = c_dtype(result);
  compare(query_, key_, value_, cpp_options, c_options);
  cpp_options.precision = rapt::Precision::fma;
  c_options.precision = RAPT_PRECISION_FMA;
  compare(query_, key_, value_, cpp_options, c_options);
  cpp_options.precision = rapt::Precision::fast;
  c_options.precision = RAPT_PRECISION_FAST;
  compare(query_, key_, value_, cpp_options, c_options);
  cpp_options.invariant = true;
  c_options.invariant = 1;
  compare(query_, key_, value_, cpp_options, c_options);
}

TEST_P(SameBits, Dropout) {
  rapt::AttentionOptions cpp_options;
  cpp_options.dropout = {0.25, 0xFEDCBA9876543210};
  rapt_options c_options = no_options();
  c_options.dropout = 0.25;
  c_options.dropout_seed = 0xFEDCBA9876543210;
  compare(query_, key_, value_, cpp_options, c_options);

  Tensor expected(DType::boolean, {2, 4, 70, 133}), got(DType::boolean, {2, 4, 70, 133});
  rapt::dropout_mask(cpp_options.dropout, expected);
  const rapt_tensor kept = c_view(got);
  ASSERT_EQ(rapt_dropout_mask(0.25, 0xFEDCBA9876543210, &kept), RAPT_OK) << rapt_last_error();
  expect_same_bits(got, expected, "kept");
}

TEST_P(SameBits, PackedSequences) {
  const Tensor query_starts = integers({0, 20, 20, 70}), key_starts = integers({0, 50, 51, 133});
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  rapt::AttentionOptions cpp_options;
  cpp_options.masks = {&causal};
  cpp_options.packed = {query_starts, key_starts};
  cpp_options.top_k = 3;
  const rapt_tensor qs = c_view(query_starts), ks = c_view(key_starts);
  const rapt_variant c_causal = {sizeof c_causal, "causal(bottom-right)", 0, nullptr};
  const rapt_variant* c_masks[] = {&c_causal};
  rapt_options c_options = no_options();
  c_options.mask_count = 1;
  c_options.masks = c_masks;
  c_options.query_starts = &qs;
  c_options.key_starts = &ks;
  c_options.top_k = 3;
  compare(query_, key_, value_, cpp_options, c_options);

  cpp_options.packed.key_starts = {};
  c_options.key_starts = nullptr;
  compare(query_, key_.view().slice(2, 0, 70), value_.view().slice(2, 0, 70), cpp_options,
          c_options);
}

// A text may combine masks and refers to their tensors by name.
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
  rapt_options c_options = no_options();
  c_options.mask_count = 2;
  c_options.masks = c_masks;
  compare(query_, key_, value_, cpp_options, c_options);
}

// The library's or the caller's threads, in any number, change no bit.
TEST(SameBitsOnThreads, OwnAndCallers) {
  const Tensor query = numbers(DType::f32, {4, 300, 64}, 1);
  const Tensor key = numbers(DType::f32, {4, 300, 64}, 2);
  const Tensor value = numbers(DType::f32, {4, 300, 64}, 3);
  const rapt_options c_options = no_options();
  for (const int threads : {0, 1, 2}) {
    rapt::Context cpp_context;
    cpp_context.threads = threads;
    rapt_context c_context = {};
    c_context.size = sizeof c_context;
    c_context.threads = threads;
    compare(query, key, value, {}, c_options, cpp_context, &c_context);
  }

  // Two workers; the tasks run in reverse order.
  struct Backwards final : rapt::Executor {
    int concurrency() const noexcept override { return 2; }
    void run(int64_t tasks, Task task, void* argument) override {
      for (int64_t t = tasks - 1; t >= 0; --t)
        task(argument, t, static_cast<int>(t % 2)), ++tasks_run;
    }
    int64_t tasks_run = 0;
  } backwards;
  rapt::Context cpp_context;
  cpp_context.executor = &backwards;

  struct Seen {
    int64_t tasks_run = 0;
    double last_fraction = 0;
  } seen;
  rapt_executor executor = {};
  executor.size = sizeof executor;
  executor.user = &seen;
  executor.concurrency = [](void*) { return 2; };
  executor.run = [](void* user, int64_t tasks, rapt_task task, void* argument) {
    for (int64_t t = tasks - 1; t >= 0; --t) {
      task(argument, t, static_cast<int>(t % 2));
      ++static_cast<Seen*>(user)->tasks_run;
    }
    return 0;
  };
  rapt_context c_context = {};
  c_context.size = sizeof c_context;
  c_context.executor = &executor;
  c_context.progress = [](void* user, double fraction) {
    static_cast<Seen*>(user)->last_fraction = fraction;
  };
  c_context.progress_user = &seen;
  c_context.memory_limit = int64_t{1} << 30;
  compare(query, key, value, {}, c_options, cpp_context, &c_context);
  EXPECT_GT(backwards.tasks_run, 1);
  EXPECT_EQ(seen.tasks_run, 4 * backwards.tasks_run);  // plain and prepared, twice each
  EXPECT_EQ(seen.last_fraction, 1);
}

TEST(Machine, SaysWhatTheCppInterfaceSays) {
  const std::vector<rapt::InstructionSet> expected = rapt::instruction_sets();
  size_t count = 0;
  ASSERT_EQ(rapt_instruction_sets(nullptr, 0, &count), RAPT_OK) << rapt_last_error();
  ASSERT_EQ(count, expected.size());
  std::vector<rapt_instruction_set> sets(count + 1, {"untouched", 7, 7, "untouched"});
  ASSERT_EQ(rapt_instruction_sets(sets.data(), sets.size(), &count), RAPT_OK);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_STREQ(sets[i].name, expected[i].name);
    EXPECT_EQ(sets[i].available, expected[i].available);
    EXPECT_EQ(sets[i].chosen, expected[i].chosen);
    EXPECT_STREQ(sets[i].note, expected[i].note);
  }
  EXPECT_STREQ(sets[count].name, "untouched");
  EXPECT_STREQ(sets[count].note, "untouched");

  const rapt::Bf16Dot& dot = rapt::bf16_dot();
  rapt_bf16_dot_info info = {};
  info.size = sizeof info;
  ASSERT_EQ(rapt_bf16_dot(&info), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(info.available, dot.available);
  EXPECT_EQ(info.used, dot.used);
  EXPECT_EQ(info.forced, dot.forced);
  EXPECT_EQ(info.speed, dot.speed);

  EXPECT_EQ(rapt_instruction_sets(nullptr, 1, &count), RAPT_ERROR_ARGUMENT);
  EXPECT_EQ(rapt_instruction_sets(nullptr, 0, nullptr), RAPT_ERROR_ARGUMENT);
  EXPECT_EQ(rapt_bf16_dot(nullptr), RAPT_ERROR_ARGUMENT);
  info.size = 3;
  EXPECT_EQ(rapt_bf16_dot(&info), RAPT_ERROR_ARGUMENT);
}

}  // namespace
