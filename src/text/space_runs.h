#pragma once
// White space at the ends of a part of a text.
#include <cstddef>
#include <string_view>

#include "io/text/utf8.h"
#include "text/unicode_classes.h"

namespace rapt::text {

// Where the white space begins that ends at `end`, at or after `from`.
inline size_t begin_of_space(std::string_view text, size_t from, size_t end) {
  size_t begin = end;
  while (begin > from) {
    size_t at = begin - 1;
    while (at > from && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (class_of(decode_utf8(text.substr(at)).value) != CharacterClass::space) break;
    begin = at;
  }
  return begin;
}

// Where the white space ends that begins at `begin`.
inline size_t end_of_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const CodePoint c = decode_utf8(text.substr(begin));
    if (class_of(c.value) != CharacterClass::space) break;
    begin += c.bytes;
  }
  return begin;
}

}  // namespace rapt::text
