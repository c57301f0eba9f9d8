#pragma once
// Letters (\p{L}), numbers (\p{N}) and white space (\s), as the package tokenizers has them.
#include <cstdint>

namespace rapt::text {

enum class CharacterClass : uint8_t { letter, number, space, other };

CharacterClass class_of(char32_t character);

}  // namespace rapt::text
