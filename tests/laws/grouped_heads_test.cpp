// Heads that share keys and are computed as queries of one head, and weights of few queries from
// the main pass, have the bits of calls without both: every head with keys of its own, and second
// passes over the scores.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "rapt/normalizer/softmax_with_sink.h"
#include "support/call.h"

namespace laws {
namespace {

// On one thread, so that groups are as large as possible.
Context one_thread() {
  Context context;
  context.threads = 1;
  return context;
}

// Every head has keys of its own. A list of rows, and a map, are found by second passes.
AttentionResult with_second_passes(const Case& c, AttentionOptions options) {
  const auto repeated = [&](const Tensor& t) {
    const int64_t own = t.dim(-3), heads = c.descriptor.leading.back();
    Dims order;
    for (int64_t h = 0; h < heads; ++h) order.push_back(h / (heads / own));
    return taken(t, -3, order);
  };
  Dims rows;
  for (int64_t i = 0; i < c.descriptor.q_len; ++i) rows.push_back(i);
  if (options.weights) options.weights->rows = rows;
  if (options.weights || options.received) options.map = rapt::MapRequest{1, 1};
  return scaled_dot_product_attention(c.query, repeated(c.key), repeated(c.value), options,
                                      one_thread());
}

// Bits do not include the sign and the payload of a NaN.
Tensor with_one_nan(const TensorView& t) {
  return mapped(t, [](double x, auto) { return x == x ? x : __builtin_nan(""); });
}

void expect_same_bits(const TensorView& got, const Tensor& expected, const char* name) {
  ASSERT_EQ(got.defined(), expected.defined()) << name;
  if (!got.defined() || same_bits(got, expected)) return;
  EXPECT_TRUE(same_bits(with_one_nan(got), with_one_nan(expected))) << name;
}

void expect_same_captures(const AttentionResult& got, const AttentionResult& expected) {
  expect_same_bits(got.output, expected.output, "output");
  expect_same_bits(got.statistic, expected.statistic, "statistic");
  expect_same_bits(got.weights, expected.weights, "weights");
  expect_same_bits(got.top_keys, expected.top_keys, "top keys");
  expect_same_bits(got.top_weights, expected.top_weights, "top weights");
  expect_same_bits(got.entropy, expected.entropy, "entropy");
  expect_same_bits(got.received, expected.received, "received");
}

// The call has these bits, and computes groups of `heads` heads.
void expect_group(const Case& c, const AttentionOptions& options, int64_t heads) {
  const Case::Inputs in = c.laid_out();
  EXPECT_EQ(rapt::plan(in.query, in.key, in.value, options, one_thread()).group_heads, heads);
  expect_same_captures(
      scaled_dot_product_attention(in.query, in.key, in.value, options, one_thread()),
      with_second_passes(c, options));
}

AttentionOptions with_captures(const Case& c, bool entropy = true) {
  AttentionOptions options = c.wanted_options();
  options.weights.emplace();
  options.received = true;
  options.top_k = 3;
  options.entropy = entropy;
  return options;
}

Descriptor described(int64_t queries, const std::string& fields) {
  return parse_descriptor("b2h8/2q" + std::to_string(queries) + "k300d40v24" + fields);
}

// The call without captures, with all of them, and with those that keep scores in scratch.
void expect_groups(int64_t queries, const std::string& fields, bool entropy = true) {
  const Case c(described(queries, fields));
  SCOPED_TRACE(to_string(c.descriptor));
  expect_group(c, c.wanted_options(), 4);
  AttentionOptions options = with_captures(c, entropy);
  expect_group(c, options, 4);
  options.weights->stage = rapt::WeightsStage::scores;
  expect_group(c, options, 4);
  options.weights.reset();
  expect_group(c, options, 4);
}

constexpr int64_t kQueries[] = {1, 2, 3, 5, 8};

TEST(GroupedHeads, Masks) {
  for (const int64_t n : kQueries)
    for (const char* fields :
         {"", ":mask=causal(bottom-right)", ":mask=causal", ":mask=window(20,0,bottom-right)",
          ":mask=lengths", ":mask=lengths&causal(bottom-right)", ":mask=documents(3)",
          ":mask=boolean(0.4)", ":mask=boolean(0.01)", ":mask=boolean(0)", ":mask=!causal(100)"})
      expect_groups(n, fields);
}

TEST(GroupedHeads, BiasesAndScores) {
  for (const int64_t n : kQueries) {
    const std::string rows = std::to_string(n);
    for (const std::string& fields :
         {std::string(":bias"), std::string(":bias=0.3"), ":bias=[8," + rows + ",300]",
          std::string(":bias=[8,1,300]"), ":bias=[2,8," + rows + ",1],0.1",
          std::string(":bias:mask=causal(bottom-right)"),
          std::string(":bias=0.2,before:score=softcap(2)"), std::string(":score=softcap(2)"),
          std::string(":score=alibi"), std::string(":score=softcap(3),t5_bias"),
          std::string(":score=head_scale,log_n"), std::string(":score=kerple_log:mask=lengths")})
      expect_groups(n, fields);
  }
}

TEST(GroupedHeads, NormalizersAndRotatedQueries) {
  for (const int64_t n : kQueries) {
    for (const char* fields : {":norm=softmax_plus_one", ":norm=softmax_with_sink(0.5)",
                               ":norm=sigmoid", ":norm=relu", ":norm=softpick:mask=boolean(0.4)"})
      expect_groups(n, fields, false);
    for (const char* fields : {":rows=rotary(query-only)", ":rows=rotary(query=7,query-only):bias"})
      expect_groups(n, fields);
  }
}

TEST(GroupedHeads, LayoutsAndTypes) {
  for (const int64_t n : kQueries) {
    for (const char* layout : {"padded", "transposed", "negative", "strided", "interleaved"})
      expect_groups(n, std::string(":bias:layout=") + layout);
    for (const char* fields : {":f64", ":bf16", ":f16", ":bf16>f32:layout=interleaved",
                               ":f64:bias:layout=interleaved:mask=boolean(0.5)"})
      expect_groups(n, fields);
  }
}

// Sinks of each head enter the state of its own lanes.
TEST(GroupedHeads, SinksPerHead) {
  for (const int64_t n : kQueries) {
    Case c(described(n, ":mask=causal(bottom-right)"));
    Random random(7);
    const Tensor sinks = random_normal(random, DType::f32, {8});
    rapt::SoftmaxWithSink with_sink;
    with_sink.sinks = sinks;
    c.options.normalizer = with_sink;
    expect_group(c, with_captures(c, false), 4);
  }
}

// A sparse normaliser skips scores, so its weights take a second pass.
TEST(GroupedHeads, SparseWithoutWeights) {
  for (const int64_t n : kQueries) {
    const Case c(described(n, ":norm=sparsemax"));
    SCOPED_TRACE(to_string(c.descriptor));
    expect_group(c, c.wanted_options(), 4);
    expect_group(c, with_captures(c, false), 1);
  }
}

// A row that is not finite, of a query or of a key, and masked values that are not.
TEST(GroupedHeads, NotFinite) {
  for (const char* fields :
       {":set=query[0,5,0,3]=nan", ":mask=boolean(0.5):set=query[0,5,0,3]=inf",
        ":mask=causal(bottom-right):set=value[1,1,299,*]=nan", ":bias=0.4:set=key[0,1,70,*]=-inf"})
    expect_groups(2, fields);
}

// Rows of a group: at most 128, of heads that have at most 16 queries.
TEST(GroupedHeads, Sizes) {
  const struct {
    const char* descriptor;
    int64_t heads;
  } sizes[] = {{"h71/1q1k90d16", 71}, {"h32/1q4k90d16", 32},   {"h32/1q5k90d16", 16},
               {"h8/2q16k90d16", 4},  {"h8/2q17k90d16", 1},    {"h6q7k90d16", 1},
               {"h6/3q2k1d16", 2},    {"b3h4/2q2k140d600", 2}, {"h48/3q3k200d16:f64", 16}};
  for (const auto& size : sizes) {
    const Case c(parse_descriptor(size.descriptor));
    SCOPED_TRACE(size.descriptor);
    AttentionOptions options = with_captures(c);
    options.top_k = 1;
    expect_group(c, options, size.heads);
  }
}

// Calls that need each head for itself, or second passes.
TEST(GroupedHeads, NotGrouped) {
  const Case per_head(described(3, ":mask=boolean(0.5,[8,3,300])"));
  expect_group(per_head, with_captures(per_head), 1);
  const Case c(described(3, ":mask=causal(bottom-right)"));
  AttentionOptions options = c.wanted_options();
  options.weights.emplace().row_begin = 1;
  EXPECT_EQ(rapt::plan(c.query, c.key, c.value, options, one_thread()).group_heads, 1);
  options.weights.emplace().row_end = 3;  // all rows
  EXPECT_EQ(rapt::plan(c.query, c.key, c.value, options, one_thread()).group_heads, 4);
  options.map = rapt::MapRequest{1, 1};
  EXPECT_EQ(rapt::plan(c.query, c.key, c.value, options, one_thread()).group_heads, 1);
}

// Queries [sequences, heads, n, ...] as packed ones [heads, sequences * n, ...].
Tensor packed(const Tensor& batch) {
  const Tensor turned = Tensor::copy_of(batch.view().transposed(0, 1));
  const TensorView& t = turned.view();
  const Dims dims{t.shape[0], t.shape[1] * t.shape[2], t.shape[3]};
  return Tensor::copy_of(TensorView(t.data, t.dtype, dims, true));
}

// Packed queries of a cache are not grouped. With few queries per sequence they take the kernels of
// a batch whose heads have keys of their own.
TEST(GroupedHeads, PackedQueriesOfACache) {
  for (const int64_t n : {1, 2, 4, 9, 20})
    for (const auto& [heads, fields] : std::initializer_list<std::pair<std::string, std::string>>{
             {"h8/2", ":cache=pages(10)"},
             {"h8/2", ":bf16:cache=pages(10)"},
             {"h8/2", ":f64:cache=circular"},
             {"h3", ":cache=linear"},
             {"h3", ":f16:cache=pages(3)"}}) {
      const Case c(parse_descriptor("b3" + heads + "q" + std::to_string(n) + "k300d40v24" + fields +
                                    ":mask=causal(bottom-right):invariant"));
      SCOPED_TRACE(to_string(c.descriptor));
      const Case::Inputs in = c.laid_out();
      AttentionOptions options = c.wanted_options();
      const AttentionResult expected =
          scaled_dot_product_attention(in.query, in.key, in.value, options);
      const rapt::Plan batched = rapt::plan(in.query, in.key, in.value, options);
      Tensor starts(DType::i64, {4});
      for (int64_t s = 0; s < 4; ++s) starts.values<int64_t>()[static_cast<size_t>(s)] = s * n;
      options.packed.query_starts = starts;
      const Tensor query = packed(c.query);
      EXPECT_TRUE(same_bits(scaled_dot_product_attention(query, in.key, in.value, options).output,
                            packed(expected.output)));
      const rapt::Plan of_packed = rapt::plan(query, in.key, in.value, options);
      EXPECT_EQ(of_packed.group_heads, 1);
      if (batched.group_heads == 1) {
        EXPECT_STREQ(of_packed.kernel, batched.kernel);
      }
    }
}

// Results of [batch, length, heads, ...] in memory, whose rows no single stride reaches.
TEST(GroupedHeads, InterleavedResults) {
  for (const int64_t n : {1, 3, 8}) {
    const Case c(described(n, ":bf16:mask=boolean(0.5)"));
    SCOPED_TRACE(to_string(c.descriptor));
    const AttentionOptions options = with_captures(c);
    Tensor output(DType::bf16, {2, n, 8, 24}), statistic(DType::f32, {2, n, 8});
    Tensor weights(DType::f32, {2, n, 8, 300}), entropy(DType::f32, {2, n, 8});
    Tensor top_keys(DType::i64, {2, n, 8, 3}), top_weights(DType::f32, {2, n, 8, 3});
    Tensor received(DType::f32, {2, 300, 8});
    rapt::AttentionOutputs outputs;
    const auto heads_first = [](Tensor& t) { return t.view().transposed(1, 2); };
    outputs.state = {heads_first(output), heads_first(statistic)};
    outputs.weights = heads_first(weights);
    outputs.top_keys = heads_first(top_keys);
    outputs.top_weights = heads_first(top_weights);
    outputs.entropy = heads_first(entropy);
    outputs.received = heads_first(received);
    std::vector<std::byte> workspace(
        rapt::workspace_bytes(c.query, c.key, c.value, options, one_thread()));
    scaled_dot_product_attention(c.query, c.key, c.value, options, outputs, workspace,
                                 one_thread());
    const AttentionResult expected = with_second_passes(c, options);
    expect_same_bits(outputs.state.output, expected.output, "output");
    expect_same_bits(outputs.state.statistic, expected.statistic, "statistic");
    expect_same_bits(outputs.weights, expected.weights, "weights");
    expect_same_bits(outputs.top_keys, expected.top_keys, "top keys");
    expect_same_bits(outputs.top_weights, expected.top_weights, "top weights");
    expect_same_bits(outputs.entropy, expected.entropy, "entropy");
    expect_same_bits(outputs.received, expected.received, "received");
  }
}

}  // namespace
}  // namespace laws
