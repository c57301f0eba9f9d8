// Decodes the instructions of tile registers from their bytes and executes them.
#include "kernels/tile_trap.h"

#include <immintrin.h>
#include <ucontext.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace rapt {
namespace {

constexpr unsigned kTiles = 8, kRows = 16, kRowBytes = 64;

using TileRows = uint8_t[kRows][kRowBytes];

// The tile registers of a thread. Bytes of a tile outside its shape are 0.
struct TileState {
  uint8_t config[64];  // as STTILECFG writes it: zeros before LDTILECFG and after TILERELEASE
  alignas(64) TileRows tiles[kTiles];

  bool configured() const { return config[0] != 0; }
  unsigned row_bytes(unsigned tile) const { return config[16 + 2 * tile]; }
  unsigned rows(unsigned tile) const { return config[48 + tile]; }
  bool usable(unsigned tile) const {
    return configured() && rows(tile) != 0 && row_bytes(tile) % 4 == 0;
  }
};
thread_local constinit TileState state = {};

bool is_zero(const uint8_t* bytes, size_t count) {
  return std::all_of(bytes, bytes + count, [](uint8_t x) { return x == 0; });
}

bool load_config(const void* memory) {
  uint8_t config[64];
  std::memcpy(config, memory, sizeof config);
  if (config[0] == 0) {
    state = {};
    return true;
  }
  // A start row other than 0 resumes an instruction that an interrupt broke off; the trap has no
  // such state.
  if (config[0] != 1 || config[1] != 0 || !is_zero(config + 2, 14) || !is_zero(config + 32, 16) ||
      !is_zero(config + 56, 8))
    return false;
  for (unsigned tile = 0; tile < kTiles; ++tile) {
    const unsigned row_bytes = config[16 + 2 * tile], high = config[17 + 2 * tile];
    const unsigned rows = config[48 + tile];
    if (high != 0 || row_bytes > kRowBytes || rows > kRows || (rows == 0) != (row_bytes == 0))
      return false;
  }
  state = {};
  std::memcpy(state.config, config, sizeof config);
  return true;
}

void load_tile(unsigned tile, const char* memory, int64_t stride) {
  for (unsigned r = 0; r < state.rows(tile); ++r)
    std::memcpy(state.tiles[tile][r], memory + r * stride, state.row_bytes(tile));
}

void store_tile(unsigned tile, char* memory, int64_t stride) {
  for (unsigned r = 0; r < state.rows(tile); ++r)
    std::memcpy(memory + r * stride, state.tiles[tile][r], state.row_bytes(tile));
}

// Sets MXCSR. The kernel restores the thread's own when the handler returns. The "memory" clobber
// keeps floating-point operations from moving across.
void set_float_mode(uint32_t mode) { asm volatile("ldmxcsr %0" : : "m"(mode) : "memory"); }

// The manual says "DAZ=FTZ=1, RNE rounding"; the CPU's own bits for these are set.
__attribute__((target("avx2,fma"), noinline)) void multiply(TileRows& c, const TileRows& a,
                                                            const TileRows& b, unsigned rows,
                                                            unsigned steps, unsigned row_bytes) {
  constexpr uint32_t kAllMasked = 0x1F80, kFlushToZero = 0x8000, kDenormalsAreZeros = 0x0040;
  set_float_mode(kAllMasked | kFlushToZero | kDenormalsAreZeros);
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000));
  for (unsigned m = 0; m < rows; ++m) {
    __m256 even[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 odd[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (unsigned k = 0; k < steps; ++k) {
      int pair;
      std::memcpy(&pair, &a[m][4 * k], sizeof pair);
      const __m256i pairs = _mm256_set1_epi32(pair);
      const __m256 a_even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
      const __m256 a_odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
      for (unsigned half = 0; half < 2; ++half) {
        const __m256i row = _mm256_load_si256(reinterpret_cast<const __m256i*>(&b[k][32 * half]));
        const __m256 b_even = _mm256_castsi256_ps(_mm256_slli_epi32(row, 16));
        const __m256 b_odd = _mm256_castsi256_ps(_mm256_and_si256(row, upper));
        even[half] = _mm256_fmadd_ps(a_even, b_even, even[half]);
        odd[half] = _mm256_fmadd_ps(a_odd, b_odd, odd[half]);
      }
    }
    float sums[16], row[16];
    std::memcpy(row, c[m], sizeof row);
    for (unsigned half = 0; half < 2; ++half)
      _mm256_storeu_ps(sums + 8 * half, _mm256_add_ps(_mm256_loadu_ps(row + 8 * half),
                                                      _mm256_add_ps(even[half], odd[half])));
    std::memcpy(c[m], sums, row_bytes);
  }
}

bool multiply(unsigned c, unsigned a, unsigned b) {
  if (c == a || c == b || a == b) return false;
  if (!state.usable(c) || !state.usable(a) || !state.usable(b)) return false;
  if (state.rows(c) != state.rows(a) || state.row_bytes(c) != state.row_bytes(b) ||
      state.row_bytes(a) != 4 * state.rows(b))
    return false;
  multiply(state.tiles[c], state.tiles[a], state.tiles[b], state.rows(c), state.rows(b),
           state.row_bytes(c));
  return true;
}

// Reads the bytes of an instruction. It reads a byte only when the bytes before it say that the
// byte exists, because the page after a function may be missing.
class Code {
 public:
  explicit Code(greg_t address) : at_(reinterpret_cast<const uint8_t*>(address)) {}
  unsigned byte() { return *at_++; }
  int64_t displacement(unsigned bytes) {
    int8_t near;
    int32_t far;
    if (bytes == 1) return std::memcpy(&near, take(1), 1), near;
    if (bytes == 4) return std::memcpy(&far, take(4), 4), far;
    return 0;
  }
  greg_t address() const { return reinterpret_cast<greg_t>(at_); }

 private:
  const uint8_t* take(unsigned bytes) { return (at_ += bytes) - bytes; }
  const uint8_t* at_;
};

// The value of a register by its number in instructions.
greg_t number(const greg_t* registers, unsigned index) {
  constexpr int kPlace[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  static_assert(std::size(kPlace) == 16);
  return registers[kPlace[index]];
}

// An address in memory. The scaled index is kept apart, because instructions that move tiles use it
// as the stride.
struct Place {
  int64_t base = 0, index = 0;
  bool has_index = false;

  char* address() const { return reinterpret_cast<char*>(base); }
};

// Decodes what follows ModRM. `base_high` and `index_high` are 8 if the VEX prefix extends the
// register, else 0.
Place place_of(Code& code, unsigned modrm, unsigned base_high, unsigned index_high,
               const greg_t* registers) {
  constexpr unsigned kSib = 4, kNoBase = 5, kNoIndex = 4;
  const unsigned mode = modrm >> 6, rm = modrm & 7;
  const unsigned displacement = mode == 0 ? 0 : mode == 1 ? 1 : 4;
  Place place;
  if (rm == kSib) {
    const unsigned sib = code.byte();
    const unsigned index = (sib >> 3 & 7) + index_high;
    if (index != kNoIndex) {
      place.index = number(registers, index) << (sib >> 6);
      place.has_index = true;
    }
    if ((sib & 7) == kNoBase && mode == 0) {
      place.base = code.displacement(4);
    } else {
      place.base = number(registers, (sib & 7) + base_high);
      place.base += code.displacement(displacement);
    }
  } else if (rm == kNoBase && mode == 0) {  // relative to the end of the instruction
    place.base = code.displacement(4);
    place.base += code.address();
  } else {
    place.base = number(registers, rm + base_high);
    place.base += code.displacement(displacement);
  }
  return place;
}

enum Prefix : unsigned { kNone, k66, kF3, kF2 };

// The instructions of opcode 49: they load or store a configuration, or set a tile to zero.
bool configure(Prefix prefix, unsigned modrm, const Place& place, bool extended) {
  const bool memory = modrm < 0xC0;
  const unsigned tile = modrm >> 3 & 7;
  if (memory) {
    if (tile != 0) return false;  // here the field is a part of the opcode
    char* config = place.address() + place.index;
    if (prefix == kNone) return load_config(config);
    if (prefix != k66) return false;
    std::memcpy(config, state.config, sizeof state.config);
    return true;
  }
  if (extended || (modrm & 7) != 0) return false;
  if (prefix == kNone && tile == 0) {
    state = {};
    return true;
  }
  if (prefix != kF2 || !state.usable(tile)) return false;
  std::memset(state.tiles[tile], 0, sizeof(TileRows));
  return true;
}

// The instructions of opcode 4B: they load or store a tile.
bool move_tile(Prefix prefix, unsigned tile, const Place& place) {
  if (!place.has_index || !state.usable(tile)) return false;
  if (prefix == kF2 || prefix == k66)
    load_tile(tile, place.address(), place.index);
  else if (prefix == kF3)
    store_tile(tile, place.address(), place.index);
  else
    return false;
  return true;
}

// Executes the next instruction. Returns false and changes nothing if it is another instruction or
// an invalid one.
bool do_instruction(greg_t* registers) {
  Code code(registers[REG_RIP]);
  if (code.byte() != 0xC4) return false;
  const unsigned escape = code.byte();  // R, X and B, each inverted; opcode map 0F38
  if ((escape & 0x9F) != 0x82) return false;
  const unsigned vex = code.byte();  // W = 0, four bits of a register, L = 0, prefix
  if (vex & 0x84) return false;
  const unsigned third = ~vex >> 3 & 15;
  const auto prefix = static_cast<Prefix>(vex & 3);
  const unsigned opcode = code.byte();
  if (opcode != 0x49 && opcode != 0x4B && opcode != 0x5C) return false;
  const unsigned modrm = code.byte(), tile = modrm >> 3 & 7;
  const unsigned base_high = escape & 0x20 ? 0 : 8, index_high = escape & 0x40 ? 0 : 8;
  const bool memory = modrm < 0xC0, extended = base_high + index_high != 0;
  const Place place = memory ? place_of(code, modrm, base_high, index_high, registers) : Place{};
  bool done = false;
  if (opcode == 0x5C)
    done =
        !memory && !extended && prefix == kF3 && third < kTiles && multiply(tile, modrm & 7, third);
  else if (third == 0)
    done = opcode == 0x49 ? configure(prefix, modrm, place, extended)
                          : memory && move_tile(prefix, tile, place);
  if (done) registers[REG_RIP] = code.address();
  return done;
}

struct sigaction before_trap;

void on_illegal_instruction(int signal, siginfo_t* info, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (do_instruction(registers)) {
    // These instructions come in groups, and a trap takes longer than most of them.
    while (do_instruction(registers)) {
    }
    return;
  }
  sigaction(SIGILL, &before_trap, nullptr);
  // An instruction raises the signal again when it is repeated. A signal sent by a process or
  // raise() does not repeat.
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

void install_tile_trap() {
  [[maybe_unused]] static const int installed = [] {
    struct sigaction trap = {};
    trap.sa_sigaction = on_illegal_instruction;
    trap.sa_flags = SA_SIGINFO;
    sigemptyset(&trap.sa_mask);
    return sigaction(SIGILL, &trap, &before_trap);
  }();
}

}  // namespace rapt
