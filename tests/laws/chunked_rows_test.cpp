// Rows of more than one chunk of keys (src/attention/forward/chunks.h): their results, and the bits
// that threads, prefill and decoding share.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/compare/comparison.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

constexpr int64_t kChunk = 1024;

// Runs the tasks of eight workers, the last first. Units that are split make more than one task.
class Backwards final : public rapt::Executor {
 public:
  int concurrency() const noexcept override { return 8; }
  void run(int64_t tasks, Task task, void* argument) override {
    most_tasks = std::max(most_tasks, tasks);
    for (int64_t t = tasks; t-- > 0;) task(argument, t, static_cast<int>(t % 8));
  }

  int64_t most_tasks = 0;
};

constexpr const char* kProblems[] = {
    "q40k4500d48:entropy:seed=1",
    "q17k1025d96:f64:entropy:seed=2",
    "q33k2100d64v40:mask=causal(bottom-right):score=softcap(20):entropy:seed=3",
    "h2q20k3100d40:mask=window(1500,0,bottom-right):entropy:seed=4",
    "b2h8/1q1k5000d64:bf16:mask=lengths:seed=5",
    "q48k2500d64:f16:dropout=0.1,7:seed=6",
    "h4/2q30k3000d32:mask=documents(3):norm=softmax_with_sink(0.5):seed=7",
    "h4/1q1k4000d64:norm=softmax_with_sink(2):mask=window(900,0,bottom-right):seed=8",
    "q40k2300d64:mask=boolean(0.1):norm=softmax_plus_one:seed=9",
    "q40k2300d64:norm=softpick:seed=10",
    "q40k2300d64:norm=sigmoid(-6):seed=11",
    "q70k2300d32:norm=relu(2):seed=12",
    "q25k4100d64:bias:keys=rising:entropy:seed=13",
    "q300k2600d24v8:packed=2:mask=causal:seed=14",
    "q24k2300d40:weights(3..9):top_k(3):received:seed=15",
    "q24k2300d40:weights(3..9):received:seed=16",
    "q8k4500d256:bf16:entropy:seed=17"};

TEST(ChunkedRows, AgreeWithTheReference) {
  for (const char* line : kProblems) {
    SCOPED_TRACE(std::string("rapt check '") + line + "'");
    const Case c(parse_descriptor(line));
    Backwards backwards;
    Context context;
    context.executor = &backwards;
    const Comparison comparison = compare(c, run(c, context));
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
  }
}

TEST(ChunkedRows, BitsForAnyNumberOfThreads) {
  Random random(base_seed());
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    Context one;
    one.threads = 1;
    const AttentionResult alone = run(c, one);
    for_each_executor(random, [&](const Context& context) {
      EXPECT_TRUE(same_captures(run(c, context), alone));
    });
    Backwards backwards;
    Context split;
    split.executor = &backwards;
    EXPECT_TRUE(same_captures(run(c, split), alone));
    Context low = split;
    low.memory = rapt::Memory::low;  // units are not split
    EXPECT_TRUE(same_captures(run(c, low), alone));
  }
}

// One head of 8 queries makes one or two units, by instruction set. Their five chunks are tasks.
TEST(ChunkedRows, ThreadsShareTheChunksOfAUnit) {
  const Case c(parse_descriptor("q8k4500d256"));
  const auto most_tasks = [&](rapt::Memory memory) {
    Backwards backwards;
    Context context;
    context.executor = &backwards;
    context.memory = memory;
    attend(c, context);
    return backwards.most_tasks;
  };
  EXPECT_GE(most_tasks(rapt::Memory::automatic), 5);
  EXPECT_LT(most_tasks(rapt::Memory::low), 5);
}

// A cancelled call throws, whichever of its passes it is in.
TEST(ChunkedRows, CanBeCancelled) {
  const Case c(parse_descriptor("q8k4500d256"));
  struct Stop {
    rapt::CancelToken token;
    double at;
  };
  for (const double at : {0.1, 0.5, 0.9}) {
    Stop stop{{}, at};
    Backwards backwards;
    Context context;
    context.executor = &backwards;
    context.cancel = &stop.token;
    context.progress = {[](void* user, double done) noexcept {
                          Stop& s = *static_cast<Stop*>(user);
                          if (done >= s.at) s.token.cancel();
                        },
                        &stop};
    EXPECT_THROW(attend(c, context), rapt::Error) << at;
  }
}

Dims counted(int64_t begin, int64_t end) {
  Dims range;
  for (int64_t i = begin; i < end; ++i) range.push_back(i);
  return range;
}

// The result of some rows of the query over the first keys, masked as these rows of a prefill.
AttentionResult step(const Case& c, int64_t begin, int64_t end) {
  const Dims rows = counted(begin, end), keys = counted(0, end);
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  AttentionOptions options = c.options;
  options.masks = {&causal};
  return scaled_dot_product_attention(taken(c.query, -2, rows), taken(c.key, -2, keys),
                                      taken(c.value, -2, keys), options);
}

// A token that is decoded, and a chunk of a prefill, have the bits of their rows in a prefill.
TEST(ChunkedRows, DecodingHasTheBitsOfAPrefill) {
  for (const char* norm : {"softmax", "softmax_plus_one", "softmax_with_sink(1)", "softpick",
                           "sigmoid(-6)", "relu(1,100)"}) {
    SCOPED_TRACE(norm);
    Case c(parse_descriptor(std::string("q2100k2100d8:norm=") + norm));
    c.options.invariant = true;  // one kernel class for short and long calls
    const rapt::Causal causal;
    AttentionOptions options = c.options;
    options.masks = {&causal};
    const AttentionResult prefill = scaled_dot_product_attention(c.query, c.key, c.value, options);
    const auto expect_rows = [&](int64_t begin, int64_t end) {
      SCOPED_TRACE(testing::Message() << "rows " << begin << " to " << end);
      const AttentionResult got = step(c, begin, end);
      const Dims rows = counted(begin, end);
      EXPECT_TRUE(same_bits(got.output, taken(prefill.output, -2, rows)));
      EXPECT_TRUE(same_bits(got.statistic, taken(prefill.statistic, -1, rows)));
    };
    for (const int64_t row :
         {kChunk - 2, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk - 1, 2 * kChunk, int64_t{2099}})
      expect_rows(row, row + 1);
    expect_rows(kChunk - 20, kChunk + 20);
    expect_rows(2000, 2100);
  }
}

// Row i attends to all keys of one chunk, i % 4, or for i % 4 = 3 to those of the first and the
// last.
class OneChunkEach : public testing::Test {
 protected:
  static constexpr int64_t kQueries = 70, kKeys = 3 * kChunk;

  OneChunkEach() : c(parse_descriptor("q70k3072d16")) {
    for_each_index(allowed.dims(), [&](auto i) {
      const int64_t chunk = i[1] / kChunk;
      set(allowed, i, i[0] % 4 == 3 ? chunk != 1 : chunk == i[0] % 4);
    });
    options = c.options;
    options.masks = {&mask};
  }
  AttentionResult attend_to(const Tensor& value) const {
    return scaled_dot_product_attention(c.query, c.key, value, options);
  }

  const Case c;
  Tensor allowed{DType::boolean, {kQueries, kKeys}};
  const rapt::Boolean mask{allowed.view()};
  AttentionOptions options;
};

// A row with keys in one chunk has the bits of a call over these keys, whatever its neighbours do.
TEST_F(OneChunkEach, HasTheBitsOfThatChunk) {
  const AttentionResult got = attend_to(c.value);
  for (int64_t chunk = 0; chunk < 3; ++chunk) {
    SCOPED_TRACE(chunk);
    const Dims keys = counted(chunk * kChunk, (chunk + 1) * kChunk);
    Dims rows;
    for (int64_t i = chunk; i < kQueries; i += 4) rows.push_back(i);
    const AttentionResult alone = scaled_dot_product_attention(
        taken(c.query, -2, rows), taken(c.key, -2, keys), taken(c.value, -2, keys), c.options);
    EXPECT_TRUE(same_bits(taken(got.output, -2, rows), alone.output));
    EXPECT_TRUE(same_bits(taken(got.statistic, -1, rows), alone.statistic));
  }
}

// A NaN in a chunk reaches the rows that attend to the chunk, and no others.
TEST_F(OneChunkEach, KeepsNanFromOtherRows) {
  const AttentionResult clean = attend_to(c.value);
  const Tensor value = mapped(c.value, [](double x, auto i) {
    return i[0] == kChunk + 5 ? std::numeric_limits<double>::quiet_NaN() : x;
  });
  const AttentionResult got = attend_to(value);
  for (int64_t i = 0; i < kQueries; ++i) {
    const Dims row{i};
    if (i % 4 == 1)
      EXPECT_TRUE(std::isnan(get(got.output, Dims{i, 0}))) << i;
    else
      EXPECT_TRUE(same_bits(taken(got.output, -2, row), taken(clean.output, -2, row))) << i;
  }
}

// Scores of -inf add nothing to a row that has others, and make a row NaN that has no others.
TEST(ChunkedRows, ScoresOfMinusInfinity) {
  constexpr int64_t kKeys = 2500, kInfinite = 1500;
  const Tensor query = filled(DType::f32, {2, 1}, 1);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool at_the_end : {false, true}) {
    const Tensor key = mapped(filled(DType::f32, {kKeys, 1}, 0), [&](double, auto i) {
      const int64_t nth = at_the_end ? kKeys - 1 - i[0] : i[0];
      return nth < kInfinite ? -infinity : 0.0;
    });
    const Tensor value = mapped(key, [](double x, auto) { return x == 0 ? 3.0 : 5.0; });
    const AttentionResult got = scaled_dot_product_attention(query, key, value, {});
    EXPECT_NEAR(get(got.output, Dims{0, 0}), 3, 1e-5);
    EXPECT_NEAR(get(got.statistic, Dims{0}), std::log(kKeys - kInfinite), 1e-5);
  }
  const Tensor all = filled(DType::f32, {kKeys, 1}, -infinity);
  const AttentionResult none =
      scaled_dot_product_attention(query, all, filled(DType::f32, {kKeys, 1}, 1), {});
  EXPECT_TRUE(std::isnan(get(none.output, Dims{0, 0})));
  EXPECT_TRUE(std::isnan(get(none.statistic, Dims{0})));
}

}  // namespace
}  // namespace laws
