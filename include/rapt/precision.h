#pragma once
// The arithmetic of products, of attention (rapt/attention.h) and of layers (rapt/product.h).
#include <cstdint>

namespace rapt {

// The arithmetic of the products. Tile registers (AMX, instruction sets `amx` and `amx_emulated`)
// multiply bf16 directly, and f32 and f16 as sums of bf16: f32 as three parts each, by six
// products, as accurate as FMA. f64 is multiplied by FMA.
enum class Precision : uint8_t {
  automatic,  // tile registers where the CPU has them; else f32 and f16 by FMA, bf16 by the
              // 16-bit dot product where that is faster
  fma,        // every dtype by FMA in f32 (f64: f64)
  fast,       // as automatic, but tile registers multiply f32 and f16 as two parts each, by
              // three products: a product loses less than 2^-14, usually about 2^-18
};
inline constexpr const char* kPrecisionNames[] = {"automatic", "fma", "fast"};

}  // namespace rapt
