#pragma once
// Base of the tests of tile registers: runs the instructions, by the machine or by the trap, and
// compares them with the emulation.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "check/tensors/random.h"
#include "kernels/tile_trap.h"
#include "kernels/tile_words_shim.h"

namespace rapt {

using check::Random;

class TileTest : public testing::Test {
 protected:
  // The emulation is compiled for FMA, which makes it fast. The trap needs AVX2 too.
  void SetUp() override {
    if (!cpu_has("avx2")) GTEST_SKIP() << "this machine has no FMA";
    [[maybe_unused]] static const int said =
        std::printf("[ tiles    ] %s\n", cpu_has("amx") ? "of the machine" : "of the trap");
    install_tile_trap();
  }
};

inline const TileWords& instructions() {
  static const TileWords words = isa_tile_instructions::tile_words();
  return words;
}
inline const TileWords& emulation() {
  static const TileWords words = isa_tile_emulation::tile_words();
  return words;
}

// Memory as 32-bit words, for comparisons.
using Image = std::vector<uint32_t>;

inline size_t at(int64_t index) { return static_cast<size_t>(index); }

inline Image random_bits(Random& random, int64_t count) {
  Image image(at(count));
  for (uint32_t& x : image) x = static_cast<uint32_t>(random.next() >> 32);
  return image;
}

// Describes the first difference and counts all. With `numbers`, all NaN are equal.
inline std::string difference(const Image& x, const Image& y, bool numbers) {
  if (x.size() != y.size()) return "of different lengths";
  size_t count = 0, first = 0;
  for (size_t i = x.size(); i-- > 0;) {
    if (x[i] == y[i]) continue;
    if (numbers && std::isnan(std::bit_cast<float>(x[i])) && std::isnan(std::bit_cast<float>(y[i])))
      continue;
    ++count;
    first = i;
  }
  if (count == 0) return "";
  char text[160];
  std::snprintf(text, sizeof text, "%zu of %zu differ; [%zu]: %08x (%g) and %08x (%g)", count,
                x.size(), first, x[first], std::bit_cast<float>(x[first]), y[first],
                std::bit_cast<float>(y[first]));
  return text;
}

// Runs `program(words)`, which returns an Image, by instructions and by emulation.
template <class Program>
std::string compared(bool numbers, const Program& program) {
  const Image real = program(instructions()), emulated = program(emulation());
  return difference(real, emulated, numbers);
}

// Whether a statement ended the process by SIGILL or SIGSEGV. Sanitizers catch these signals and
// exit with a report instead.
inline bool refused(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGSEGV;
  return WIFEXITED(status) && WEXITSTATUS(status) != 0;
}
#define RAPT_EXPECT_REFUSED(statement) \
  EXPECT_EXIT(({                       \
                statement;             \
                std::_Exit(0);         \
              }),                      \
              refused, "")             \
      << #statement

// Configures the tile registers of this thread for the length of a block.
class ShapedTiles {
 public:
  explicit ShapedTiles(const TileWords& words) : words_(words) { words_.shape(before_); }
  ~ShapedTiles() { words_.restore(before_); }
  ShapedTiles(const ShapedTiles&) = delete;
  ShapedTiles& operator=(const ShapedTiles&) = delete;

 private:
  const TileWords& words_;
  KeptShapes before_;
};

}  // namespace rapt
