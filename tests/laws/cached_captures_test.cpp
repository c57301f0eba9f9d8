// Weights and received attention of calls on a cache: each sequence has the bits of a call with its
// keys alone, and columns beyond its length are empty. Received attention added to what the
// caller's memory holds.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;
using rapt::WeightsStage;

Tensor columns(const TensorView& t, int64_t sequence, int64_t begin, int64_t end) {
  return Tensor::copy_of(t.slice(0, sequence, sequence + 1).slice(-1, begin, end));
}

void expect_columns(const TensorView& got, const TensorView& alone, int64_t sequence,
                    double beyond) {
  const int64_t length = alone.shape[alone.rank - 1], room = got.shape[got.rank - 1];
  EXPECT_TRUE(same_bits(columns(got, sequence, 0, length), alone));
  for (const double x : values_of(columns(got, sequence, length, room))) EXPECT_EQ(x, beyond);
}

// One class of kernels for all lengths, and groups of heads as large as possible.
void expect_sequences(const Case& c, AttentionOptions options) {
  options.invariant = true;
  Context context;
  context.threads = 1;
  const Case::Inputs in = c.laid_out();
  const AttentionResult all =
      scaled_dot_product_attention(in.query, in.key, in.value, options, context);
  const bool scores = options.weights && options.weights->stage == WeightsStage::scores;
  options.cache = {};
  for (int64_t s = 0; s < c.descriptor.leading.front(); ++s) {
    SCOPED_TRACE("sequence " + std::to_string(s));
    const auto keys = [&](const Tensor& rows) {
      return Tensor::copy_of(rows.view().slice(0, s, s + 1).slice(-2, 0, c.cache->length(s)));
    };
    const AttentionResult alone = scaled_dot_product_attention(
        c.query.view().slice(0, s, s + 1), keys(c.key), keys(c.value), options, context);
    EXPECT_TRUE(same_bits(Tensor::copy_of(all.output.view().slice(0, s, s + 1)), alone.output));
    if (options.weights)
      expect_columns(all.weights, alone.weights, s,
                     scores ? -std::numeric_limits<double>::infinity() : 0);
    if (options.received) expect_columns(all.received, alone.received, s, 0);
  }
}

TEST(CachedCaptures, EachSequenceHasTheBitsOfACallOfItsOwn) {
  uint64_t seed = base_seed() % 1000;
  for (const char* cache :
       {"linear", "circular", "pages(4)", "pages(20,circular)", "pages(10,shared)"})
    for (const char* fields : {"", ":bf16", ":f64:mask=causal(bottom-right)",
                               ":mask=window(30,0,bottom-right):score=alibi", ":norm=sparsemax"})
      for (const int64_t queries : {1, 3, 16, 17, 40}) {  // up to 16: in one pass
        const Case c(parse_descriptor("b4h4/2q" + std::to_string(queries) + "k160d24v16" + fields +
                                      ":cache=" + cache + ":seed=" + std::to_string(++seed)));
        SCOPED_TRACE(to_string(c.descriptor));
        AttentionOptions options = c.wanted_options();
        options.weights.emplace();
        expect_sequences(c, options);
        options.received = true;
        expect_sequences(c, options);
        options.weights->stage = WeightsStage::scores;
        expect_sequences(c, options);
        options.weights->row_begin = queries / 2;  // by a second pass
        expect_sequences(c, options);
        options.weights.reset();
        expect_sequences(c, options);
      }
}

// Heads are grouped, and weights of few queries take no second pass.
TEST(CachedCaptures, HeadsAreGroupedBesideThem) {
  const Case c(parse_descriptor("b4h4/2q2k160d24:cache=pages(4)"));
  const Case::Inputs in = c.laid_out();
  AttentionOptions options = c.wanted_options();
  options.weights.emplace();
  options.received = true;
  Context context;
  context.threads = 1;
  EXPECT_EQ(rapt::plan(in.query, in.key, in.value, options, context).group_heads, 2);
}

// Calls with sums in the memory for received attention. They are added in double to what the call
// finds there and rounded once, so that the result differs from the sum of both, of which one is
// rounded already, by two roundings. Columns beyond a length hold NaN and keep it.
void expect_added(const std::string& line) {
  SCOPED_TRACE(line);
  const Case c(parse_descriptor(line));
  const Case::Inputs in = c.laid_out();
  AttentionOptions options = c.wanted_options();
  options.received = true;
  const AttentionResult plain = scaled_dot_product_attention(in.query, in.key, in.value, options);
  const Dims dims(plain.received.dims().begin(), plain.received.dims().end());
  Random random(c.descriptor.seed + 1);
  const auto is_key = [&](auto index) {
    return !c.cache || index.back() < c.cache->length(index.front());
  };
  const Tensor before = mapped(random_normal(random, DType::f32, dims), [&](double x, auto index) {
    return is_key(index) ? x : std::numeric_limits<double>::quiet_NaN();
  });
  Tensor sums = Tensor::copy_of(before), output = Tensor::copy_of(plain.output);
  options.add_received = true;
  std::vector<std::byte> workspace(rapt::workspace_bytes(in.query, in.key, in.value, options));
  rapt::AttentionOutputs outputs;
  outputs.state.output = output;
  outputs.received = sums;
  scaled_dot_product_attention(in.query, in.key, in.value, options, outputs, workspace);
  EXPECT_TRUE(same_bits(output, plain.output));
  for_each_index(dims, [&](auto index) {
    if (!is_key(index)) {
      EXPECT_TRUE(std::isnan(get(sums, index)));
      return;
    }
    const double old = get(before, index), more = get(plain.received, index);
    const double bound = 0x1.01p-24 * (std::abs(old + more) + std::abs(more));
    EXPECT_LE(std::abs(get(sums, index) - (old + more)), bound) << old << " + " << more;
  });
}

TEST(CachedCaptures, ReceivedIsAddedToTheCallersSums) {
  for (const char* fields :
       {":cache=linear:seed=1", ":cache=circular:seed=2", ":cache=pages(4):seed=3",
        ":bf16:cache=pages(8,shared):seed=4", ":seed=5", ":mask=causal:seed=6",
        ":norm=sparsemax:cache=pages(4):seed=7", ":packed=3:seed=8"})
    for (const int64_t queries : {1, 3, 40})
      expect_added("b4h4/2q" + std::to_string(queries) + "k160d24" + fields);
}

TEST(CachedCaptures, SumsOfNoMemoryAreRejected) {
  const Tensor x = filled(DType::f32, {2, 5, 4}, 1);
  const AttentionOptions alone{.add_received = true};
  expect_error(ErrorCode::argument, {"add_received without received"},
               [&] { rapt::plan(x, x, x, alone); });
  const AttentionOptions both{.received = true, .add_received = true};
  EXPECT_NO_THROW(rapt::plan(x, x, x, both));
  expect_error(ErrorCode::argument, {"add_received", "allocates its results"},
               [&] { scaled_dot_product_attention(x, x, x, both); });
}

}  // namespace
}  // namespace laws
