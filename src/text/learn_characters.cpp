#include <map>

#include "io/text/utf8.h"
#include "rapt/error.h"
#include "rapt/text/learn.h"
#include "text/check_utf8.h"
#include "text/parts.h"

namespace rapt::text {

Tokenizer learn_characters(std::string_view text) {
  if (text.empty())
    throw Error(ErrorCode::argument,
                "text: expected at least one character, got none; give the text to learn from",
                "text");
  check_utf8(text);
  std::map<char32_t, std::string_view> found;  // the bytes of each character
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.substr(at));
    found.try_emplace(c.value, text.substr(at, c.bytes));
    at += c.bytes;
  }
  std::vector<std::string> tokens;
  std::vector<CharacterIds::Entry> entries;
  for (const auto& [character, bytes] : found) {
    entries.push_back({character, static_cast<uint32_t>(tokens.size())});
    tokens.emplace_back(bytes);
  }
  const size_t count = tokens.size();
  return Tokenizer(std::make_shared<Tokenizer::Parts>(
      Tokenizer::Parts{.tokens = std::move(tokens),
                       .model_tokens = count,
                       .model = CharacterModel(CharacterIds(std::move(entries))),
                       .added = {}}));
}

}  // namespace rapt::text
