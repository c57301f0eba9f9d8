#include "rapt/text/tokenizer.h"

#include "rapt/error.h"
#include "text/check_utf8.h"
#include "text/encoding/encode_parts.h"
#include "text/parts.h"

namespace rapt::text {
std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  encode(text, ids);
  return ids;
}

void Tokenizer::encode(std::string_view text, std::vector<int64_t>& ids) const {
  check_utf8(text);
  const size_t before = ids.size();
  try {
    encode_parts(*parts_, text, ids, nullptr);
  } catch (...) {
    ids.resize(before);
    throw;
  }
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string text;
  const auto* const words = std::get_if<WordPieceModel>(&parts_->model);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string_view token = token_bytes(ids[i]);
    if (words)
      text += words->decoded(token, i == 0);
    else
      text += token;
  }
  const auto* const pieces = std::get_if<ByteFallbackBpe>(&parts_->model);
  if (pieces && pieces->options().decoding_strips_blank && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

TokenizerKind Tokenizer::kind() const { return static_cast<TokenizerKind>(parts_->model.index()); }

int64_t Tokenizer::vocabulary() const { return std::ssize(parts_->tokens); }

std::string_view Tokenizer::token_bytes(int64_t id) const {
  if (id < 0 || id >= vocabulary())
    throw Error(ErrorCode::argument,
                "id: expected 0 to " + std::to_string(vocabulary() - 1) + ", got " +
                    std::to_string(id) + "; use the tokenizer that the ids were made with",
                "id");
  return parts_->tokens[static_cast<size_t>(id)];
}

std::optional<int64_t> Tokenizer::added_token(std::string_view content) const {
  for (const AddedToken& token : parts_->added.tokens())
    if (token.content == content) return token.id;
  return std::nullopt;
}

}  // namespace rapt::text
