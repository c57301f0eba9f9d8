#pragma once
// What tests of tile registers share: instructions that run, of the machine or by the trap, and
// comparisons with the emulation.
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
  // The emulation is compiled for FMA, with which it is fast, and the trap needs AVX2, too.
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

// Memory as tests look at it: words of 32 bits.
using Image = std::vector<uint32_t>;

inline size_t at(int64_t index) { return static_cast<size_t>(index); }

inline Image random_bits(Random& random, int64_t count) {
  Image image(at(count));
  for (uint32_t& x : image) x = static_cast<uint32_t>(random.next() >> 32);
  return image;
}

// The first difference, and how many there are. `numbers`: one NaN is as good as another.
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

// Runs `program(words)`, which returns an Image, in both ways.
template <class Program>
std::string compared(bool numbers, const Program& program) {
  const Image real = program(instructions()), emulated = program(emulation());
  return difference(real, emulated, numbers);
}

// A statement that ends the process: by the signal itself, which sanitizers report on their own.
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

// The registers of a thread, for the length of a block.
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
