// Context::memory changes only the workspace: no bit of any result, for any previous contents of
// the workspace and any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "check/compare/comparison.h"
#include "check/draw/law_grid.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

size_t bytes_of(const Case& c, const Context& context) {
  const Case::Inputs in = c.laid_out();
  return rapt::workspace_bytes(in.query, in.key, in.value, c.wanted_options(), context);
}

Context with(rapt::Memory memory, rapt::Executor* executor = nullptr) {
  Context context;
  context.memory = memory;
  context.executor = executor;
  if (!executor) context.threads = 1;
  return context;
}

bool has_tile_registers() {
  const Tensor t(DType::f32, {1, 1});
  return std::string(rapt::plan(t, t, t).isa).starts_with("amx");
}

int64_t matrices_of(const Side& side) {
  int64_t count = 1;
  for (const int64_t n : side.leading) count *= n;
  return count;
}

// The most bytes of packed keys and values: whole steps of 32 rows and dims, separate steps per
// sequence, and a word per step for elements that are packed as 0.
size_t packed_bytes(const Descriptor& d) {
  constexpr int64_t kStep = 32;
  const auto steps = [](int64_t n) { return (n + kStep - 1) / kStep; };
  const auto keys = static_cast<int64_t>(d.keys_of_head());
  const int64_t rows = (keys / kStep + std::max<int64_t>(d.packed, 1)) * kStep;
  const int64_t element = d.dtype == DType::bf16 ? 2 : 6;
  const auto bytes = [&](const Side& side, int64_t dims) {
    return matrices_of(side) * (rows * steps(dims) * kStep * element + rows / kStep * 4);
  };
  constexpr int64_t kAlignment = 4 * 64;  // of four parts
  return static_cast<size_t>(bytes(d.key, d.head_dim) + bytes(d.value, d.value_dim) + kAlignment);
}

// The call for engines, into memory that holds `before`, with exactly the workspace of its plan.
AttentionResult attend_in(const Case& c, const Context& context, const AttentionResult& like,
                          int before) {
  const auto empty = [](const Tensor& t) {
    return t.defined() ? Tensor(t.dtype(), t.dims()) : Tensor();
  };
  AttentionResult r{empty(like.output),  empty(like.statistic), empty(like.weights),
                    empty(like.map),     empty(like.top_keys),  empty(like.top_weights),
                    empty(like.entropy), empty(like.received)};
  const Case::Inputs in = c.laid_out();
  std::vector<std::byte> workspace(bytes_of(c, context));
  if (!workspace.empty()) std::memset(workspace.data(), before, workspace.size());
  scaled_dot_product_attention(
      in.query, in.key, in.value, c.wanted_options(),
      {{r.output, r.statistic}, r.weights, r.map, r.top_keys, r.top_weights, r.entropy, r.received},
      workspace, context);
  return r;
}

void expect_same(const AttentionResult& got, const AttentionResult& expected, const char* what) {
  SCOPED_TRACE(what);
  EXPECT_TRUE(same_results(got, expected));
  const auto expect_bits = [&](const Tensor& a, const Tensor& b, const char* name) {
    ASSERT_EQ(a.defined(), b.defined()) << name;
    if (a.defined()) {
      EXPECT_TRUE(same_bits(a, b)) << name;
    }
  };
  expect_bits(got.map, expected.map, "map");
  expect_bits(got.top_keys, expected.top_keys, "top keys");
  expect_bits(got.top_weights, expected.top_weights, "top weights");
  expect_bits(got.entropy, expected.entropy, "entropy");
  expect_bits(got.received, expected.received, "received");
}

// Some rows with elements that tile registers cannot represent as parts.
void spoil(const Case& c, Random& random) {
  for (const Strided* side : {&c.strided_query, &c.strided_key, &c.strided_value}) {
    const TensorView& t = *side;
    if (t.count() == 0) continue;
    for (int64_t spoils = random.pick({0, 1, 3}); spoils > 0; --spoils) {
      Dims index;
      for (const int64_t n : t.dims()) index.push_back(random.between(0, n - 1));
      set(t, index, random.pick({kNan, HUGE_VAL, -HUGE_VAL, 1e-37, 1e-30, 1e30, 3e38}));
    }
  }
}

// Returns whether the calls with low and with automatic memory use different amounts.
bool expect_law(const Case& c, Random& random) {
  const Context low = with(rapt::Memory::low), fast = with(rapt::Memory::automatic);
  const size_t least = bytes_of(c, low), most = bytes_of(c, fast);
  if (!has_tile_registers()) {
    // Scores of a few queries are kept in scratch for received attention, or computed again.
    if (!c.descriptor.captures.received) {
      EXPECT_EQ(least, most);
    }
    return false;
  }
  EXPECT_LE(most, least + packed_bytes(c.descriptor));
  if (least == most) return false;
  const AttentionResult expected = run(c, low);
  expect_same(attend_in(c, low, expected, 0xff), expected, "low, in the caller's memory");
  expect_same(attend_in(c, fast, expected, 0xff), expected, "automatic, in memory of NaN");
  Threads two(2);
  Shuffled shuffled(random.next(), 3);
  expect_same(run(c, with(rapt::Memory::low, &two)), expected, "low, two threads");
  rapt::Executor* const executors[] = {&two, &shuffled};
  expect_same(
      attend_in(c, with(rapt::Memory::automatic, random.pick({0, 1}) ? executors[0] : executors[1]),
                expected, 0x40),
      expected, "automatic, several workers");
  return true;
}

// Each has more units of queries than matrices of keys: long queries, heads or batches that share
// keys, or sequences.
const char* const kProblems[] = {
    "q1030k300d64:seed=1",
    "q1030k131d33v65:bf16:mask=causal:seed=2",
    "q600k600d40v7:f16:mask=window(40,3):seed=3",
    "h6/2q180k420d65v33:mask=causal(bottom-right):seed=4",
    "h8/2q70k333d64v40:bf16:mask=window(100,0,bottom-right):seed=5",
    "b3h4/2q90k290d33v31:mask=lengths:seed=6",
    "b3h4/2q90k290d33v31:bf16:mask=lengths&causal:seed=7",
    "b2h4q90k270d20v6:key=[1,4]:value=[2,1]:seed=8",
    "b2h4q90k270d20v6:bf16:key=[2,1]:value=[4]:mask=lengths:seed=9",
    "b3h2q140k200d20v40:layout=dense,broadcast(0),padded:mask=lengths([3,2]):seed=10",
    "[2,2]h4/2q60k170d17v9:f16:layout=interleaved,transposed,negative:seed=11",
    "h2q600k500d40:packed=7:mask=causal:seed=12",
    "h4/2q500k700d33v35:bf16:packed=40:mask=window(20,0):seed=13",
    "h2q300k40d8:packed=60:seed=14",
    "h2q900k900d32:packed=3:seed=15",
    "h4/1q200k310d64:weights(7..90):map(5,9):top_k(6):entropy:received:mask=causal:seed=16",
    "h4/2q200k310d40v8:bf16:weights:received:mask=lengths([4]):seed=17",
    "h4/2q300k260d16:packed=5:top_k(3):entropy:received:mask=causal:seed=18",
    "h4/2q200k310d36:rows=rotary(interleaved):mask=window(50,0):seed=19",
    "b2h4/2q200k310d36:bf16:rows=cosine+rotary:mask=lengths:weights:seed=20",
    "h4/2q200k310d36:bf16:norm=sparsemax:mask=causal:seed=21",
    "h4/2q200k310d36:norm=softmax_plus_one:score=softcap(4):bias=[4,1,310],0.2:seed=22",
    "h4/2q200k310d36:bf16:norm=entmax15:dropout=0.3,5:seed=23",
    "h16/1q20k5000d32:mask=prefix(4900):seed=24",
    "q520k9000d16v5:bf16:packed=2:mask=causal:received:seed=25",
    "h4/2q200k310d36:norm=relu:mask=documents(4)|prefix(9):seed=26",
    "h3q700k260d1:mask=!causal:seed=27",
    "h8/1q100k700d20:mask=lengths([8]):seed=28",
    "b3h6/2q60k700d20:key=[2]:value=[2]:mask=lengths([3,6]):seed=31",
    "b6h2q100k700d20:key=[2]:value=[2]:bf16:mask=lengths:seed=29",
};

TEST(Memory, SameBits) {
  Random random(base_seed());
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    const Case clean(parse_descriptor(line));
    Case spoilt(parse_descriptor(line));
    spoil(spoilt, random);
    if (random.chance(0.5)) spoilt.options.precision = rapt::Precision::fast;
    EXPECT_EQ(expect_law(clean, random), has_tile_registers());
    expect_law(spoilt, random);
    if (HasFailure()) return;
  }
}

// As many units of queries as matrices of keys: nothing is read twice, so nothing is packed ahead.
TEST(Memory, ABlockAtATimeWhereKeysAreReadOnce) {
  for (const char* line : {"q500k300d64", "b2h3q100k300d16v5:bf16:mask=causal", "h4q1k1500d64:f16",
                           "h2q200k300d64:packed=1"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    EXPECT_EQ(bytes_of(c, with(rapt::Memory::automatic)), bytes_of(c, with(rapt::Memory::low)));
  }
}

// Problems over all that a call can ask for.
TEST(Memory, SameBitsOfAnyCall) {
  LawGrid grid(base_seed());
  Random random(base_seed());
  int different = 0;
  const int drawn = problem_count(has_tile_registers() ? 2000 : 100);
  for (int n = 0; n < drawn && !HasFailure(); ++n) {
    const Case c(grid.next());
    SCOPED_TRACE(to_string(c.descriptor));
    if (random.chance(0.4)) spoil(c, random);
    different += expect_law(c, random);
  }
  if (has_tile_registers()) {
    EXPECT_GT(different, drawn / 20) << "of " << drawn << " problems";
  }
}

// Allows the first keys. Its key_range is exact for more queries than a tile has; for fewer it is
// the widest that a mask may return, so that a tile visits keys that nobody had to prepare.
class VagueInTiles final : public rapt::Mask {
 public:
  explicit VagueInTiles(int64_t length) : length_(length) {}
  const rapt::Declaration& declaration() const noexcept override {
    static constexpr rapt::Declaration kDeclaration{"vague", "knows little of few queries", "", {}};
    return kDeclaration;
  }
  void check(rapt::Shape, int64_t, int64_t) const override {}
  void bind(const rapt::Head&, rapt::BoundMask*) const noexcept override {}
  rapt::KeyRange key_range(const rapt::BoundMask& bound,
                           rapt::Positions queries) const noexcept override {
    return {0, queries.count > 64 ? std::min(length_, bound.k_len) : bound.k_len};
  }
  rapt::Cover cover(const rapt::BoundMask&, rapt::Positions,
                    rapt::Positions) const noexcept override {
    return rapt::Cover::some;
  }
  void exclude(const rapt::BoundMask&, rapt::Positions, rapt::Positions keys,
               uint64_t* bits) const noexcept override {
    for (int64_t j = 0; j < keys.count; ++j)
      if (keys[j] >= length_) bits[j] = 0;
  }

 private:
  int64_t length_;
};

TEST(Memory, KeysThatNobodyHadToPrepare) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const int64_t length : {0, 100, 140}) {
      SCOPED_TRACE(testing::Message() << rapt::name_of(dtype) << ", " << length << " keys");
      Descriptor d = parse_descriptor("h2/1q150k300d40v9:weights:received");
      d.dtype = dtype;
      Case c(d);
      const VagueInTiles mask(length);
      c.mask_pointers = {&mask};
      c.options.masks = c.mask_pointers;
      Random random(base_seed());
      expect_law(c, random);
    }
}

}  // namespace
}  // namespace laws
