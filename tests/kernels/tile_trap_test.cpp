// The trap must decode and reject instructions of tile registers correctly: with any operands that
// a compiler may choose, shapes that the words do not use, and several threads. On machines with
// AMX the real instructions pass the same tests.
#include "kernels/tile_trap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "kernels/tile_test.h"

namespace rapt {
namespace {

using TileTrapTest = TileTest;
using TileTrapDeathTest = TileTest;

// ---- Operands ----

// Runs an instruction with `place` and `step` in these registers. It first moves the stack pointer
// past the red zone, where the compiler may keep data.
#define RAPT_WITH(BASE, INDEX, INSTRUCTION)                                               \
  [](const void* place, int64_t step) {                                                   \
    asm volatile("lea -128(%%rsp), %%rsp\n push %%" BASE "\n push %%" INDEX               \
                 "\n push %0\n push %1\n pop %%" INDEX "\n pop %%" BASE "\n " INSTRUCTION \
                 "\n pop %%" INDEX "\n pop %%" BASE "\n lea 128(%%rsp), %%rsp"            \
                 :                                                                        \
                 : "r"(place), "r"(step)                                                  \
                 : "memory");                                                             \
  }

// All instructions with one kind of operand. Those that move tiles use tile 2.
struct Form {
  const char* name;
  int64_t displacement, scale;
  using Instruction = void (*)(const void* place, int64_t step);
  Instruction load, stream, store, load_config, store_config;
  Instruction load_plain_config, store_plain_config;  // with the same base, without an index
};

#define RAPT_TEXT(X) #X
#define RAPT_FORM(DISPLACEMENT, BASE, INDEX, SCALE)                                     \
  RAPT_FORM_OF(RAPT_TEXT(DISPLACEMENT) "(%%" BASE ")",                                  \
               RAPT_TEXT(DISPLACEMENT) "(%%" BASE ",%%" INDEX "," RAPT_TEXT(SCALE) ")", \
               DISPLACEMENT + 0, BASE, INDEX, SCALE)
#define RAPT_FORM_OF(PLAIN, OPERAND, DISPLACEMENT, BASE, INDEX, SCALE)                            \
  {                                                                                               \
    OPERAND, DISPLACEMENT, SCALE, RAPT_WITH(BASE, INDEX, "tileloadd " OPERAND ", %%tmm2"),        \
        RAPT_WITH(BASE, INDEX, "tileloaddt1 " OPERAND ", %%tmm2"),                                \
        RAPT_WITH(BASE, INDEX, "tilestored %%tmm2, " OPERAND),                                    \
        RAPT_WITH(BASE, INDEX, "ldtilecfg " OPERAND),                                             \
        RAPT_WITH(BASE, INDEX, "sttilecfg " OPERAND), RAPT_WITH(BASE, INDEX, "ldtilecfg " PLAIN), \
        RAPT_WITH(BASE, INDEX, "sttilecfg " PLAIN)                                                \
  }

// Each register as base and as index, with displacements of zero, one and four bytes.
const Form kForms[] = {
    RAPT_FORM(, "rax", "rbp", 1),    RAPT_FORM(8, "rcx", "rax", 2),
    RAPT_FORM(-64, "rdx", "rcx", 4), RAPT_FORM(4096, "rbx", "rdx", 8),
    RAPT_FORM(, "rbp", "rbx", 1),    RAPT_FORM(-132, "rsi", "rdi", 2),
    RAPT_FORM(127, "rdi", "rsi", 4), RAPT_FORM(128, "r8", "r9", 8),
    RAPT_FORM(-128, "r9", "r8", 1),  RAPT_FORM(, "r10", "r11", 2),
    RAPT_FORM(12, "r11", "r10", 4),  RAPT_FORM(, "r12", "r13", 8),
    RAPT_FORM(, "r13", "r12", 1),    RAPT_FORM(1000, "r14", "r15", 2),
    RAPT_FORM(, "r15", "r14", 4),    RAPT_FORM(70000, "r12", "rbp", 8),
    RAPT_FORM(1, "rbp", "r12", 1),   RAPT_FORM(-70000, "r13", "rax", 2),
};

TEST_F(TileTrapTest, AnyPlaceOfTiles) {
  Random random(1);
  for (const Form& form : kForms) {
    for (const int64_t stride : {64, 200, -128}) {
      const Image source = random_bits(random, 15 * 200 / 4 + 16);
      const int64_t start = stride < 0 ? -15 * stride : 0;
      const int64_t step = stride / form.scale;
      const auto* from = reinterpret_cast<const char*>(source.data()) + start - form.displacement;
      Image expected(256), loaded(256), streamed(256), stored(source.size()), by_word = stored;
      auto* to = reinterpret_cast<char*>(stored.data()) + start - form.displacement;
      const TileWords& words = instructions();
      const ShapedTiles shaped(words);
      words.load[5](from + form.displacement, stride);
      words.store[5](expected.data(), 64);
      words.store[5](reinterpret_cast<char*>(by_word.data()) + start, stride);
      form.load(from, step);
      form.store(to, step);
      words.store[2](loaded.data(), 64);
      words.zero[2]();
      form.stream(from, step);
      words.store[2](streamed.data(), 64);
      EXPECT_EQ(loaded, expected) << form.name;
      EXPECT_EQ(streamed, expected) << form.name;
      EXPECT_EQ(stored, by_word) << form.name;
    }
  }
}

// A configuration as LDTILECFG reads it.
struct alignas(64) Config {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};

  bool operator==(const Config&) const = default;
};
void load_config(const Config& config) { asm volatile("ldtilecfg %0" : : "m"(config) : "memory"); }
Config stored_config() {
  Config config;
  asm volatile("sttilecfg %0" : "=m"(config) : : "memory");
  return config;
}
void release() { asm volatile("tilerelease" : : : "memory"); }

Config odd_config() {
  Config config;
  for (int t = 0; t < 8; ++t) {
    config.rows[t] = static_cast<uint8_t>(t);
    config.row_bytes[t] = static_cast<uint16_t>(t == 0 ? 0 : 4 * (9 - t));
  }
  return config;
}

TEST_F(TileTrapTest, AnyPlaceOfConfigurations) {
  Config configs[2] = {odd_config(), {}};
  for (const Form& form : kForms) {
    const auto place = [&](Config& config) {
      return reinterpret_cast<char*>(&config) - form.displacement - 24 * form.scale;
    };
    release();
    form.load_config(place(configs[0]), 24);
    form.store_config(place(configs[1]), 24);
    EXPECT_EQ(configs[1], configs[0]) << form.name;
    EXPECT_EQ(stored_config(), configs[0]) << form.name;
    configs[1] = {};
  }
  for (const Form& form : kForms) {
    const auto place = [&](Config& config) {
      return reinterpret_cast<char*>(&config) - form.displacement;
    };
    release();
    form.load_plain_config(place(configs[0]), 0);
    form.store_plain_config(place(configs[1]), 0);
    EXPECT_EQ(configs[1], configs[0]) << form.name << " without index";
    configs[1] = {};
  }
  static Config fixed;  // addressed relative to the instruction
  asm volatile("sttilecfg %0" : "=m"(fixed) : : "memory");
  EXPECT_EQ(fixed, odd_config());
  release();
  asm volatile("ldtilecfg %0" : : "m"(fixed) : "memory");
  EXPECT_EQ(stored_config(), odd_config());
  asm volatile(
      "sub $512, %%rsp\n sttilecfg 64(%%rsp)\n sttilecfg 256(%%rsp)\n tilerelease\n"
      "ldtilecfg 64(%%rsp)\n tilerelease\n ldtilecfg 256(%%rsp)\n add $512, %%rsp"
      :
      :
      : "memory", "cc");
  EXPECT_EQ(stored_config(), odd_config());
  release();
}

// ---- Configurations ----

TEST_F(TileTrapTest, RestoresConfigurations) {
  const auto nothing = std::bit_cast<Config>(std::array<uint8_t, sizeof(Config)>{});
  const TileWords& words = instructions();
  release();
  release();
  EXPECT_EQ(stored_config(), nothing);
  {
    const ShapedTiles shaped(words);
    EXPECT_EQ(stored_config(), Config());
  }
  EXPECT_EQ(stored_config(), nothing);

  load_config(odd_config());
  {
    const ShapedTiles shaped(words);
    EXPECT_EQ(stored_config(), Config());
    const ShapedTiles inner(words);
    EXPECT_EQ(stored_config(), Config());
  }
  EXPECT_EQ(stored_config(), odd_config());
  load_config(nothing);
  EXPECT_EQ(stored_config(), nothing);
}

// Loading a configuration empties the registers, so nested code loses their contents.
TEST_F(TileTrapTest, ConfigurationsEmptyTheRegisters) {
  Random random(2);
  const Image source = random_bits(random, 256);
  const TileWords& words = instructions();
  const ShapedTiles shaped(words);
  Image result = source;
  for (int t = 0; t < 8; ++t) words.load[t](source.data(), 64);
  { const ShapedTiles inner(words); }
  for (int t = 0; t < 8; ++t) {
    words.store[t](result.data(), 64);
    EXPECT_EQ(result, Image(256)) << t;
  }
}

// Small shapes give the results of full shapes padded with zeros.
TEST_F(TileTrapTest, SmallShapes) {
  Random random(3);
  const auto number = [&] {
    return static_cast<uint32_t>(random.between(0, 1) << 15 | random.between(120, 132) << 7 |
                                 random.between(0, 127));
  };
  for (int i = 0; i < 200; ++i) {
    const int64_t rows = random.between(1, 16), steps = random.between(1, 16),
                  columns = random.between(1, 16);
    Image c(256), a(256), b(256);
    for (int64_t k = 0; k < 16; ++k)
      for (int64_t n = 0; n < 16; ++n) {
        if (k < rows && n < columns) c[at(16 * k + n)] = number() << 16;
        if (k < rows && n < steps) a[at(16 * k + n)] = number() << 16 | number();
        if (k < steps && n < columns) b[at(16 * k + n)] = number() << 16 | number();
      }
    Image expected(256), result(256, 7);
    {
      const ShapedTiles shaped(emulation());
      emulation().load[1](c.data(), 64);
      emulation().load[2](a.data(), 64);
      emulation().load[3](b.data(), 64);
      emulation().multiply[1][2][3]();
      emulation().store[1](expected.data(), 64);
    }
    for (int64_t m = 0; m < 16; ++m)
      for (int64_t n = 0; n < 16; ++n)
        if (m >= rows || n >= columns) expected[at(16 * m + n)] = 7;  // is not stored
    // Nothing outside the shape is loaded: an infinity there would show in the result.
    for (Image* x : {&c, &a, &b})
      for (uint32_t& pair : *x)
        if (pair == 0) pair = 0x7F807F80;

    Config config;
    config.rows[1] = config.rows[2] = static_cast<uint8_t>(rows);
    config.rows[3] = static_cast<uint8_t>(steps);
    config.row_bytes[1] = config.row_bytes[3] = static_cast<uint16_t>(4 * columns);
    config.row_bytes[2] = static_cast<uint16_t>(4 * steps);
    load_config(config);
    instructions().load[1](c.data(), 64);
    instructions().load[2](a.data(), 64);
    instructions().load[3](b.data(), 64);
    instructions().multiply[1][2][3]();
    instructions().store[1](result.data(), 64);
    release();
    ASSERT_EQ(difference(result, expected, true), "") << rows << " " << steps << " " << columns;
  }
}

// An instruction touches no byte outside its tile; that byte may lie on a missing page.
TEST_F(TileTrapTest, SmallShapesAtTheEndOfMemory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  Config config;
  config.rows[0] = config.rows[1] = 3;
  config.row_bytes[0] = config.row_bytes[1] = 20;
  load_config(config);
  char* tile = static_cast<char*>(pages) + page - (2 * 64 + 20);
  instructions().load[0](tile, 64);
  instructions().stream[1](tile, 64);
  instructions().store[0](tile, 64);
  release();
  munmap(pages, 2 * page);
}

// The thread's MXCSR has no effect on the result and keeps its value.
TEST_F(TileTrapTest, RoundsToNearestInAnyMode) {
  Random random(4);
  Image a(256), b(256), expected(256), result(256);
  for (Image* x : {&a, &b})
    for (uint32_t& pair : *x)
      pair = (static_cast<uint32_t>(random.next()) & 0x87FF87FF) + 0x3C003C00;
  const auto product = [&](Image& sums) {
    const TileWords& words = instructions();
    const ShapedTiles shaped(words);
    words.zero[0]();
    words.load[1](a.data(), 64);
    words.load[2](b.data(), 64);
    words.multiply[0][1][2]();
    words.store[0](sums.data(), 64);
  };
  product(expected);
  uint32_t before, upward, after;
  asm volatile("stmxcsr %0" : "=m"(before) : : "memory");
  upward = before | 0x4000;
  asm volatile("ldmxcsr %0" : : "m"(upward) : "memory");
  product(result);
  asm volatile("stmxcsr %0" : "=m"(after) : : "memory");
  asm volatile("ldmxcsr %0" : : "m"(before) : "memory");
  EXPECT_EQ(result, expected);
  EXPECT_EQ(after, upward);
}

TEST_F(TileTrapTest, EachThreadHasItsOwn) {
  std::array<std::string, 4> differences;
  std::array<std::thread, 4> threads;
  for (size_t t = 0; t < 4; ++t)
    threads[t] = std::thread([&differences, t] {
      Random random(10 + t);
      const TileWords& words = instructions();
      for (int i = 0; i < 50; ++i) {
        const ShapedTiles shaped(words);
        std::array<Image, 8> images;
        Image result(256);
        for (size_t n = 0; n < 8; ++n) {
          images[n] = random_bits(random, 256);
          words.load[n](images[n].data(), 64);
        }
        std::this_thread::yield();
        for (size_t n = 0; n < 8; ++n) {
          words.store[n](result.data(), 64);
          differences[t] += difference(result, images[n], false);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& x : differences) EXPECT_EQ(x, "");
}

// ---- Rejected instructions ----

TEST_F(TileTrapDeathTest, TilesThatAreNotConfigured) {
  release();
  Image tile(256);
  const TileWords& words = instructions();
  RAPT_EXPECT_REFUSED(words.zero[0]());
  RAPT_EXPECT_REFUSED(words.load[1](tile.data(), 64));
  RAPT_EXPECT_REFUSED(words.stream[1](tile.data(), 64));
  RAPT_EXPECT_REFUSED(words.store[1](tile.data(), 64));
  RAPT_EXPECT_REFUSED(words.multiply[0][1][2]());
  {
    const ShapedTiles shaped(words);
    words.zero[0]();
  }
  RAPT_EXPECT_REFUSED(words.zero[0]());
  Config config;
  config.rows[3] = 0;
  config.row_bytes[3] = 0;
  load_config(config);
  words.zero[2]();
  RAPT_EXPECT_REFUSED(words.zero[3]());
  RAPT_EXPECT_REFUSED(words.multiply[0][1][3]());
  release();
}

TEST_F(TileTrapDeathTest, ProductsOfWrongShapes) {
  const auto refuses = [](int tile, int rows, int row_bytes) {
    Config config;
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
    load_config(config);
    RAPT_EXPECT_REFUSED(instructions().multiply[0][1][2]());
  };
  for (const int tile : {0, 1, 2}) {
    refuses(tile, 15, 64);
    refuses(tile, 16, 60);
    refuses(tile, 16, 62);
  }
  Config uneven;
  uneven.row_bytes[0] = uneven.row_bytes[2] = 62;
  load_config(uneven);
  RAPT_EXPECT_REFUSED(instructions().multiply[0][1][2]());
  Image tile(256);
  RAPT_EXPECT_REFUSED(instructions().load[0](tile.data(), 64));
  RAPT_EXPECT_REFUSED(instructions().store[0](tile.data(), 64));
  load_config({});
  instructions().multiply[0][1][2]();
  // Tiles 0, 1, 1; 0, 0, 1; and 0, 1, 0. Assemblers reject these too, hence the bytes.
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC1"));
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC0"));
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xE2, 0x7A, 0x5C, 0xC1"));
  release();
}

TEST_F(TileTrapDeathTest, WrongConfigurations) {
  const auto refuses = [](auto change) {
    Config config;
    change(config);
    RAPT_EXPECT_REFUSED(load_config(config));
  };
  refuses([](Config& x) { x.palette = 2; });
  refuses([](Config& x) { x.reserved[13] = 1; });
  refuses([](Config& x) { x.row_bytes[8] = 64; });
  refuses([](Config& x) { x.row_bytes[7] = 65; });
  refuses([](Config& x) { x.row_bytes[0] = 256 + 64; });
  refuses([](Config& x) { x.row_bytes[0] = 0; });
  refuses([](Config& x) { x.rows[7] = 17; });
  refuses([](Config& x) { x.rows[7] = 0; });
  refuses([](Config& x) { x.rows[8] = 1; });
}

TEST_F(TileTrapDeathTest, OtherInstructionsAndSignals) {
  const ShapedTiles shaped(instructions());
  RAPT_EXPECT_REFUSED(asm volatile("ud2"));
  RAPT_EXPECT_REFUSED(asm volatile("tilezero %tmm0\n ud2"));
  RAPT_EXPECT_REFUSED(raise(SIGILL));
  // TDPBF16PS with a bit of VEX that must not be set: W, L, R, X, B, the fourth bit of the
  // register.
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xE2, 0xEA, 0x5C, 0xC1"));
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xE2, 0x6E, 0x5C, 0xC1"));
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0x62, 0x6A, 0x5C, 0xC1"));
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xC2, 0x6A, 0x5C, 0xC1"));
  RAPT_EXPECT_REFUSED(asm volatile(".byte 0xC4, 0xE2, 0x2A, 0x5C, 0xC1"));
}

}  // namespace
}  // namespace rapt
