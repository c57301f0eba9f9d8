#pragma once
// A text to the tokens of a model, without a template.
#include <cstdint>
#include <string_view>
#include <vector>

#include "rapt/text/encoding.h"
#include "text/parts.h"

namespace rapt::text {

// Appends the ids of a text, which is valid UTF-8, and, unless `spans` is null, where they come
// from. Throws as Tokenizer::encode(); both may have more elements then.
void encode_parts(const Tokenizer::Parts& parts, std::string_view text, std::vector<int64_t>& ids,
                  std::vector<ByteSpan>* spans);

}  // namespace rapt::text
