#pragma once
// The words of tile registers as plain functions, from simd/tiles.h and from simd/tiles_emulated.h.
#include <cstdint>

namespace rapt {

// The shapes that shape_tiles saves.
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
  void (*multiply[8][8][8])();  // [C][A][B]; null where two of them are equal
};

namespace isa_tile_instructions {
TileWords tile_words();
}
namespace isa_tile_emulation {
TileWords tile_words();
}

}  // namespace rapt
