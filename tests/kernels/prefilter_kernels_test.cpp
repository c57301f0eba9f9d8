// The prefilter finds every key whose score is above the bound of a query, for any numbers, and
// finds few other keys. The scores of the found keys have the same bits as those of the product
// kernels.
#include "kernels/prefilter/prefilter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check/tensors/random.h"
#include "kernels/kernel_table.h"

namespace rapt {
namespace {

using check::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kLanes = 16;

size_t at(int64_t index) { return static_cast<size_t>(index); }

// Queries and keys, and their int8 roundings.
struct Rounded {
  int64_t dims, queries, key_count, key_stride;
  std::vector<float> query_t, key;  // [dims][queries], [keys][key_stride]
  std::vector<int8_t> numbers;
  std::vector<int32_t> start;
  std::vector<float> per_unit, norm, rest;
  std::vector<uint8_t> bytes;
  std::vector<KeyGroup> groups;

  Rounded(int64_t d, int vectors, int64_t keys, int64_t stride)
      : dims(d),
        queries(kLanes * vectors),
        key_count(keys),
        key_stride(stride),
        query_t(at(dims * queries)),
        key(at(keys * stride), kNaN),  // NaN between rows
        numbers(at(padded_dims() * queries)),
        start(at(queries)),
        per_unit(at(queries)),
        norm(at(queries)),
        rest(at(queries)),
        bytes(at(padded_keys() * padded_dims())),
        groups(at(padded_keys() / kPrefilterGroup)) {}

  int64_t padded_dims() const {
    return (dims + kPrefilterDims - 1) / kPrefilterDims * kPrefilterDims;
  }
  int64_t padded_keys() const {
    return (key_count + kPrefilterGroup - 1) / kPrefilterGroup * kPrefilterGroup;
  }
  float& query(int64_t i, int64_t d) { return query_t[at(d * queries + i)]; }
  float& key_at(int64_t j, int64_t d) { return key[at(j * key_stride + d)]; }
  PrefilterQueries prefilter_queries() {
    return {numbers.data(), start.data(), per_unit.data(), norm.data(), rest.data()};
  }
  void round(const PrefilterKernels& prefilter) {
    for (int64_t row = 0; row < key_count; row += kPrefilterGroup)
      prefilter.round_keys(key.data() + row * key_stride, key_stride,
                           std::min(kPrefilterGroup, key_count - row), dims,
                           bytes.data() + row * padded_dims(), &groups[at(row / kPrefilterGroup)]);
    prefilter.round_queries(query_t.data(), dims, queries, prefilter_queries());
  }

  // true_score is exact up to roundings of 2^-53. chain is the score as the product kernels
  // compute it.
  double true_score(int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < dims; ++d) sum += double{query(i, d)} * double{key_at(j, d)};
    return sum;
  }
  float chain(int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t d = 0; d < dims; ++d) sum = std::fma(key_at(j, d), query(i, d), sum);
    return sum;
  }
};

struct Found {
  std::vector<std::vector<int32_t>> lists;  // one list per vector of queries
  int64_t sum = 0;                          // the sum that find() returns
};

// Runs find() and checks that it writes only where it may.
Found find(const PrefilterKernels& prefilter, Rounded& r, const std::vector<float>& bounds,
           int64_t first, int64_t count) {
  constexpr int32_t kUntouched = -77;
  const auto vectors = static_cast<int>(r.queries / kLanes);
  const int64_t stride = count + 1;
  std::vector<int32_t> found(at(vectors * stride + 1), kUntouched), counts(at(vectors));
  Found result;
  result.sum = prefilter.find(r.prefilter_queries(), bounds.data(), vectors, r.dims, r.bytes.data(),
                              r.groups.data(), first, count, found.data(), stride, counts.data());
  EXPECT_EQ(found.back(), kUntouched);
  for (int x = 0; x < vectors; ++x) {
    const auto begin = found.begin() + x * stride;
    EXPECT_TRUE(counts[at(x)] >= 0 && counts[at(x)] <= count) << counts[at(x)];
    result.lists.emplace_back(begin, begin + std::clamp<int64_t>(counts[at(x)], 0, count));
  }
  return result;
}

using Row = std::vector<float>;

double decimal_power(Random& random, double low, double high) {
  return std::pow(10, low + (high - low) * random.uniform());
}

// Draws a row of a random kind. Two kinds are the worst case of the Cauchy-Schwarz bound, because
// all their rounding errors have the same sign: rows of equal numbers, and rows whose numbers are
// nearly halfway between two integers in units of the row.
Row drawn_row(Random& random, int64_t dims, double spread, bool special) {
  Row row(at(dims));
  const int64_t kind = special && random.chance(0.05) ? random.between(6, 9) : random.between(0, 5);
  const double sign = random.pick({1.0, -1.0}), off = random.pick({0.49, -0.49});
  const double least = std::pow(10, -8 * random.uniform());
  for (float& x : row) {
    double value = random.normal();
    if (kind == 1) value = sign;
    if (kind == 2 || kind == 3)
      value = sign * (static_cast<double>(random.between(1, 9)) + off) / 127;
    if (kind == 4) value *= least;
    if (kind == 8) value *= 1e-45 / spread * 3;
    x = kind == 9 ? 0 : static_cast<float>(value * spread);
  }
  float& one = row[at(random.between(0, dims - 1))];
  if (kind >= 2 && kind <= 4) one = static_cast<float>(spread);
  if (kind == 6) one = random.pick({kNaN, kInfinity, -kInfinity});
  if (kind == 7) one = random.pick({FLT_MAX, -FLT_MAX, 0x1p40f, 0x1.000002p40f, 0x1p-40f});
  return row;
}

float drawn_bound(Random& random, const Row& falling, bool special) {
  if (special && random.chance(0.1))
    return random.pick({-kInfinity, kNaN, 0.0f, -0.0f, FLT_MAX, -FLT_MAX});
  if (falling.empty() || random.chance(0.2)) return kInfinity;
  // The bound is often one of the largest scores, so that find() can skip some keys for a whole
  // vector.
  const auto most = static_cast<int64_t>(falling.size()) - 1;
  const float score = falling[at(special ? random.between(0, most) : std::min<int64_t>(most, 1))];
  return random.pick({score, std::nextafter(score, kInfinity), std::nextafter(score, -kInfinity),
                      score * 1.0001f});
}

TEST(PrefilterKernels, AllThatIsAboveABoundIsFound) {
  const PrefilterKernels* const prefilter = score_prefilter();
  if (!prefilter) GTEST_SKIP() << "this machine, or the instruction set in use, has no prefilter";
  Random random(7);
  int64_t pairs = 0, found_pairs = 0;
  for (int n = 0; n < 1000; ++n) {
    const int vectors = static_cast<int>(random.between(1, 4));
    const int64_t dims = random.chance(0.6) ? random.between(1, 40) : random.between(1, 300);
    Rounded r(dims, vectors, random.between(1, 400), dims + random.between(0, 5));
    const bool special = random.chance(0.3), one_spread = random.chance(0.7);
    const double of_queries = decimal_power(random, -30, 30),
                 of_keys = decimal_power(random, -30, 30);
    const double usual = random.pick({1.0, 1e-3, 1e5});
    const auto draw = [&](double spread) {
      return drawn_row(random, dims, one_spread ? usual : spread, special);
    };
    for (int64_t i = 0; i < r.queries; ++i) {
      const Row row = draw(of_queries);
      for (int64_t d = 0; d < dims; ++d) r.query(i, d) = row[at(d)];
    }
    for (int64_t j = 0; j < r.key_count; ++j) {
      const Row row = draw(random.chance(0.5) ? of_keys : decimal_power(random, -30, 30));
      for (int64_t d = 0; d < dims; ++d) r.key_at(j, d) = row[at(d)];
    }
    r.round(*prefilter);
    const int64_t first = random.between(0, r.key_count - 1),
                  count = random.between(1, r.key_count - first);
    const bool special_bounds = random.chance(0.3);
    std::vector<float> bounds, chains(at(r.queries * count));
    std::vector<double> scores(chains.size());
    for (int64_t i = 0; i < r.queries; ++i) {
      Row falling;
      for (int64_t j = 0; j < count; ++j) {
        const float chain = chains[at(i * count + j)] = r.chain(i, first + j);
        scores[at(i * count + j)] = r.true_score(i, first + j);
        if (std::isfinite(chain)) falling.push_back(chain);
      }
      std::ranges::sort(falling, std::greater<>());
      bounds.push_back(drawn_bound(random, falling, special_bounds));
    }
    const Found found = find(*prefilter, r, bounds, first, count);
    int64_t sum = 0;
    for (int x = 0; x < vectors; ++x) {
      const auto& list = found.lists[at(x)];
      sum += static_cast<int64_t>(list.size());
      ASSERT_TRUE(std::ranges::adjacent_find(list, std::greater_equal<>()) == list.end()) << n;
      ASSERT_TRUE(list.empty() || (list.front() >= 0 && list.back() < count)) << n;
      for (int64_t j = 0; j < count; ++j) {
        if (std::ranges::binary_search(list, static_cast<int32_t>(j))) continue;
        for (int64_t i = x * kLanes; i < (x + 1) * kLanes; ++i) {
          const float bound = bounds[at(i)], chain = chains[at(i * count + j)];
          const double score = scores[at(i * count + j)];
          ASSERT_TRUE(score <= double{bound} && chain <= bound)
              << "problem " << n << ", dims " << dims << ", query " << i << " of " << r.queries
              << ", key " << first << " + " << j << " of " << r.key_count << ": score " << score
              << ", in f32 " << chain << ", bound " << bound;
        }
      }
    }
    ASSERT_EQ(found.sum, sum) << n;
    pairs += vectors * count, found_pairs += sum;
  }
  // The bounds neither keep nor drop nearly all keys; else the test would test nothing.
  EXPECT_LT(found_pairs, pairs * 3 / 4);
  EXPECT_GT(found_pairs, pairs / 10);
}

// Rows of equal numbers round to int8 without a rest, and all additions of a score round to the
// same side. At 4096 dims these roundings add up to thousands of ulps of the score. Each query is
// tested by itself.
TEST(PrefilterKernels, RoundingsOfLongScoresAreAllowedFor) {
  const PrefilterKernels* const prefilter = score_prefilter();
  if (!prefilter) GTEST_SKIP() << "this machine, or the instruction set in use, has no prefilter";
  Random random(11);
  double largest_excess = 0;  // relative excess of a score in f32 over the true one
  for (const int64_t dims : {int64_t{1000}, int64_t{2500}, kMostPrefilterDims}) {
    for (const double sign : {1.0, -1.0}) {
      Rounded r(dims, 2, kPrefilterGroup, dims);
      std::ranges::fill(r.key, static_cast<float>(sign * (0.5 + random.uniform())));
      for (int64_t i = 0; i < r.queries; ++i) {
        const auto x = static_cast<float>(0.5 + random.uniform());
        for (int64_t d = 0; d < dims; ++d) r.query(i, d) = x;
      }
      r.round(*prefilter);
      for (int64_t i = 0; i < r.queries; ++i) {
        const float chain = r.chain(i, 0);
        const double score = r.true_score(i, 0);
        largest_excess = std::max(largest_excess, (double{chain} - score) / std::abs(score));
        std::vector<float> bounds(at(r.queries), kInfinity);
        bounds[at(i)] = std::nextafter(std::min(chain, static_cast<float>(score)), -kInfinity);
        EXPECT_EQ(find(*prefilter, r, bounds, 0, kPrefilterGroup).sum, kPrefilterGroup)
            << dims << ", " << i;
        bounds[at(i)] = std::nextafter(chain, -kInfinity);
        EXPECT_EQ(find(*prefilter, r, bounds, 0, kPrefilterGroup).sum, kPrefilterGroup)
            << dims << ", " << i;
      }
    }
  }
  EXPECT_GT(largest_excess, 0x1p-16);  // else nothing was tested
}

TEST(PrefilterKernels, NothingIsAboveInfinity) {
  const PrefilterKernels* const prefilter = score_prefilter();
  if (!prefilter) GTEST_SKIP() << "this machine, or the instruction set in use, has no prefilter";
  Random random(8);
  Rounded r(37, 3, 61, 37);
  for (float& x : r.query_t) x = static_cast<float>(random.normal());
  for (float& x : r.key) x = static_cast<float>(random.normal());
  r.round(*prefilter);
  EXPECT_EQ(find(*prefilter, r, std::vector<float>(at(r.queries), kInfinity), 3, 50).sum, 0);
  EXPECT_EQ(find(*prefilter, r, std::vector<float>(at(r.queries), -kInfinity), 3, 50).sum, 3 * 50);
  EXPECT_EQ(find(*prefilter, r, std::vector<float>(at(r.queries), kNaN), 3, 50).sum, 3 * 50);
}

// For normal rows of 64 dims, a score is |q| times a normal number. The largest element is about
// 2.6 in a query and 3.3 in a group of keys. A unit is 1 / 127 of it, and the rest of a row has
// norm sqrt(64 / 12) = 2.3 units. So the Cauchy-Schwarz term is 2.3 (3.3 + 1.2 * 2.6) / 127 |q| =
// 0.12 |q|. The test allows 0.25 |q| in total, and the normal distribution then limits how many
// keys are found.
TEST(PrefilterKernels, FewOthersAreFound) {
  const PrefilterKernels* const prefilter = score_prefilter();
  if (!prefilter) GTEST_SKIP() << "this machine, or the instruction set in use, has no prefilter";
  constexpr int64_t kKeys = 4096, kDims = 64;
  constexpr double kBound = 3, kGuard = 0.25;
  Random random(9);
  for (int vectors = 1; vectors <= 4; ++vectors) {
    Rounded r(kDims, vectors, kKeys, kDims);
    for (float& x : r.query_t) x = static_cast<float>(random.normal());
    for (float& x : r.key) x = static_cast<float>(random.normal());
    r.round(*prefilter);
    std::vector<float> bounds;
    for (int64_t i = 0; i < r.queries; ++i) {
      double squares = 0;
      for (int64_t d = 0; d < kDims; ++d) squares += double{r.query(i, d)} * double{r.query(i, d)};
      bounds.push_back(static_cast<float>(kBound * std::sqrt(squares)));
    }
    const double of_one = std::erfc((kBound - kGuard) / std::sqrt(2.0)) / 2;
    const double share = 1 - std::pow(1 - of_one, kLanes);  // 0.047
    EXPECT_LT(static_cast<double>(find(*prefilter, r, bounds, 0, kKeys).sum),
              share * static_cast<double>(kKeys * vectors));
  }
}

TEST(PrefilterKernels, ScoresAreThoseOfTheProducts) {
  const PrefilterKernels* const prefilter = score_prefilter();
  if (!prefilter) GTEST_SKIP() << "this machine, or the instruction set in use, has no prefilter";
  const RouteKernels<float>& route = *kernels<float>().fma[static_cast<int>(DType::f32)];
  Random random(10);
  for (int n = 0; n < 300; ++n) {
    const int vectors = static_cast<int>(random.between(1, kernels<float>().max_vectors));
    const int64_t dims = random.between(1, 130), count = random.between(1, 96),
                  stride = count + random.between(1, 4);
    Rounded r(dims, vectors, count, dims + random.between(0, 9));
    for (float& x : r.query_t) x = static_cast<float>(random.normal());
    for (float& x : r.key) x = static_cast<float>(random.normal());
    std::vector<int32_t> found(at(vectors * stride)), counts(at(vectors));
    const double density = random.pick({0.0, 0.05, 0.3, 1.0});
    for (int x = 0; x < vectors; ++x)
      for (int64_t j = 0; j < count; ++j)
        if (random.chance(density))
          found[at(x * stride + counts[at(x)]++)] = static_cast<int32_t>(j);
    const auto size = at(count * r.queries);
    std::vector<float> expected(size), got(size, kNaN), most(at(r.queries), kNaN), of_all(most);
    route.products[vectors - 1].scores(r.query_t.data(), r.key.data(), r.key_stride, count, dims, 1,
                                       expected.data(), of_all.data());
    prefilter->scores(r.query_t.data(), r.key.data(), r.key_stride, count, dims, vectors,
                      found.data(), stride, counts.data(), got.data(), most.data());
    std::vector<float> largest(at(r.queries), -kInfinity);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = 0; i < r.queries; ++i) {
        const int64_t x = i / kLanes;
        const auto list = found.begin() + x * stride;
        const bool listed = std::binary_search(list, list + counts[at(x)], static_cast<int32_t>(j));
        float& right = expected[at(j * r.queries + i)];
        if (!listed) right = -kInfinity;
        largest[at(i)] = std::max(largest[at(i)], right);
      }
    ASSERT_EQ(std::memcmp(got.data(), expected.data(), size * sizeof(float)), 0) << n;
    ASSERT_EQ(most, largest) << n;
  }
}

}  // namespace
}  // namespace rapt
