#pragma once
// The words of tile registers as plain functions: those of simd/tiles.h, and of
// simd/tiles_emulated.h.
#include <cstdint>

namespace rapt {

// What shape_tiles keeps.
struct KeptShapes {
  alignas(64) unsigned char bytes[64];
};

struct TileWords {
  void (*shape)(KeptShapes& before);
  void (*restore)(const KeptShapes& before);
  void (*zero[8])();
  void (*load[8])(const void* rows, int64_t stride);
  void (*stream[8])(const void* rows, int64_t stride);
  void (*store[8])(void* rows, int64_t stride);
  void (*multiply[8][8][8])();  // of C, A, B; none where two of them are the same
};

namespace isa_tile_instructions {
TileWords tile_words();
}
namespace isa_tile_emulation {
TileWords tile_words();
}

}  // namespace rapt
