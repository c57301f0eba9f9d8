// Trees of masks agree with their predicate, say what their parts' answers imply, and give the same
// bits as the same pairs given element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>

#include "laws/call.h"
#include "rapt/catalogue.h"
#include "rapt/mask/and.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/documents_by_starts.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"

namespace laws {
namespace {

using rapt::BoundMask;
using rapt::Cover;
using rapt::KeyRange;
using rapt::Positions;

// A mask of a user's own: every third diagonal. It never knows better than `some`.
class EveryThird final : public rapt::Mask {
 public:
  const rapt::Declaration& declaration() const noexcept override {
    static const rapt::Declaration kDeclaration{"every-third", "for a test", "none", {}};
    return kDeclaration;
  }
  void check(Shape, int64_t, int64_t) const override {}
  void bind(const rapt::Head& head, BoundMask* bound) const noexcept override {
    bound->values[0] = head.rank > 0 ? head.index[0] : 0;  // another pattern per batch
  }
  KeyRange key_range(const BoundMask& bound, Positions) const noexcept override {
    return {0, bound.k_len};
  }
  Cover cover(const BoundMask&, Positions, Positions) const noexcept override {
    return Cover::some;
  }
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override {
    for (int64_t j = 0; j < keys.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        if ((queries[i] + keys[j] + bound.values[0]) % 3 != 0) bits[j] &= ~(uint64_t{1} << i);
  }
};

using Index = std::span<const int64_t>;
using Predicate = std::function<bool(Index leading, int64_t i, int64_t j)>;

struct Node {
  const rapt::Mask* mask = nullptr;
  Predicate allowed;
  char op = 0;  // '&', '|', '!'; 0: a leaf
  std::vector<const Node*> parts;
};

enum class Leaves : uint8_t { all, without_tensors };

// Makes masks over one problem of leading dimensions [2, 3], and keeps them.
class Forest {
 public:
  Forest(Random& random, int64_t q_len, int64_t k_len)
      : random_(random), q_len_(q_len), k_len_(k_len) {}

  static inline const Dims kLeading{2, 3};

  const Node& tree(int depth, Leaves leaves) {
    if (depth <= 1 || random_.chance(0.25)) return leaf(leaves);
    const char op = random_.pick({'&', '|', '!'});
    Node node;
    node.op = op;
    const int64_t count = op == '!' ? 1 : random_.between(1, 4);
    std::vector<const rapt::Mask*> masks;
    for (int64_t n = 0; n < count; ++n) {
      node.parts.push_back(&tree(depth - 1, leaves));
      masks.push_back(node.parts.back()->mask);
    }
    const std::vector<const Node*> parts = node.parts;
    if (op == '!') {
      node.mask = keep<rapt::Not>(masks[0]);
      node.allowed = [parts](Index at, int64_t i, int64_t j) {
        return !parts[0]->allowed(at, i, j);
      };
    } else if (op == '&') {
      node.mask = keep<rapt::And>(masks);
      node.allowed = [parts](Index at, int64_t i, int64_t j) {
        return std::all_of(parts.begin(), parts.end(),
                           [&](const Node* part) { return part->allowed(at, i, j); });
      };
    } else {
      node.mask = keep<rapt::Or>(masks);
      node.allowed = [parts](Index at, int64_t i, int64_t j) {
        return std::any_of(parts.begin(), parts.end(),
                           [&](const Node* part) { return part->allowed(at, i, j); });
      };
    }
    return nodes_.emplace_back(std::move(node));
  }

  const Node& leaf(Leaves leaves) {
    const int64_t last = (leaves == Leaves::all ? kKinds : kWithoutTensors) - 1;
    return nodes_.emplace_back(leaf_of(random_.between(0, last)));
  }

  // The pairs of a node, element by element: [2, 3, q_len, k_len].
  Tensor pairs(const Node& node) const {
    Tensor allowed(DType::boolean, {2, 3, q_len_, k_len_});
    for_each_index(allowed.dims(), [&](Index at) {
      set(allowed, at, node.allowed(at.subspan(0, 2), at[2], at[3]));
    });
    return allowed;
  }

 private:
  // Kinds of masks below; those without tensors come first, and answer exactly for tiles.
  static constexpr int64_t kWithoutTensors = 3, kKinds = 10;

  Node leaf_of(int64_t kind) {
    Node node;
    const auto anchor = random_.chance(0.5) ? rapt::Anchor::top_left : rapt::Anchor::bottom_right;
    const int64_t o = anchor == rapt::Anchor::top_left ? 0 : k_len_ - q_len_;
    switch (kind) {
      case 0: {
        const int64_t offset = random_.between(-20, 20);
        node.mask = keep<rapt::Causal>(anchor, offset);
        node.allowed = [=](Index, int64_t i, int64_t j) { return j <= i + o + offset; };
        break;
      }
      case 1: {
        const int64_t left = random_.between(-1, 40), right = random_.between(-1, 40);
        node.mask = keep<rapt::Window>(left, right, anchor);
        node.allowed = [=](Index, int64_t i, int64_t j) {
          return (left < 0 || j >= i + o - left) && (right < 0 || j <= i + o + right);
        };
        break;
      }
      case 2: {
        const int64_t length = random_.between(0, k_len_ + 5);
        node.mask = keep<rapt::Prefix>(length);
        node.allowed = [=](Index, int64_t, int64_t j) { return j < length; };
        break;
      }
      case 3:
      case 4: {
        const TensorView lengths = numbers({2, random_.pick({1, 3})}, 0, k_len_);
        node.mask = kind == 3 ? static_cast<rapt::Mask*>(keep<rapt::Prefix>(lengths))
                              : keep<rapt::Lengths>(lengths);
        node.allowed = [=](Index at, int64_t, int64_t j) {
          const int64_t place[] = {at[0], lengths.shape[1] == 1 ? 0 : at[1]};
          return static_cast<double>(j) < get(lengths, place);
        };
        break;
      }
      case 5: {
        Tensor allowed(DType::boolean, {q_len_, k_len_});
        const double density = random_.uniform();
        for_each_index(allowed.dims(), [&](Index i) { set(allowed, i, random_.chance(density)); });
        const TensorView view = tensors_.emplace_back(std::move(allowed));
        node.mask = keep<rapt::Boolean>(view);
        node.allowed = [=](Index, int64_t i, int64_t j) {
          const int64_t place[] = {i, j};
          return get(view, place) != 0;
        };
        break;
      }
      case 6: {  // starts
        const int64_t documents = random_.between(1, 8);
        const TensorView q = starts(documents, q_len_), k = starts(documents, k_len_);
        node.mask = keep<rapt::DocumentsByStarts>(q, k);
        node.allowed = [=](Index, int64_t i, int64_t j) {
          return within(q, documents, i) == within(k, documents, j);
        };
        break;
      }
      case 7:
      case 8: {  // ids, per batch or for all; in order or not
        const bool sorted = kind == 7;
        const TensorView q = ids(q_len_, sorted), k = ids(k_len_, sorted);
        node.mask = keep<rapt::Documents>(q, k);
        node.allowed = [=](Index at, int64_t i, int64_t j) {
          return id_of(q, at, i) == id_of(k, at, j);
        };
        break;
      }
      case 9:
        node.mask = keep<EveryThird>();
        node.allowed = [](Index at, int64_t i, int64_t j) { return (i + j + at[0]) % 3 == 0; };
        break;
      default:
        throw std::logic_error("kKinds counts a kind that is not there");
    }
    return node;
  }

  template <class M, class... A>
  M* keep(A&&... arguments) {
    auto mask = std::make_unique<M>(std::forward<A>(arguments)...);
    M* const pointer = mask.get();
    masks_.push_back(std::move(mask));
    return pointer;
  }

  TensorView numbers(const Dims& dims, int64_t least, int64_t most) {
    Tensor tensor(DType::i64, dims);
    for (int64_t& x : tensor.values<int64_t>()) x = random_.between(least, most);
    return tensors_.emplace_back(std::move(tensor));
  }
  TensorView starts(int64_t documents, int64_t length) {  // empty documents included
    const TensorView view = numbers({documents + 1}, 0, length);
    const auto values = tensors_.back().values<int64_t>();
    values.front() = 0;
    values.back() = length;
    std::sort(values.begin(), values.end());
    return view;
  }
  TensorView ids(int64_t length, bool sorted) {
    const bool shared = random_.chance(0.4);
    const Dims dims = shared ? Dims{length} : Dims{2, length};
    const int64_t most = sorted ? 5 : 1;  // two ids in any order leave some tiles all or none
    const TensorView view = numbers(dims, sorted ? -5 : 0, most);
    const auto values = tensors_.back().values<int64_t>();
    for (size_t row = 0; sorted && row < values.size(); row += static_cast<size_t>(length))
      std::sort(values.begin() + static_cast<int64_t>(row),
                values.begin() + static_cast<int64_t>(row) + length);
    if (random_.chance(0.3)) {  // any strides: every element at a distance of 3
      tensors_.emplace_back(DType::i64, Dims{dims.front(), length, 3});
      if (!shared) {
        for_each_index(view.dims(), [&](Index at) {
          const int64_t place[] = {at[0], at[1], 1};
          set(tensors_.back(), place, get(view, at));
        });
        TensorView wide = tensors_.back().view().slice(2, 1, 2);
        wide.rank = 2;
        return wide;
      }
    }
    return view;
  }
  static int64_t id_of(const TensorView& ids, Index at, int64_t position) {
    const int64_t shared[] = {position}, own[] = {at[0], position};
    return static_cast<int64_t>(ids.rank == 1 ? get(ids, shared) : get(ids, own));
  }
  static int64_t within(const TensorView& starts, int64_t documents, int64_t position) {
    const auto* values = static_cast<const int64_t*>(starts.data);
    for (int64_t d = 0; d < documents; ++d)
      if (values[d] <= position && position < values[d + 1]) return d;
    return -1;
  }

  Random& random_;
  int64_t q_len_, k_len_;
  std::deque<Node> nodes_;
  std::deque<std::unique_ptr<rapt::Mask>> masks_;
  std::deque<Tensor> tensors_;
};

// Positions start, start + step, ... below `length`, at most `most` of them.
Positions random_positions(Random& random, int64_t length, int64_t most) {
  Positions p;
  p.start = random.between(0, length - 1);
  p.step = random.chance(0.6) ? 1 : random.between(2, 5);
  p.count = random.between(1, std::min((length - 1 - p.start) / p.step + 1, most));
  return p;
}

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
Cover implied(const Node& node, Index leading, int64_t q_len, int64_t k_len, Positions queries,
              Positions keys) {
  if (!node.op) return node.mask->cover(Bound(*node.mask, leading, q_len, k_len), queries, keys);
  Cover least = Cover::all, most = Cover::none;
  for (const Node* part : node.parts) {
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

void expect_agreement(const Node& node, Random& random, int64_t q_len, int64_t k_len,
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

void expect_agreement_of_trees(Leaves leaves, int depth, int trees, Tally& tally) {
  Random random(base_seed() + static_cast<uint64_t>(depth));
  for (int n = 0; n < problem_count(trees) && !testing::Test::HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 150), k_len = random.between(1, 300);
    Forest forest(random, q_len, k_len);
    const Node& node = forest.tree(depth, leaves);
    SCOPED_TRACE(to_string(*node.mask) + " of " + std::to_string(q_len) + " queries, " +
                 std::to_string(k_len) + " keys");
    node.mask->check(Forest::kLeading, q_len, k_len);
    for (int tile = 0; tile < 12 && !testing::Test::HasFailure(); ++tile)
      expect_agreement(node, random, q_len, k_len, tally);
  }
}

TEST(MaskAlgebra, TreesAgreeWithTheirPredicate) {
  Tally tally;
  for (const int depth : {1, 2, 3, 4}) expect_agreement_of_trees(Leaves::all, depth, 250, tally);
  EXPECT_GT(tally.found_none, 0);
  EXPECT_GT(tally.found_all, 0);
}

// Masks that are exact themselves: most tiles without any pair are found, and those with all.
// What is missed needs two parts at once, such as two windows that leave nothing in common.
TEST(MaskAlgebra, SkippedTilesAreFound) {
  Tally tally;
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

// A tree gives the bits of its pairs given element by element; and its plan counts them.
TEST(MaskAlgebra, SameBitsAsItsPairs) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(120) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 130), k_len = random.between(1, 300);
    Forest forest(random, q_len, k_len);
    const Node& node = forest.tree(4, Leaves::all);
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
    Forest forest(random, q_len, k_len);
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
    Forest forest(random, q_len, k_len);
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

// Parts are checked as masks of a call are: their tensors must be where a tensor can be and apart
// from the outputs; a tree of more places than memory is refused, not walked.
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
    Forest forest(random, q_len, k_len);
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
