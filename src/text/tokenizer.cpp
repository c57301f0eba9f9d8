#include "rapt/text/tokenizer.h"

#include "rapt/error.h"
#include "text/check_utf8.h"
#include "text/parts.h"

namespace rapt::text {
namespace {

template <class Model>
void encode_with(const Model& model, const AddedTokens& added, std::string_view text,
                 std::vector<int64_t>& ids) {
  typename Model::Encoder encoder(model, ids);
  added.split(
      text, [&](size_t begin, size_t end) { encoder.encode(text, begin, end); },
      [&](uint32_t id) { ids.push_back(id); });
}

}  // namespace

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  encode(text, ids);
  return ids;
}

void Tokenizer::encode(std::string_view text, std::vector<int64_t>& ids) const {
  check_utf8(text);
  const size_t before = ids.size();
  try {
    std::visit([&](const auto& model) { encode_with(model, parts_->added, text, ids); },
               parts_->model);
  } catch (...) {
    ids.resize(before);
    throw;
  }
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) text += token_bytes(id);
  return text;
}

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
