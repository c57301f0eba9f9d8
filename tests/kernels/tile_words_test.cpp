// The words of tile registers give the same bits by instructions (simd/tiles.h) and by emulation
// (simd/tiles_emulated.h). On machines with AMX the real instructions run, which shows that the
// emulation is exact. Elsewhere the trap executes the instructions as the manual defines them.
#include "kernels/tile_test.h"

namespace rapt {
namespace {

using TileWordsTest = TileTest;

constexpr int64_t kWords = 256;  // 32-bit words per tile

// ---- Memory ----

TEST_F(TileWordsTest, LoadsAndStores) {
  Random random(1);
  for (const int64_t stride : {64, 128, 200, 260, -64, -200}) {
    for (const int64_t other : {64, 128, 200}) {
      for (int t = 0; t < 8; ++t) {
        const int64_t reach = 15 * 260 + 64 + 4;
        const Image source = random_bits(random, 2 * reach / 4);
        const Image target = random_bits(random, reach / 4);
        const int64_t odd = random.between(0, 3);  // addresses need no alignment
        for (const bool streamed : {false, true}) {
          const auto program = [&](const TileWords& words) {
            Image result = target;
            const char* middle = reinterpret_cast<const char*>(source.data()) + reach + odd - 68;
            const ShapedTiles shaped(words);
            (streamed ? words.stream : words.load)[t](
                stride < 0 ? middle : reinterpret_cast<const char*>(source.data()) + odd, stride);
            words.store[t](reinterpret_cast<char*>(result.data()) + odd, other);
            return result;
          };
          EXPECT_EQ(compared(false, program), "") << "strides " << stride << ", " << other;
        }
      }
    }
  }
}

// Loads and stores use the right addresses and touch nothing between the rows.
TEST_F(TileWordsTest, RowsLieAStrideApart) {
  for (const int64_t stride : {64, 128, 200}) {
    Image source(at(stride / 4 * 16));
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint32_t>(i);
    for (const TileWords* words : {&instructions(), &emulation()}) {
      Image packed(at(kWords)), spread(source.size(), ~0u);
      const ShapedTiles shaped(*words);
      words->load[3](source.data(), stride);
      words->store[3](packed.data(), 64);
      words->store[3](spread.data(), stride);
      for (int64_t i = 0; i < kWords; ++i)
        ASSERT_EQ(packed[at(i)], i / 16 * (stride / 4) + i % 16) << stride;
      for (int64_t i = 0; i < stride / 4 * 16; ++i)
        ASSERT_EQ(spread[at(i)], i % (stride / 4) < 16 ? source[at(i)] : ~0u) << stride;
    }
  }
}

TEST_F(TileWordsTest, Zero) {
  Random random(2);
  for (int t = 0; t < 8; ++t) {
    const Image source = random_bits(random, 8 * kWords);
    const auto program = [&](const TileWords& words) {
      Image result(at(8 * kWords), 7);
      const ShapedTiles shaped(words);
      for (int i = 0; i < 8; ++i) words.load[i](source.data() + i * kWords, 64);
      words.zero[t]();
      for (int i = 0; i < 8; ++i) words.store[i](result.data() + i * kWords, 64);
      return result;
    };
    EXPECT_EQ(compared(false, program), "") << t;
    const Image result = program(emulation());
    for (int64_t i = 0; i < 8 * kWords; ++i)
      ASSERT_EQ(result[at(i)], i / kWords == t ? 0 : source[at(i)]);
  }
}

// ---- Products ----

// A distribution of numbers that tests one difficulty.
struct Numbers {
  const char* name;
  uint16_t (*bf16)(Random&);
};

uint16_t of_exponents(Random& random, int64_t least, int64_t most) {
  return static_cast<uint16_t>(random.between(0, 1) << 15 | random.between(least, most) << 7 |
                               random.between(0, 127));
}

const Numbers kNumbers[] = {
    {"ordinary", [](Random& r) { return of_exponents(r, 120, 132); }},
    // Sums that lose parts of their terms, so that the order matters.
    {"of many sizes", [](Random& r) { return of_exponents(r, 100, 154); }},
    {"few, which cancel",
     [](Random& r) {
       return r.pick<uint16_t>({0x3F80, 0xBF80, 0x4000, 0xC000, 0x3B81, 0xBB81, 0, 0x8000});
     }},
    {"products that vanish", [](Random& r) { return of_exponents(r, 50, 72); }},
    // Sums just above and just below the least normal number.
    {"products near the least normal", [](Random& r) { return of_exponents(r, 62, 65); }},
    {"few, whose sums are nearly the least normal",  // 2^-63, 2^-87, 1.5 2^-88
     [](Random& r) {
       return r.pick<uint16_t>({0x2000, 0xA000, 0x1400, 0x9400, 0x13C0, 0x93C0, 0, 0x8000});
     }},
    {"products that overflow", [](Random& r) { return of_exponents(r, 186, 194); }},
    // The large factors show an instruction that does not read denormal numbers as 0.
    {"denormal and huge",
     [](Random& r) { return r.chance(0.5) ? of_exponents(r, 0, 0) : of_exponents(r, 230, 245); }},
    {"denormal and ordinary",
     [](Random& r) { return r.chance(0.5) ? of_exponents(r, 0, 1) : of_exponents(r, 120, 130); }},
    {"any bits", [](Random& r) { return static_cast<uint16_t>(r.next() >> 48); }},
    {"rarely infinite or NaN",
     [](Random& r) {
       return r.chance(0.004) ? r.pick<uint16_t>({0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81})
                              : of_exponents(r, 120, 130);
     }},
    {"infinite, 0 or ordinary",
     [](Random& r) {
       return r.chance(0.01) ? r.pick<uint16_t>({0x7F80, 0xFF80, 0, 0x8000, 1, 0x8001})
                             : of_exponents(r, 120, 130);
     }},
};

Image tile_of(const Numbers& numbers, Random& random) {
  Image tile(at(kWords));
  for (uint32_t& pair : tile) {
    pair = numbers.bf16(random);
    pair |= uint32_t{numbers.bf16(random)} << 16;
  }
  return tile;
}

// Sums of C: f32 numbers whose upper half is drawn like bf16. Some are denormal for every
// distribution.
Image sums_like(const Numbers& numbers, Random& random) {
  Image tile(at(kWords));
  for (uint32_t& x : tile) {
    x = uint32_t{numbers.bf16(random)} << 16 | static_cast<uint32_t>(random.next() >> 48);
    if (random.chance(0.05)) x &= 0x807FFFFF;
  }
  return tile;
}

// Returns C after C += A B for each pair (A, B) that follows C in `tiles`.
Image sum_of_products(const TileWords& words, int c, int a, int b,
                      const std::vector<Image>& tiles) {
  Image result(at(kWords));
  const ShapedTiles shaped(words);
  words.load[c](tiles[0].data(), 64);
  for (size_t i = 1; i + 1 < tiles.size(); i += 2) {
    words.load[a](tiles[i].data(), 64);
    words.stream[b](tiles[i + 1].data(), 64);
    words.multiply[c][a][b]();
  }
  words.store[c](result.data(), 64);
  return result;
}

TEST_F(TileWordsTest, Products) {
  for (const Numbers& numbers : kNumbers) {
    Random random(3);
    for (int i = 0; i < 300; ++i) {
      const std::vector<Image> tiles = {i % 3 == 0 ? Image(at(kWords)) : sums_like(numbers, random),
                                        tile_of(numbers, random), tile_of(numbers, random)};
      const auto program = [&](const TileWords& words) {
        return sum_of_products(words, 0, 1, 2, tiles);
      };
      ASSERT_EQ(compared(true, program), "") << "numbers " << numbers.name << ", number " << i;
    }
  }
}

TEST_F(TileWordsTest, ManyProductsIntoOneSum) {
  for (const Numbers& numbers : kNumbers) {
    Random random(4);
    for (int i = 0; i < 20; ++i) {
      std::vector<Image> tiles = {sums_like(numbers, random)};
      for (int64_t k = 2 * random.between(2, 9); k > 0; --k)
        tiles.push_back(tile_of(numbers, random));
      const auto program = [&](const TileWords& words) {
        return sum_of_products(words, 7, 6, 5, tiles);
      };
      ASSERT_EQ(compared(true, program), "") << "numbers " << numbers.name << ", number " << i;
    }
  }
}

// Tests each register in each place; the other registers must stay unchanged.
TEST_F(TileWordsTest, AnyRegisters) {
  Random random(5);
  for (int c = 0; c < 8; ++c) {
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < 8; ++b) {
        if (!instructions().multiply[c][a][b]) continue;
        std::vector<Image> tiles;
        for (int t = 0; t < 8; ++t) tiles.push_back(tile_of(kNumbers[0], random));
        const auto program = [&](const TileWords& words) {
          Image result(at(8 * kWords));
          const ShapedTiles shaped(words);
          for (int t = 0; t < 8; ++t) words.load[t](tiles[at(t)].data(), 64);
          words.multiply[c][a][b]();
          for (int t = 0; t < 8; ++t) words.store[t](result.data() + t * kWords, 64);
          return result;
        };
        ASSERT_EQ(compared(true, program), "") << c << a << b;
      }
    }
  }
}

// ---- Sums worked out by hand ----

// C[0][0] after multiplying row 0 of A by column 0 of B; the rest of A and B is 0.
struct Pairs {
  std::vector<float> a, b;
  float c = 0;
};
uint32_t bf16_of(float x) { return std::bit_cast<uint32_t>(x) >> 16; }
void expect_sum(const Pairs& pairs, float expected, const char* what) {
  std::vector<Image> tiles(3, Image(at(kWords)));
  tiles[0][0] = std::bit_cast<uint32_t>(pairs.c);
  for (size_t i = 0; i < pairs.a.size(); ++i) {
    tiles[1][i / 2] |= bf16_of(pairs.a[i]) << i % 2 * 16;
    tiles[2][i / 2 * 16] |= bf16_of(pairs.b[i]) << i % 2 * 16;
  }
  for (const TileWords* words : {&instructions(), &emulation()}) {
    const Image sums = sum_of_products(*words, 0, 1, 2, tiles);
    EXPECT_EQ(difference({sums[0]}, {std::bit_cast<uint32_t>(expected)}, true), "")
        << what << (words == &emulation() ? ", emulated" : "");
  }
}

TEST_F(TileWordsTest, EvenAndOddAreSummedApart) {
  // Each 1 alone would be lost beside 2^24; the sum of sixteen is not.
  std::vector<float> a(32, 1.0f), b(32, 1.0f);
  for (size_t i = 0; i < 32; i += 2) a[i] = i == 0 ? 0x1p24f : 0;
  expect_sum({a, b}, 0x1p24f + 16, "odd beside even");
  // Within each sum the order matters: 1 is lost after 2^24 is added, and kept after 2^24 has
  // cancelled.
  expect_sum({{0x1p24f, 0, 1, 0, -0x1p24f, 0}, {1, 1, 1, 1, 1, 1}}, 0, "lost");
  expect_sum({{0x1p24f, 0, -0x1p24f, 0, 1, 0}, {1, 1, 1, 1, 1, 1}}, 1, "not lost");
  // The sums of a product begin at 0, and C is added at the end.
  expect_sum({{1, 1}, {1, 1}, 0x1p24f}, 0x1p24f + 2, "C last");
  expect_sum({{0x1p24f, 1}, {1, 1}, -0x1p24f}, 0, "C last, lost");
}

// A product of two bf16 fits f32 except for its exponent. Only the exponent of the sum can
// overflow.
TEST_F(TileWordsTest, ProductsAreFused) {
  expect_sum({{-0x1.8p64f, 0, 0x1p64f, 0}, {0x1p63f, 0, 0x1p64f, 0}}, 0x1p126f, "no overflow");
  expect_sum({{0x1p64f, 0, -0x1.8p64f, 0}, {0x1p64f, 0, 0x1p63f, 0}}, INFINITY, "overflow");
  expect_sum({{0x1p24f, 0, 1, 0}, {1, 0, 1, 0}}, 0x1p24f, "half an ulp, down to even");
  expect_sum({{0x1p24f, 0, 1, 0}, {1, 0, 3, 0}}, 0x1p24f + 4, "half an ulp, up to even");
}

TEST_F(TileWordsTest, DenormalNumbersAreZero) {
  const float least = 0x1p-126f, denormal = 0x1p-127f;
  expect_sum({{denormal, 0}, {0x1p100f, 0}}, 0, "in A");
  expect_sum({{0x1p100f, 0}, {denormal, 0}}, 0, "in B");
  expect_sum({{1, 0}, {least, 0}, denormal}, least, "in C");
  expect_sum({{}, {}, denormal}, 0, "in C alone");
  expect_sum({{}, {}, -denormal}, 0, "in C alone");
  expect_sum({{0x1p-100f, 0, 1, 0}, {0x1p-27f, 0, least, 0}}, least, "a product");
  expect_sum({{0x1p-100f, 0x1p-100f}, {0x1p-27f, 0x1p-27f}}, 0, "both sums");
  expect_sum({{1, -1}, {0x1.8p-126f, least}}, 0, "the sum of both");
  expect_sum({{1, 0}, {-0x1.8p-126f, 0}, least}, -0.0f, "the sum with C");
  expect_sum({{denormal, 0}, {INFINITY, 0}}, NAN, "0 times infinity");
}

// A result counts as denormal after rounding to 24 bits. So numbers within 2^-151 of the least
// normal number become that number.
TEST_F(TileWordsTest, NearlyDenormal) {
  const float least = 0x1p-126f;
  expect_sum({{0x1p-63f, 0, -0x1p-76f, 0}, {0x1p-63f, 0, 0x1p-76f, 0}}, least, "2^-152 less");
  expect_sum({{0x1p-63f, 0, -0x1p-75f, 0}, {0x1p-63f, 0, 0x1p-76f, 0}}, least, "2^-151 less");
  expect_sum({{0x1p-63f, 0, -0x1.8p-75f, 0}, {0x1p-63f, 0, 0x1p-76f, 0}}, 0, "1.5 2^-151 less");
  expect_sum({{0x1p-63f, 0, -0x1p-75f, 0}, {0x1p-63f, 0, 0x1p-75f, 0}}, 0, "2^-150 less");
  expect_sum({{-0x1p-63f, 0, 0x1p-75f, 0}, {0x1p-63f, 0, 0x1p-75f, 0}, -0.0f}, 0, "negative");
}

TEST_F(TileWordsTest, SignsOfZero) {
  expect_sum({{-0.0f, 0}, {1, 0}, -0.0f}, 0, "C alone");
  expect_sum({{-1, -1}, {0x1p-126f, 0x1p-126f}, 0x1p-125f}, 0, "a difference");
}

// ---- Shapes ----

TEST_F(TileWordsTest, ShapesNest) {
  Random random(6);
  std::vector<Image> tiles;
  for (int i = 0; i < 7; ++i) tiles.push_back(tile_of(kNumbers[0], random));
  const auto program = [&](const TileWords& words) {
    const auto product = [&](size_t first, Image& all) {
      Image result(at(kWords));
      words.zero[4]();
      words.load[5](tiles[first].data(), 64);
      words.load[6](tiles[first + 1].data(), 64);
      words.multiply[4][5][6]();
      words.store[4](result.data(), 64);
      all.insert(all.end(), result.begin(), result.end());
    };
    Image all;
    const ShapedTiles outer(words);
    product(0, all);
    {
      const ShapedTiles inner(words);
      product(1, all);
      {
        const ShapedTiles innermost(words);
        product(2, all);
      }
      product(3, all);
    }
    product(4, all);
    {
      const ShapedTiles inner(words);
      product(5, all);
    }
    return all;
  };
  EXPECT_EQ(compared(true, program), "");
  EXPECT_EQ(compared(true, program), "");  // again, from the initial state
}

TEST_F(TileWordsTest, ShapesEmptyTheRegisters) {
  Random random(7);
  const Image source = random_bits(random, kWords);
  const auto program = [&](const TileWords& words) {
    Image all(at(16 * kWords), 7);
    const ShapedTiles outer(words);
    const auto load = [&] {
      for (int t = 0; t < 8; ++t) words.load[t](source.data(), 64);
    };
    const auto store = [&](int64_t first) {
      for (int t = 0; t < 8; ++t) words.store[t](all.data() + (first + t) * kWords, 64);
    };
    load();
    {
      const ShapedTiles inner(words);
      store(0);
      load();
    }
    store(8);
    return all;
  };
  EXPECT_EQ(compared(false, program), "");
  EXPECT_EQ(program(emulation()), Image(at(16 * kWords)));
}

using TileWordsDeathTest = TileTest;

TEST_F(TileWordsDeathTest, WordsNeedShapes) {
  Image tile(at(kWords));
  for (const TileWords* words : {&instructions(), &emulation()}) {
    for (int i = 0; i < 2; ++i) {
      RAPT_EXPECT_REFUSED(words->zero[0]());
      RAPT_EXPECT_REFUSED(words->load[1](tile.data(), 64));
      RAPT_EXPECT_REFUSED(words->stream[1](tile.data(), 64));
      RAPT_EXPECT_REFUSED(words->store[1](tile.data(), 64));
      RAPT_EXPECT_REFUSED(words->multiply[0][1][2]());
      const ShapedTiles shaped(*words);  // the second round tests words after its end
      { const ShapedTiles inner(*words); }
      words->zero[0]();
    }
  }
}

}  // namespace
}  // namespace rapt
