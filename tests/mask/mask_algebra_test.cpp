// Trees of masks agree with their predicate, return the covers that those of their parts imply, and
// give the same bits as a boolean mask of the same pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "mask/mask_forest.h"
#include "mask/random_positions.h"
#include "rapt/catalogue.h"
#include "support/call.h"

namespace laws {
namespace {

using rapt::BoundMask;
using rapt::Cover;
using rapt::KeyRange;
using rapt::Positions;

struct Bound {
  Bound(const rapt::Mask& mask, Index leading, int64_t q_len, int64_t k_len)
      : slots(static_cast<size_t>(mask.bound_slots()) + 1) {
    slots[0] = BoundMask{&mask, nullptr, {}, q_len, k_len};
    slots.back().values[3] = kUntouched;
    mask.bind({leading.data(), static_cast<int>(leading.size()), q_len, k_len}, slots.data());
    EXPECT_EQ(slots.back().values[3], kUntouched) << "wrote behind its slots";
  }
  operator const BoundMask&() const { return slots[0]; }

  static constexpr int64_t kUntouched = 4711;
  std::vector<BoundMask> slots;
};

// What the answers of the leaves imply, by the logic of three values: none < some < all.
Cover implied(const MaskNode& node, Index leading, int64_t q_len, int64_t k_len, Positions queries,
              Positions keys) {
  if (!node.op) return node.mask->cover(Bound(*node.mask, leading, q_len, k_len), queries, keys);
  Cover least = Cover::all, most = Cover::none;
  for (const MaskNode* part : node.parts) {
    const Cover c = implied(*part, leading, q_len, k_len, queries, keys);
    least = std::min(least, c);
    most = std::max(most, c);
  }
  if (node.op == '&') return least;
  if (node.op == '|') return most;
  return most == Cover::all ? Cover::none : most == Cover::none ? Cover::all : Cover::some;
}

struct Tally {
  int64_t none = 0, all = 0;              // tiles that are truly so
  int64_t found_none = 0, found_all = 0;  // and are said to be
};

void expect_agreement(const MaskNode& node, Random& random, int64_t q_len, int64_t k_len,
                      Tally& tally) {
  const rapt::Mask& mask = *node.mask;
  const Dims leading{random.between(0, 1), random.between(0, 2)};
  const Bound bound(mask, leading, q_len, k_len);
  const Positions queries = random_positions(random, q_len, 64);
  const Positions keys = random_positions(random, k_len, 200);
  int64_t count = 0;
  for (int64_t i = 0; i < queries.count; ++i)
    for (int64_t j = 0; j < keys.count; ++j) count += node.allowed(leading, queries[i], keys[j]);
  const bool none = count == 0, all = count == queries.count * keys.count;

  const Cover cover = mask.cover(bound, queries, keys);
  if (cover == Cover::none) {
    ASSERT_TRUE(none);
  }
  if (cover == Cover::all) {
    ASSERT_TRUE(all);
  }
  ASSERT_EQ(static_cast<int>(cover),
            static_cast<int>(implied(node, leading, q_len, k_len, queries, keys)));
  if (queries.step == 1 && keys.step == 1) {
    tally.none += none;
    tally.all += all;
    tally.found_none += none && cover == Cover::none;
    tally.found_all += all && cover == Cover::all;
  }

  // exclude() only clears, and clears exactly the excluded pairs.
  if (cover == Cover::some) {
    const uint64_t before = random.chance(0.5) ? ~uint64_t{0} : random.next();
    std::vector<uint64_t> bits(static_cast<size_t>(keys.count) + 1, before);
    mask.exclude(bound, queries, keys, bits.data());
    ASSERT_EQ(bits.back(), before) << "wrote behind the keys";
    for (int64_t j = 0; j < keys.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        ASSERT_EQ(bits[static_cast<size_t>(j)] >> i & 1,
                  (before >> i & 1) && node.allowed(leading, queries[i], keys[j]))
            << "query " << queries[i] << " key " << keys[j];
  }

  const KeyRange range = mask.key_range(bound, queries);
  ASSERT_LE(range.begin, range.end);
  ASSERT_GE(range.begin, 0);
  ASSERT_LE(range.end, k_len);
  for (int64_t i = 0; i < queries.count; ++i)
    for (int64_t j = 0; j < k_len; ++j)
      if (j < range.begin || j >= range.end) {
        ASSERT_FALSE(node.allowed(leading, queries[i], j))
            << "query " << queries[i] << " key " << j;
      }
}

// Runs go up and hold all keys that some of the queries may attend to.
void expect_runs(const MaskNode& node, Random& random, int64_t q_len, int64_t k_len) {
  const rapt::Mask& mask = *node.mask;
  const Dims leading{random.between(0, 1), random.between(0, 2)};
  const Bound bound(mask, leading, q_len, k_len);
  const Positions queries = random_positions(random, q_len, random.chance(0.5) ? 64 : q_len);
  const auto expect_none = [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        ASSERT_FALSE(node.allowed(leading, queries[i], j))
            << "query " << queries[i] << " key " << j;
  };
  int64_t from = random.chance(0.5) ? 0 : random.between(0, k_len);
  for (KeyRange run{}; !testing::Test::HasFatalFailure(); from = run.end) {
    run = mask.next_run(bound, queries, from);
    if (run.begin >= run.end) break;
    ASSERT_GE(run.begin, from);
    ASSERT_LE(run.end, k_len);
    expect_none(from, run.begin);
  }
  expect_none(from, k_len);
}

void expect_agreement_of_trees(Leaves leaves, int depth, int trees, Tally& tally) {
  Random random(base_seed() + static_cast<uint64_t>(depth));
  for (int n = 0; n < trees && !testing::Test::HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 150), k_len = random.between(1, 300);
    MaskForest forest(random, q_len, k_len);
    const MaskNode& node = forest.tree(depth, leaves);
    SCOPED_TRACE(to_string(*node.mask) + " of " + std::to_string(q_len) + " queries, " +
                 std::to_string(k_len) + " keys");
    node.mask->check(MaskForest::kLeading, q_len, k_len);
    for (int tile = 0; tile < 12 && !testing::Test::HasFailure(); ++tile) {
      expect_agreement(node, random, q_len, k_len, tally);
      expect_runs(node, random, q_len, k_len);
    }
  }
}

TEST(MaskAlgebra, TreesAgreeWithTheirPredicate) {
  Tally tally;
  for (const int depth : {1, 2, 3, 4})
    expect_agreement_of_trees(Leaves::all, depth, problem_count(250), tally);
  EXPECT_GT(tally.found_none, 0);
  EXPECT_GT(tally.found_all, 0);
}

// For masks with exact covers, most tiles with no pair or all pairs are recognised. The exceptions
// need two parts, such as two disjoint windows.
TEST(MaskAlgebra, SkippedTilesAreFound) {
  Tally tally;  // shares of tiles need all the trees, also where fewer problems are drawn
  for (const int depth : {1, 2, 3})
    expect_agreement_of_trees(Leaves::without_tensors, depth, 300, tally);
  RecordProperty("none_of_tiles",
                 std::to_string(tally.found_none) + "/" + std::to_string(tally.none));
  RecordProperty("all_of_tiles", std::to_string(tally.found_all) + "/" + std::to_string(tally.all));
  EXPECT_GT(static_cast<double>(tally.found_none), 0.95 * static_cast<double>(tally.none));
  EXPECT_GT(static_cast<double>(tally.found_all), 0.95 * static_cast<double>(tally.all));

  // A single one finds all of them.
  Tally single;
  expect_agreement_of_trees(Leaves::without_tensors, 1, 300, single);
  EXPECT_EQ(single.found_none, single.none);
  EXPECT_EQ(single.found_all, single.all);
}

// The complement's range is as narrow as its part's answers allow.
TEST(MaskAlgebra, RangeOfAComplement) {
  const rapt::Causal causal;
  const rapt::Prefix prefix(1000);
  const rapt::Window before(-1, 0), around(10, 20);
  const auto range = [](const rapt::Mask& part, Positions queries, int64_t k_len) {
    const rapt::Not mask(&part);
    const KeyRange r = mask.key_range(Bound(mask, {}, k_len, k_len), queries);
    return std::pair(r.begin, r.end);
  };
  using P = std::pair<int64_t, int64_t>;
  for (const int64_t k_len : {2000, 100001}) {
    EXPECT_EQ(range(causal, {100, 1, 48}, k_len), P(101, k_len));
    EXPECT_EQ(range(before, {100, 1, 48}, k_len), P(101, k_len));
    EXPECT_EQ(range(prefix, {100, 1, 48}, k_len), P(1000, k_len));
    EXPECT_EQ(range(around, {100, 1, 48}, k_len), P(0, k_len));
    const rapt::Not later(&causal);
    EXPECT_EQ(range(later, {100, 1, 48}, k_len), P(0, 148));
    const rapt::Or everything{&causal, &later};  // not known to be all
    EXPECT_EQ(range(everything, {100, 1, 48}, k_len), P(101, 148));
  }
  EXPECT_EQ(range(causal, {1999, 1, 1}, 2000), P(0, 0));
}

struct Inputs {
  Inputs(Random& random, int64_t q_len, int64_t k_len)
      : query(random_normal(random, DType::f32, {2, 3, q_len, 5})),
        key(random_normal(random, DType::f32, {2, 3, k_len, 5})),
        value(random_normal(random, DType::f32, {2, 3, k_len, 4})) {}
  AttentionResult attend(rapt::MaskList masks) const {
    AttentionOptions options;
    options.masks = masks;
    options.weights.emplace();
    return scaled_dot_product_attention(query, key, value, options);
  }
  rapt::Plan plan(rapt::MaskList masks) const {
    AttentionOptions options;
    options.masks = masks;
    return rapt::plan(query, key, value, options);
  }
  Tensor query, key, value;
};

// A tree of masks gives the same bits as a boolean mask of its pairs, and plan() counts these
// pairs.
TEST(MaskAlgebra, SameBitsAsItsPairs) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(120) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 130), k_len = random.between(1, 300);
    MaskForest forest(random, q_len, k_len);
    const MaskNode& node = forest.tree(4, Leaves::all);
    SCOPED_TRACE(to_string(*node.mask) + " of " + std::to_string(q_len) + " queries, " +
                 std::to_string(k_len) + " keys");
    const Tensor pairs = forest.pairs(node);
    const rapt::Boolean same(pairs);
    const Inputs inputs(random, q_len, k_len);
    EXPECT_TRUE(same_results(inputs.attend({node.mask}), inputs.attend({&same})));
    const auto allowed = pairs.values<bool>();
    EXPECT_EQ(inputs.plan({node.mask}).allowed_scores,
              std::count(allowed.begin(), allowed.end(), true));
  }
}

TEST(MaskAlgebra, DeMorgan) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(80) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 130), k_len = random.between(1, 300);
    MaskForest forest(random, q_len, k_len);
    const rapt::Mask& a = *forest.tree(2, Leaves::all).mask;
    const rapt::Mask& b = *forest.tree(2, Leaves::all).mask;
    SCOPED_TRACE(to_string(a) + " and " + to_string(b));
    const rapt::And both{&a, &b};
    const rapt::Or one{&a, &b};
    const rapt::Not not_a(&a), not_b(&b), not_both(&both), not_one(&one), not_not_a(&not_a);
    const rapt::Or either_not{&not_a, &not_b};
    const rapt::And neither{&not_a, &not_b};
    const Inputs inputs(random, q_len, k_len);
    EXPECT_TRUE(same_results(inputs.attend({&not_both}), inputs.attend({&either_not})));
    EXPECT_TRUE(same_results(inputs.attend({&not_one}), inputs.attend({&neither})));
    EXPECT_TRUE(same_results(inputs.attend({&not_not_a}), inputs.attend({&a})));
  }
}

// The masks of a call are combined as And combines them, tile by tile.
TEST(MaskAlgebra, MasksOfACallAreAnAnd) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(80) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 130), k_len = random.between(1, 300);
    MaskForest forest(random, q_len, k_len);
    std::vector<const rapt::Mask*> masks;
    for (int64_t count = random.between(1, 4); count > 0; --count)
      masks.push_back(forest.tree(2, Leaves::all).mask);
    const rapt::And all(masks);
    SCOPED_TRACE(to_string(all));
    const Inputs inputs(random, q_len, k_len);
    EXPECT_TRUE(same_results(inputs.attend({&all}), inputs.attend(masks)));
    const rapt::Plan together = inputs.plan({&all}), apart = inputs.plan(masks);
    EXPECT_EQ(together.allowed_scores, apart.allowed_scores);
    EXPECT_EQ(together.tiles_computed, apart.tiles_computed);
    EXPECT_EQ(together.tiles_partial, apart.tiles_partial);
    EXPECT_EQ(together.tiles_skipped, apart.tiles_skipped);
  }
}

// Parts are checked like masks of a call: their tensors must be valid and apart from the outputs; a
// tree that is too large is rejected without walking it.
TEST(MaskAlgebra, PartsAreCheckedAtTheBorder) {
  const Tensor x = filled(DType::f32, {2, 8, 4}, 1);
  const auto refused = [&](const rapt::Mask& mask, rapt::AttentionOutputs outputs) {
    AttentionOptions options;
    options.masks = {&mask};
    std::vector<std::byte> workspace(1 << 20);
    try {
      scaled_dot_product_attention(x, x, x, options, outputs, workspace);
    } catch (const rapt::Error& error) {
      return static_cast<int>(error.code());
    }
    return -1;
  };
  const auto code = [](rapt::ErrorCode c) { return static_cast<int>(c); };
  Tensor output(DType::f32, {2, 8, 4});
  rapt::AttentionOutputs outputs;
  outputs.state.output = output;
  const rapt::Causal causal;
  const rapt::Prefix apart(3);
  const rapt::Or good{&causal, &apart};
  EXPECT_EQ(refused(good, outputs), -1);

  // Lengths that lie in the output, at first all 0.
  std::fill(output.values<float>().begin(), output.values<float>().end(), 0.f);
  const rapt::Lengths within(TensorView(static_cast<const int64_t*>(output.data()), {2}));
  const rapt::Not outside(&within);
  const rapt::And nested{&causal, &outside};
  EXPECT_EQ(refused(nested, outputs), code(rapt::ErrorCode::overlap));

  const auto* odd = reinterpret_cast<const int64_t*>(static_cast<const char*>(x.data()) + 1);
  const rapt::Lengths unaligned(TensorView(odd, {2}));
  const rapt::Or either{&causal, &unaligned};
  EXPECT_EQ(refused(either, outputs), code(rapt::ErrorCode::argument));

  std::vector<std::unique_ptr<rapt::And>> levels;
  const rapt::Mask* below = &causal;
  for (int level = 0; level < 15; ++level) {
    levels.push_back(std::make_unique<rapt::And>(std::vector<const rapt::Mask*>(16, below)));
    below = levels.back().get();
  }
  EXPECT_EQ(refused(*below, outputs), code(rapt::ErrorCode::argument));
}

// What is written is read as the same mask.
TEST(MaskAlgebra, TextKeepsTheMeaning) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(200) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 60), k_len = random.between(1, 120);
    MaskForest forest(random, q_len, k_len);
    const rapt::Mask& mask = *forest.tree(4, Leaves::without_tensors).mask;
    const std::string text = to_string(mask);
    SCOPED_TRACE(text);
    const std::unique_ptr<rapt::Mask> read = rapt::make_mask(text);
    EXPECT_EQ(to_string(*read), text);
    const Inputs inputs(random, q_len, k_len);
    EXPECT_TRUE(same_results(inputs.attend({read.get()}), inputs.attend({&mask})));
  }
}

}  // namespace
}  // namespace laws
