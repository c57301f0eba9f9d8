// The words of tile registers from one header, compiled once per header.
#include "kernels/tile_words_shim.h"

#include <new>

#include RAPT_TILES_HEADER

namespace rapt::RAPT_ISA {
namespace {

static_assert(sizeof(TileShapes) <= sizeof(KeptShapes));

template <int C, int A, int B>
void set_multiply(TileWords& words) {
  if constexpr (C != A && C != B && A != B)
    words.multiply[C][A][B] = [] { tile_multiply<C, A, B>(); };
}

#define RAPT_EACH_TILE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

template <int T>
void set_words(TileWords& words) {
  words.zero[T] = [] { tile_zero<T>(); };
  words.load[T] = [](const void* rows, int64_t stride) { tile_load<T>(rows, stride); };
  words.stream[T] = [](const void* rows, int64_t stride) { tile_stream<T>(rows, stride); };
  words.store[T] = [](void* rows, int64_t stride) { tile_store<T>(rows, stride); };
#define RAPT_X(a)               \
  set_multiply<T, a, 0>(words); \
  set_multiply<T, a, 1>(words); \
  set_multiply<T, a, 2>(words); \
  set_multiply<T, a, 3>(words); \
  set_multiply<T, a, 4>(words); \
  set_multiply<T, a, 5>(words); \
  set_multiply<T, a, 6>(words); \
  set_multiply<T, a, 7>(words);
  RAPT_EACH_TILE(RAPT_X)
#undef RAPT_X
}

}  // namespace

TileWords tile_words() {
  TileWords words = {};
  words.shape = [](KeptShapes& before) { shape_tiles(*new (before.bytes) TileShapes); };
  words.restore = [](const KeptShapes& before) {
    restore_tiles(*std::launder(reinterpret_cast<const TileShapes*>(before.bytes)));
  };
#define RAPT_X(t) set_words<t>(words);
  RAPT_EACH_TILE(RAPT_X)
#undef RAPT_X
  return words;
}

}  // namespace rapt::RAPT_ISA
