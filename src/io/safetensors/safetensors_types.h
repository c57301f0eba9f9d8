#pragma once
// The element types of .safetensors files, in the reference's order: by alignment, the smallest
// first. Source: huggingface/safetensors 0.8, safetensors/src/tensor.rs, enum Dtype.
#include <array>
#include <optional>
#include <string_view>

#include "rapt/tensor.h"

namespace rapt {

struct SafetensorsType {
  std::string_view name;
  int bits;                    // of an element
  std::optional<DType> dtype;  // absent: listed, but not read
};

inline constexpr std::array<SafetensorsType, 22> kSafetensorsTypes = {{
    {"BOOL", 8, DType::boolean},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::u8},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32},
    {"U32", 32, {}},
    {"F32", 32, DType::f32},
    {"C64", 64, {}},
    {"F64", 64, DType::f64},
    {"I64", 64, DType::i64},
    {"U64", 64, {}},
}};

}  // namespace rapt
