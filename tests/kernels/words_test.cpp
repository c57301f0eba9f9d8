// The words without arithmetic, on every instruction set: loads and stores (also of parts of a
// vector and of 16-bit numbers), conditions, selections and transposes. Also checks that arithmetic
// treats special values as simd/plain.h says.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/words_shim.h"
#include "rapt/float16.h"

namespace rapt {
namespace {

// The largest kLanes of any set.
constexpr int64_t kMostLanes = 16;

// One page between two guard pages.
class GuardedPage {
 public:
  GuardedPage() : size_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* all = mmap(nullptr, 3 * size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<char*>(all) + size_;
    if (mprotect(begin_, size_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~GuardedPage() { munmap(begin_ - size_, 3 * size_); }
  GuardedPage(const GuardedPage&) = delete;
  GuardedPage& operator=(const GuardedPage&) = delete;

  template <class T>
  T* first() {
    return reinterpret_cast<T*>(begin_);
  }
  // The last n elements of the page.
  template <class T>
  T* last(int64_t n) {
    return reinterpret_cast<T*>(begin_ + size_) - n;
  }

 private:
  size_t size_;
  char* begin_;
};

template <class E>
class VectorTest : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(VectorTest, Elements, );

TYPED_TEST(VectorTest, LoadsOfAPartReadNothingElse) {
  using E = TypeParam;
  const auto& w = words_of<E>();
  GuardedPage page;
  for (int64_t n = 0; n <= w.lanes; ++n) {
    E* const x = page.last<E>(n);
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<E>(i + 1);
    E y[kMostLanes];
    w.load_first(x, n, y);
    for (int64_t i = 0; i < w.lanes; ++i) EXPECT_EQ(y[i], i < n ? static_cast<E>(i + 1) : 0);
  }
  E x[kMostLanes] = {1, 2, 3, 4}, y[kMostLanes];
  w.load_first(x, w.lanes + 5, y);  // n beyond the lanes loads all lanes
  EXPECT_EQ(std::memcmp(x, y, static_cast<size_t>(w.lanes) * sizeof(E)), 0);
}

TYPED_TEST(VectorTest, StoresOfAPartWriteNothingElse) {
  using E = TypeParam;
  const auto& w = words_of<E>();
  GuardedPage page;
  E x[kMostLanes];
  for (int64_t i = 0; i < kMostLanes; ++i) x[i] = static_cast<E>(i + 1);
  for (int64_t n = 0; n <= w.lanes + 3; ++n) {
    const int64_t written = std::min(n, w.lanes);
    E* const at_end = page.last<E>(written);
    w.store_first(x, n, at_end);
    EXPECT_EQ(std::memcmp(x, at_end, static_cast<size_t>(written) * sizeof(E)), 0);
    E* const y = page.first<E>();
    for (int64_t i = 0; i < kMostLanes; ++i) y[i] = -7;
    w.store_first(x, n, y);
    for (int64_t i = 0; i < kMostLanes; ++i) EXPECT_EQ(y[i], i < written ? x[i] : -7);
  }
}

TYPED_TEST(VectorTest, ConditionsAndSelections) {
  using E = TypeParam;
  const auto& w = words_of<E>();
  const uint64_t all = (uint64_t{1} << w.lanes) - 1;
  constexpr E kValues[] = {0,
                           -0.0,
                           1,
                           -1,
                           std::numeric_limits<E>::infinity(),
                           -std::numeric_limits<E>::infinity(),
                           std::numeric_limits<E>::quiet_NaN()};
  std::mt19937 random(3);
  bool seen_none = false;
  for (int trial = 0; trial < 5000; ++trial) {
    E a[kMostLanes], b[kMostLanes], yes[kMostLanes], no[kMostLanes], y[kMostLanes];
    // Later trials draw from three values, so that in some trials a condition holds in no lane.
    const uint32_t choices = trial < 2500 ? uint32_t{std::size(kValues)} : 3;
    uint64_t equal = 0, above = 0;
    for (int64_t i = 0; i < w.lanes; ++i) {
      a[i] = kValues[random() % choices], b[i] = kValues[random() % choices];
      yes[i] = static_cast<E>(i + 1), no[i] = -yes[i];
      equal |= uint64_t{a[i] == b[i]} << i;
      above |= uint64_t{!(a[i] <= b[i])} << i;
    }
    ASSERT_EQ(w.equal(a, b) & all, equal);
    ASSERT_EQ(w.not_at_most(a, b) & all, above);
    ASSERT_EQ(w.any_not_at_most(a, b), above != 0);
    seen_none |= above == 0;
    w.select_not_at_most(a, b, yes, no, y);
    for (int64_t i = 0; i < w.lanes; ++i) ASSERT_EQ(y[i], above >> i & 1 ? yes[i] : no[i]);
    const uint64_t bits = static_cast<uint64_t>(random()) << 32 | random();
    w.select_bits(bits, yes, no, y);
    for (int64_t i = 0; i < w.lanes; ++i) ASSERT_EQ(y[i], bits >> i & 1 ? yes[i] : no[i]);
    int32_t numbers[kMostLanes], chosen[kMostLanes];
    for (int32_t i = 0; i < w.lanes; ++i) numbers[i] = 1000 + i;
    // compress() to another place and in place must give the same.
    const int64_t count = w.compress(bits, yes, numbers, y, chosen);
    ASSERT_EQ(w.compress(bits, yes, numbers, yes, numbers), count);
    int64_t place = 0;
    for (int64_t i = 0; i < w.lanes; ++i) {
      if (!(bits >> i & 1)) continue;
      ASSERT_EQ(y[place], static_cast<E>(i + 1));
      ASSERT_EQ(yes[place], static_cast<E>(i + 1));
      ASSERT_EQ(chosen[place], 1000 + i);
      ASSERT_EQ(numbers[place++], 1000 + i);
    }
    ASSERT_EQ(count, place);
  }
  EXPECT_TRUE(seen_none);
}

TYPED_TEST(VectorTest, Arithmetic) {
  using E = TypeParam;
  const auto& w = words_of<E>();
  constexpr E kInf = std::numeric_limits<E>::infinity(), kNan = std::numeric_limits<E>::quiet_NaN();
  const auto same = [](E a, E b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  };
  constexpr E kValues[] = {0, -0.0, 1, -1.5, 3, -7, kInf, -kInf, kNan};
  for (const E one : kValues)
    for (const E two : kValues) {
      E a[kMostLanes], b[kMostLanes], c[kMostLanes], y[kMostLanes];
      for (int64_t i = 0; i < kMostLanes; ++i) a[i] = one, b[i] = two, c[i] = 5;
      const auto expect = [&](E expected) {
        for (int64_t i = 0; i < w.lanes; ++i)
          EXPECT_TRUE(same(y[i], expected)) << one << ", " << two << " gives " << y[i];
      };
      w.add(a, b, y), expect(one + two);
      w.sub(a, b, y), expect(one - two);
      w.mul(a, b, y), expect(one * two);
      w.div(a, b, y), expect(one / two);
      w.fma(a, b, c, y), expect(one * two + 5);
      w.max(a, b, y), expect(one > two ? one : two);
      w.copy_sign(a, b, y), expect(std::copysign(one, two));
      w.abs(a, y, w.lanes), expect(std::fabs(one));
    }
}

TYPED_TEST(VectorTest, Transposes) {
  using E = TypeParam;
  const auto& w = words_of<E>();
  E x[kMostLanes * kMostLanes], y[kMostLanes * kMostLanes];
  for (int64_t i = 0; i < w.lanes * w.lanes; ++i) x[i] = static_cast<E>(i);
  w.transpose(x, y);
  for (int64_t i = 0; i < w.lanes; ++i)
    for (int64_t j = 0; j < w.lanes; ++j) EXPECT_EQ(y[j * w.lanes + i], x[i * w.lanes + j]);
}

TEST(IntegerTest, Arithmetic) {
  const IntegerWords& w = words().integers;
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 1000; ++trial) {
    uint64_t a[kMostLanes], b[kMostLanes], c[kMostLanes], y[kMostLanes];
    for (int64_t i = 0; i < w.lanes; ++i) a[i] = random(), b[i] = random(), c[i] = random();
    if (trial == 0) a[0] = b[0] = ~uint64_t{0};
    const auto expect = [&](auto expected) {
      for (int64_t i = 0; i < w.lanes; ++i) ASSERT_EQ(y[i], expected(i));
    };
    w.splat(a[0], y), expect([&](int64_t) { return a[0]; });
    w.mul_halves(a, b, y), expect([&](int64_t i) {
      return uint64_t{static_cast<uint32_t>(a[i])} * static_cast<uint32_t>(b[i]);
    });
    w.exclusive_or(a, b, y), expect([&](int64_t i) { return a[i] ^ b[i]; });
    w.exclusive_or_3(a, b, c, y), expect([&](int64_t i) { return a[i] ^ b[i] ^ c[i]; });
    w.upper_half(a, y), expect([&](int64_t i) { return a[i] >> 32; });
  }
}

TEST(IntegerTest, AtLeastComparesLowerHalvesWithoutSigns) {
  const IntegerWords& w = words().integers;
  std::mt19937_64 random(12);
  constexpr uint32_t kBounds[] = {0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF};
  for (int trial = 0; trial < 3000; ++trial) {
    const uint32_t bound = kBounds[random() % std::size(kBounds)];
    uint64_t x[2][kMostLanes], bits = 0;
    for (int64_t i = 0; i < w.lanes; ++i)
      for (int64_t odd = 0; odd < 2; ++odd) {
        const auto lower =
            static_cast<uint32_t>(kBounds[random() % std::size(kBounds)] + random() % 3 - 1);
        x[odd][i] = random() << 32 | lower;
        bits |= uint64_t{lower >= bound} << (2 * i + odd);
      }
    ASSERT_EQ(w.at_least(x[0], x[1], bound), bits);
  }
}

template <class T>
const HalfWords& half_words();
template <>
const HalfWords& half_words<BFloat16>() {
  return words().bf16;
}
template <>
const HalfWords& half_words<Float16>() {
  return words().f16;
}

template <class T>
class HalfTest : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfTest, Halves, );

template <class T>
void expect_same_value(T half, float x) {
  if (std::isnan(static_cast<float>(half)))
    ASSERT_TRUE(std::isnan(x)) << half.bits;
  else
    ASSERT_EQ(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(static_cast<float>(half)))
        << half.bits;
}

TEST(PairsTest, EveryValueLoads) {
  const int64_t lanes = words().f32.lanes;
  for (int i = 0; i < 0x10000; i += static_cast<int>(2 * lanes)) {
    uint16_t x[2 * kMostLanes];
    float lower[kMostLanes], upper[kMostLanes];
    for (int64_t j = 0; j < 2 * lanes; ++j) x[j] = static_cast<uint16_t>(i + j);
    words().bf16_pairs(x, lower, upper);
    for (int64_t j = 0; j < lanes; ++j) {
      expect_same_value(BFloat16{x[2 * j]}, lower[j]);
      expect_same_value(BFloat16{x[2 * j + 1]}, upper[j]);
    }
  }
}

TYPED_TEST(HalfTest, EveryValueLoads) {
  const int64_t lanes = words().f32.lanes;
  for (int i = 0; i < 0x10000; i += static_cast<int>(lanes)) {
    uint16_t x[kMostLanes];
    float y[kMostLanes];
    for (int64_t k = 0; k < lanes; ++k) x[k] = static_cast<uint16_t>(i + k);
    half_words<TypeParam>().load(x, y);
    for (int64_t k = 0; k < lanes; ++k) expect_same_value(TypeParam{x[k]}, y[k]);
    half_words<TypeParam>().load_first(x, lanes - 1, y);
    for (int64_t k = 0; k < lanes - 1; ++k) expect_same_value(TypeParam{x[k]}, y[k]);
    ASSERT_EQ(y[lanes - 1], 0);
  }
}

// Every 16-bit value as a float, the midpoints between neighbours, and the floats beside these.
template <class T>
std::vector<float> boundaries() {
  std::vector<float> all;
  for (int i = 0; i < 0x10000; ++i) {
    const float x = T{static_cast<uint16_t>(i)};
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    // Half a step is the highest bit that is dropped. The midpoints of denormal Float16 are among
    // the random floats below.
    const uint32_t half = std::is_same_v<T, BFloat16> ? 1u << 15 : 1u << 12;
    for (const uint32_t near :
         {bits - 1, bits, bits + 1, bits + half - 1, bits + half, bits + half + 1})
      all.push_back(std::bit_cast<float>(near));
  }
  std::mt19937 random(5);
  for (int i = 0; i < 300000; ++i) {
    all.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    // Numbers around the denormal Float16, and their exact midpoints.
    all.push_back(std::ldexp(static_cast<float>(random() & 0xFFFFFF), -24 - i % 32));
    all.push_back(std::ldexp(static_cast<float>(random() & 0x7FF), -25));
  }
  return all;
}

TYPED_TEST(HalfTest, EveryStoreRoundsAsTheTypeSays) {
  const int64_t lanes = words().f32.lanes;
  const std::vector<float> all = boundaries<TypeParam>();
  for (size_t i = 0; i + kMostLanes <= all.size(); i += static_cast<size_t>(lanes)) {
    uint16_t y[kMostLanes], part[kMostLanes];
    half_words<TypeParam>().store(&all[i], y);
    half_words<TypeParam>().store_first(&all[i], lanes, part);
    for (int64_t k = 0; k < lanes; ++k) {
      const float x = all[i + static_cast<size_t>(k)];
      ASSERT_EQ(y[k], TypeParam::from(x).bits) << x << ", " << std::bit_cast<uint32_t>(x);
      ASSERT_EQ(part[k], y[k]);
    }
  }
}

TYPED_TEST(HalfTest, PartsTouchNothingElse) {
  const int64_t lanes = words().f32.lanes;
  const HalfWords& w = half_words<TypeParam>();
  GuardedPage page;
  for (int64_t n = 0; n <= lanes + 3; ++n) {
    const int64_t used = std::min(n, lanes);
    float x[kMostLanes], back[kMostLanes];
    for (int64_t i = 0; i < kMostLanes; ++i) x[i] = static_cast<float>(i + 1);
    uint16_t* const at_end = page.last<uint16_t>(used);
    w.store_first(x, n, at_end);
    w.load_first(at_end, n, back);
    for (int64_t i = 0; i < lanes; ++i) EXPECT_EQ(back[i], i < used ? x[i] : 0);
    uint16_t* const y = page.first<uint16_t>();
    for (int64_t i = 0; i < kMostLanes; ++i) y[i] = 0xABCD;
    w.store_first(x, n, y);
    for (int64_t i = used; i < kMostLanes; ++i) EXPECT_EQ(y[i], 0xABCD);
  }
}

}  // namespace
}  // namespace rapt
