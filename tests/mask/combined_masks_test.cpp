// Masks with parts bind them into the slots after their own. How many masks a call accepts.
#include <gtest/gtest.h>

#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "support/call.h"

namespace laws {
namespace {

using rapt::BoundMask;
using rapt::Cover;
using rapt::KeyRange;
using rapt::Positions;

// What both parts allow. Slot 0 is its own, then come those of `a` and those of `b`.
class Both final : public rapt::Mask {
 public:
  Both(const rapt::Mask& a, const rapt::Mask& b) : a_(a), b_(b) {}

  const rapt::Declaration& declaration() const noexcept override {
    static const rapt::Declaration kDeclaration{"both", "for a test", "none", {}};
    return kDeclaration;
  }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override {
    a_.check(leading, q_len, k_len);
    b_.check(leading, q_len, k_len);
  }
  int bound_slots() const noexcept override { return 1 + a_.bound_slots() + b_.bound_slots(); }
  void bind(const rapt::Head& head, BoundMask* bound) const noexcept override {
    bound->values[0] = 1 + a_.bound_slots();
    bind_part(a_, head, bound + 1);
    bind_part(b_, head, bound + bound->values[0]);
  }
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override {
    const KeyRange a = a_.key_range(slot_of_a(bound), queries);
    const KeyRange b = b_.key_range(slot_of_b(bound), queries);
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override {
    const Cover a = a_.cover(slot_of_a(bound), queries, keys);
    const Cover b = b_.cover(slot_of_b(bound), queries, keys);
    return std::min(a, b);  // none < some < all
  }
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override {
    exclude_part(a_, slot_of_a(bound), queries, keys, bits);
    exclude_part(b_, slot_of_b(bound), queries, keys, bits);
  }

 private:
  static void bind_part(const rapt::Mask& part, const rapt::Head& head, BoundMask* bound) {
    *bound = BoundMask{&part, nullptr, {}, head.q_len, head.k_len};
    part.bind(head, bound);
  }
  static void exclude_part(const rapt::Mask& part, const BoundMask& bound, Positions queries,
                           Positions keys, uint64_t* bits) {
    if (part.cover(bound, queries, keys) == Cover::some) part.exclude(bound, queries, keys, bits);
  }
  static const BoundMask& slot_of_a(const BoundMask& bound) { return (&bound)[1]; }
  static const BoundMask& slot_of_b(const BoundMask& bound) { return (&bound)[bound.values[0]]; }

  const rapt::Mask& a_;
  const rapt::Mask& b_;
};

TEST(CombinedMasks, AgreeWithTheirParts) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(40) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 150), k_len = random.between(1, 300);
    SCOPED_TRACE(std::to_string(q_len) + " queries, " + std::to_string(k_len) + " keys");
    const Tensor query = random_normal(random, DType::f32, {2, 3, q_len, 5});
    const Tensor key = random_normal(random, DType::f32, {2, 3, k_len, 5});
    Tensor allowed(DType::boolean, {2, 3, q_len, k_len}), lengths(DType::i64, {2, 3});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.7)); });
    for (int64_t& length : lengths.values<int64_t>()) length = random.between(0, k_len);

    // Values differ per head, so that a slot of the wrong head is detected.
    const rapt::Boolean boolean(allowed);
    const rapt::Lengths padding(lengths);
    const rapt::Causal causal(rapt::Anchor::bottom_right);
    const rapt::Window window(random.between(20, 200), 3);
    const Both padded_pairs(boolean, padding), three(causal, padded_pairs), four(three, window);

    AttentionOptions apart, together;
    apart.weights.emplace();
    together.weights.emplace();
    const auto expect_same = [&](rapt::MaskList combined, rapt::MaskList parts) {
      together.masks = combined;
      apart.masks = parts;
      EXPECT_TRUE(same_results(scaled_dot_product_attention(query, key, key, together),
                               scaled_dot_product_attention(query, key, key, apart)));
      const rapt::Plan a = rapt::plan(query, key, key, together);
      const rapt::Plan b = rapt::plan(query, key, key, apart);
      EXPECT_EQ(a.allowed_scores, b.allowed_scores);
      EXPECT_EQ(a.tiles_skipped, b.tiles_skipped);
    };
    expect_same({&padded_pairs}, {&boolean, &padding});
    expect_same({&three}, {&causal, &boolean, &padding});
    // Other masks before and after it keep their own slots.
    expect_same({&window, &three, &causal}, {&window, &causal, &boolean, &padding, &causal});
    expect_same({&four, &padded_pairs}, {&causal, &boolean, &padding, &window});
  }
}

TEST(CombinedMasks, SixteenAreTakenSeventeenRefused) {
  const Tensor x = filled(DType::f32, {20, 4}, 1);
  const rapt::Causal causal;
  std::vector<const rapt::Mask*> masks(rapt::MaskList::kMost, &causal);
  AttentionOptions many, one;
  many.masks = masks;
  one.masks = {&causal};
  EXPECT_EQ(many.masks.size(), 16u);
  EXPECT_TRUE(same_results(scaled_dot_product_attention(x, x, x, many),
                           scaled_dot_product_attention(x, x, x, one)));
  masks.push_back(&causal);
  try {
    many.masks = masks;
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_EQ(error.code(), rapt::ErrorCode::argument);
    EXPECT_NE(std::string(error.what()).find("17"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace laws
