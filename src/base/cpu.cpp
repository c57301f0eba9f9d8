// What the CPU and the operating system support, and how large the caches are.
#include "base/cpu.h"

#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include <cerrno>
#include <cstring>

#include "rapt/instruction_sets.h"

namespace rapt {
namespace {

#if defined(__x86_64__)
// Conversions between float and Float16. Their name is not known to clang 14's
// __builtin_cpu_supports. They need the ymm registers, which its "avx2" asks the system for.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool has_avx512_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
}

// Tile registers and their product of bf16.
bool cpu_has_tiles() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & (kBf16 | kTile)) == (kBf16 | kTile);
}

// XCR0 tells.
bool system_saves_tiles() {
  constexpr unsigned kXsave = 1u << 27, kTileState = 3u << 17;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kXsave)) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}

// Linux gives a process the 8 KiB of tile data when it asks (since 5.16). 0: granted, else the
// error number.
int ask_for_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

// Asked once.
const TileSupport& tile_support() {
  static const TileSupport support = [] {
    TileSupport tiles;
    tiles.in_cpu = cpu_has_tiles();
    tiles.saved = tiles.in_cpu && system_saves_tiles();
    if (tiles.saved) tiles.error = ask_for_tiles();
    return tiles;
  }();
  return support;
}
#endif

}  // namespace

// A new instruction set adds one line here. __builtin_cpu_supports also asks XCR0 whether the
// operating system saves the registers.
bool cpu_has(const char* isa) noexcept {
  if (!std::strcmp(isa, "scalar")) return true;
#if !defined(__x86_64__)
  if (!std::strcmp(isa, "amx_emulated")) return true;
#else
  // Compiled with these extensions to be fast (src/CMakeLists.txt).
  if (!std::strcmp(isa, "amx_emulated")) return cpu_has("avx2");
  if (!std::strcmp(isa, "avx2"))
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  // With the extensions of avx2, with which that unit is compiled too (src/CMakeLists.txt).
  if (!std::strcmp(isa, "avx512"))
    return cpu_has("avx2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  if (!std::strcmp(isa, "avx512_vnni"))
    return cpu_has("avx512") && __builtin_cpu_supports("avx512vnni");
  if (!std::strcmp(isa, "avx512_bf16")) return cpu_has("avx512") && has_avx512_bf16();
  // The instructions of that unit that are not those of tile registers.
  if (!std::strcmp(isa, "amx_vectors"))
    return cpu_has("avx512_bf16") && __builtin_cpu_supports("avx512vbmi");
  if (!std::strcmp(isa, "amx")) return cpu_has("amx_vectors") && tile_support().usable();
#endif
  return false;
}

std::string TileSupport::refusal() const {
  if (!in_cpu || usable()) return "";
  if (!saved) return "the operating system does not save tile registers";
  return "the operating system refuses tile registers (error " + std::to_string(error) + ")";
}

const char* note_of(const char* isa) {
  if (!std::strcmp(isa, "amx_emulated")) return "tile registers in plain C++, for tests";
#if defined(__x86_64__)
  static const std::string refusal = tile_support().refusal();
  if (!std::strcmp(isa, "amx")) return refusal.c_str();
#endif
  return "";
}

CacheSizes cache_sizes() {
  const auto size = [](int name) {
    const long bytes = sysconf(name);
    return bytes > 0 ? bytes : 0;
  };
  return {size(_SC_LEVEL1_DCACHE_SIZE), size(_SC_LEVEL2_CACHE_SIZE), size(_SC_LEVEL3_CACHE_SIZE)};
}

}  // namespace rapt
