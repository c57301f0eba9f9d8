// The largest weights of a row, where scores are equal or NaN: the order of the list is defined, a
// masked key is never in it, and it does not depend on other rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kLength = 150;

// head_dim 1 and queries of 1, so that the scores of every row are the keys.
template <class E>
std::vector<int64_t> top_keys(const std::vector<E>& scores, int64_t top_k) {
  const auto length = static_cast<int64_t>(scores.size());
  const std::vector<E> ones(scores.size(), E(1));
  const rapt::TensorView query(ones.data(), {length, 1}), key(scores.data(), {length, 1});
  const rapt::Causal causal;
  const auto result = rapt::scaled_dot_product_attention(
      query, key, query, {.scale = 1, .masks = {&causal}, .top_k = top_k});
  const auto keys = result.top_keys.template values<int64_t>();
  return {keys.begin(), keys.end()};
}

// NaN first, then by size; of equal ones the earlier.
template <class E>
std::vector<int64_t> expected(const std::vector<E>& scores, int64_t top_k) {
  std::vector<int64_t> lists;
  for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i) {
    std::vector<int64_t> keys;
    for (int64_t j = 0; j <= i; ++j) keys.push_back(j);
    std::stable_sort(keys.begin(), keys.end(), [&](int64_t a, int64_t b) {
      const E x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
      return std::isnan(y) ? false : std::isnan(x) || x > y;
    });
    keys.resize(static_cast<size_t>(top_k), -1);
    lists.insert(lists.end(), keys.begin(), keys.end());
  }
  return lists;
}

template <class E>
void compare(const std::vector<E>& scores) {
  for (const int64_t top_k : {1, 2, 3, 7, 20})
    EXPECT_EQ(top_keys(scores, top_k), expected(scores, top_k)) << "top_k " << top_k;
}

// Lists that are too long to stay sorted: cut once, several times, or never, with ties at the cut.
template <class E>
void compare_long(const std::vector<E>& scores) {
  for (const int64_t top_k : {33, 48, 64, 200, 349, 350})
    EXPECT_EQ(top_keys(scores, top_k), expected(scores, top_k)) << "top_k " << top_k;
}

template <class E>
std::vector<E> waves(int64_t length = kLength) {
  std::vector<E> scores(static_cast<size_t>(length));
  for (size_t j = 0; j < scores.size(); ++j)
    scores[j] = static_cast<E>(std::sin(static_cast<double>(j * j)));
  return scores;
}

template <class E>
class TopKeys : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(TopKeys, Elements);

TYPED_TEST(TopKeys, LargestFirst) { compare(waves<TypeParam>()); }

TYPED_TEST(TopKeys, EarlierOfEqualsFirst) {
  compare(std::vector<TypeParam>(kLength, TypeParam(1)));
  auto steps = waves<TypeParam>();
  for (TypeParam& s : steps) s = std::round(2 * s);
  compare(steps);
}

TYPED_TEST(TopKeys, NanIsFirstAndLetsNothingElseIn) {
  auto one = waves<TypeParam>();
  one[70] = static_cast<TypeParam>(NAN);
  compare(one);
  auto many = waves<TypeParam>();
  for (const size_t j : {3, 4, 60, 64, 100, 101, 102, 149}) many[j] = static_cast<TypeParam>(NAN);
  compare(many);
}

constexpr int64_t kLongLength = 350;

TYPED_TEST(TopKeys, LongListsOfAnyOrder) {
  compare_long(waves<TypeParam>(kLongLength));
  std::vector<TypeParam> rising(kLongLength), falling(kLongLength);
  for (size_t j = 0; j < rising.size(); ++j)
    rising[j] = static_cast<TypeParam>(j), falling[j] = -static_cast<TypeParam>(j);
  compare_long(rising);
  compare_long(falling);
}

TYPED_TEST(TopKeys, LongListsWithTies) {
  compare_long(std::vector<TypeParam>(kLongLength, TypeParam(1)));
  for (const double levels : {0.6, 1.0, 4.0}) {
    auto steps = waves<TypeParam>(kLongLength);
    for (TypeParam& s : steps) s = std::round(static_cast<TypeParam>(levels) * s);
    compare_long(steps);
  }
  // A few larger scores after each cut, among equal ones.
  std::vector<TypeParam> rare(kLongLength, TypeParam(1));
  for (size_t j = 40; j < rare.size(); j += 17) rare[j] = TypeParam(2);
  compare_long(rare);
}

TYPED_TEST(TopKeys, LongListsWithNan) {
  const auto nan = static_cast<TypeParam>(NAN);
  auto some = waves<TypeParam>(kLongLength), most = some;
  for (size_t j = 5; j < some.size(); j += 9) some[j] = nan;
  compare_long(some);
  for (size_t j = 0; j < most.size(); ++j)
    if (j % 9 != 0) most[j] = nan;
  compare_long(most);
  compare_long(std::vector<TypeParam>(kLongLength, nan));
}

}  // namespace
