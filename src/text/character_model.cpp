#include "text/character_model.h"

#include <cstdio>
#include <string>

#include "io/text/utf8.h"
#include "rapt/error.h"
#include "rapt/io/plain_text.h"

namespace rapt::text {
namespace {

[[noreturn]] void fail_on_character(std::string_view bytes, char32_t character, size_t at,
                                    size_t vocabulary) {
  char name[16];
  std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(character));
  throw Error(ErrorCode::argument,
              "text: expected characters of the vocabulary of " + std::to_string(vocabulary) +
                  ", got " + name + " '" + plain_text(bytes) + "' at byte " + std::to_string(at) +
                  "; learn the characters from a text that has it, or use byte-level BPE",
              "text");
}

}  // namespace

void CharacterModel::Encoder::encode(std::string_view text, size_t begin, size_t end) {
  for (size_t at = begin; at < end;) {
    const CodePoint c = decode_utf8(text.substr(at));
    const int64_t id = model_.characters_.find(c.value);
    if (id == CharacterIds::kNone)
      fail_on_character(text.substr(at, c.bytes), c.value, at, model_.characters_.size());
    ids_.push_back(id);
    at += c.bytes;
  }
}

}  // namespace rapt::text
