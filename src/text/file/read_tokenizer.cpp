// tokenizer.json as the package tokenizers writes it, to a tokenizer.
#include <algorithm>

#include "io/quoted.h"
#include "io/text/utf8.h"
#include "rapt/io/input_file.h"
#include "rapt/text/tokenizer_file.h"
#include "text/byte_characters.h"
#include "text/file/json_text.h"
#include "text/file/read_byte_fallback.h"
#include "text/file/read_merges.h"
#include "text/file/read_template.h"
#include "text/file/read_vocabulary.h"
#include "text/file/read_word_piece.h"
#include "text/file/settings.h"
#include "text/parts.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;
using enum Presence;

// Tokens of the model as bytes, by id. bytes_of(text): nothing where the text is no token of its
// kind; then it must be an added token, which stands for itself.
template <class BytesOf>
std::vector<std::string> model_tokens(const Vocabulary& vocabulary, const std::string& file,
                                      BytesOf bytes_of) {
  std::vector<bool> is_added(vocabulary.texts.size());
  for (const AddedToken& token : vocabulary.added)
    if (token.id < is_added.size()) is_added[token.id] = true;
  std::vector<std::string> tokens;
  for (size_t id = 0; id < is_added.size(); ++id) {
    const std::string& text = *vocabulary.texts[id];
    std::optional<std::string> bytes = bytes_of(text);
    if (!bytes && !is_added[id])
      fail_unsupported(file, "token " + rapt::in_quotes(text) + " in a model of this kind");
    tokens.push_back(bytes ? *std::move(bytes) : text);
  }
  return tokens;
}

// The expressions of split_pieces.h.
constexpr std::pair<std::string_view, PiecePattern> kPatterns[] = {
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     PiecePattern::llama3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     PiecePattern::qwen2}};

PiecePattern read_pattern(const Json& pre_tokenizer, const std::string& file) {
  if (pre_tokenizer["type"] == "ByteLevel") return PiecePattern::gpt2;
  const Json& split = pre_tokenizer["pretokenizers"][0];
  const Json pattern =
      split["pattern"].is_object() ? split["pattern"].value("Regex", Json()) : Json();
  for (const auto& [text, known] : kPatterns)
    if (pattern == text) return known;
  fail_unsupported(file, "pre_tokenizer Split by " + shown(split["pattern"]));
}

// A piece that is a token of the vocabulary becomes it, whatever the merges are.
LongestMatch whole_pieces_of(const std::vector<std::string>& tokens) {
  std::vector<LongestMatch::Entry> entries;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty()) entries.push_back({tokens[id], static_cast<uint32_t>(id)});
  return LongestMatch(std::move(entries));
}

ByteLevelBpe read_bpe(const Json& json, const Vocabulary& vocabulary,
                      const std::vector<std::string>& tokens, const std::string& file) {
  const Json& model = json["model"];
  check_bpe_settings(model, false, file);
  std::array<uint32_t, 256> byte_ids{};
  for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
    const char one = static_cast<char>(byte);
    byte_ids[byte] = id_of(vocabulary, characters_of_bytes({&one, 1}),
                           "the token of byte " + std::to_string(byte), file);
  }
  ByteLevelOptions options{.pattern = read_pattern(json["pre_tokenizer"], file)};
  if (model.value("ignore_merges", false)) options.whole_pieces = whole_pieces_of(tokens);
  return {byte_ids, read_merges(model["merges"], vocabulary, file), vocabulary.texts.size(),
          std::move(options)};
}

CharacterModel read_characters(const Json& model, const Vocabulary& vocabulary,
                               const std::vector<std::string>& tokens, const std::string& file) {
  check_settings(model, "model WordLevel",
                 {{"type", required, {}}, {"unk_token", required, {}}, {"vocab", required, {}}},
                 file);
  if (model["unk_token"].is_string() && vocabulary.ids.contains(model["unk_token"]))
    fail_unsupported(file, "a token for unknown characters, " + shown(model["unk_token"]) + ",");
  std::vector<CharacterIds::Entry> entries;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (const CodePoint c = decode_utf8(tokens[id]); c.bytes == tokens[id].size())
      entries.push_back({c.value, static_cast<uint32_t>(id)});
  return CharacterModel(CharacterIds(std::move(entries)));
}

void check_byte_level_pieces(const Json& byte_level, bool uses_regex, const std::string& file) {
  check_settings(byte_level, "pre_tokenizer ByteLevel",
                 {{"type", required, {"ByteLevel"}},
                  {"add_prefix_space", required, {false}},
                  {"trim_offsets", optional, {}},
                  {"use_regex", optional, {uses_regex}}},
                 file);
}

// A Split by an expression, and the bytes of what it leaves.
void check_sequence(const Json& pre_tokenizer, const std::string& file) {
  check_settings(pre_tokenizer, "pre_tokenizer Sequence",
                 {{"type", required, {}}, {"pretokenizers", required, {}}}, file);
  const Json& parts = pre_tokenizer["pretokenizers"];
  if (!parts.is_array() || parts.size() != 2)
    fail_unsupported(file, "pre_tokenizer Sequence other than of Split and ByteLevel");
  check_settings(parts[0], "pre_tokenizer Split",
                 {{"type", required, {"Split"}},
                  {"pattern", required, {}},
                  {"behavior", required, {"Isolated"}},
                  {"invert", required, {false}}},
                 file);
  if (!parts[1].is_object() || !parts[1].contains("use_regex"))
    fail_unsupported(file, "pre_tokenizer ByteLevel with an expression of its own behind Split");
  check_byte_level_pieces(parts[1], false, file);
}

// What stands around the model must change nothing that rapt does not change.
void check_byte_level(const Json& json, const std::string& file) {
  const Json& pre_tokenizer = json["pre_tokenizer"];
  if (pre_tokenizer["type"] == "Sequence")
    check_sequence(pre_tokenizer, file);
  else
    check_byte_level_pieces(pre_tokenizer, true, file);
  const Json& decoder = json["decoder"];
  if (const std::string& type = type_of(decoder, "decoder", file); type != "ByteLevel")
    fail_unsupported(file, "decoder " + rapt::in_quotes(type));
}

void check_split(const Json& json, const std::string& file) {
  check_settings(json["pre_tokenizer"], "pre_tokenizer Split",
                 {{"type", required, {}},
                  {"pattern", required, {Json::object({{"String", ""}})}},
                  {"behavior", required, {"Isolated"}},
                  {"invert", required, {false}}},
                 file);
  const Json& decoder = json["decoder"];
  if (const std::string& type = type_of(decoder, "decoder", file); type != "Fuse")
    fail_unsupported(file, "decoder " + rapt::in_quotes(type));
}

void check_file(const Json& json, const std::string& file) {
  check_settings(json, "the tokenizer",
                 {{"version", optional, {"1.0"}},
                  // What the package does unless a call says otherwise; here each call says.
                  {"truncation", optional, {}},
                  {"padding", optional, {}},
                  {"added_tokens", optional, {}},
                  {"normalizer", optional, {}},
                  {"pre_tokenizer", required, {}},
                  {"post_processor", optional, {}},
                  {"decoder", required, {}},
                  {"model", required, {}}},
                 file);
}

// Is it NFC? Any other normalizer is rejected.
bool read_composes(const Json& json, TokenizerKind kind, const Vocabulary& vocabulary,
                   const std::string& file) {
  const Json normalizer = json.value("normalizer", Json());
  if (normalizer.is_null()) return false;
  const std::string& type = type_of(normalizer, "normalizer", file);
  if (type != "NFC" || kind != TokenizerKind::byte_level_bpe)
    fail_unsupported(file, "normalizer " + rapt::in_quotes(type) + " beside " +
                               kTokenizerKindNames[static_cast<int>(kind)]);
  check_settings(normalizer, "normalizer NFC", {{"type", required, {}}}, file);
  // The package searches the normalised text for them.
  for (const AddedToken& token : vocabulary.added)
    if (token.normalized)
      fail_unsupported(file, "added token " + rapt::in_quotes(token.content) +
                                 " that is normalized, beside normalizer NFC");
  return true;
}

std::optional<std::string> one_character(std::string_view text) {
  if (text.empty() || decode_utf8(text).bytes != text.size()) return std::nullopt;
  return std::string(text);
}

TokenizerKind kind_of(const Json& json, const std::string& file) {
  const Json& model = json["model"];
  // Early files of GPT-2 and of BERT have models without a type.
  const auto untyped = [&](const char* with) {
    return model.is_object() && !model.contains("type") && model.contains(with);
  };
  const std::string type = untyped("merges")                     ? "BPE"
                           : untyped("max_input_chars_per_word") ? "WordPiece"
                                                                 : type_of(model, "model", file);
  if (type == "BPE" && model.value("byte_fallback", Json()) == true)
    return TokenizerKind::byte_fallback_bpe;
  const std::string& pre_tokenizer = type_of(json["pre_tokenizer"], "pre_tokenizer", file);
  if (type == "BPE" && (pre_tokenizer == "ByteLevel" || pre_tokenizer == "Sequence"))
    return TokenizerKind::byte_level_bpe;
  if (type == "WordLevel" && pre_tokenizer == "Split") return TokenizerKind::characters;
  if (type == "WordPiece" && pre_tokenizer == "BertPreTokenizer") return TokenizerKind::word_piece;
  fail_unsupported(file, "model " + rapt::in_quotes(type) + " with pre_tokenizer " +
                             rapt::in_quotes(pre_tokenizer));
}

std::optional<std::string> whole_text(std::string_view text) { return std::string(text); }

std::vector<std::string> tokens_of(TokenizerKind kind, const Vocabulary& vocabulary,
                                   const std::string& file) {
  switch (kind) {
    case TokenizerKind::byte_level_bpe:
      return model_tokens(vocabulary, file, bytes_of_characters);
    case TokenizerKind::characters:
      return model_tokens(vocabulary, file, one_character);
    case TokenizerKind::byte_fallback_bpe:
      return model_tokens(vocabulary, file, bytes_of_piece);
    default:
      return model_tokens(vocabulary, file, whole_text);
  }
}

std::shared_ptr<const Tokenizer::Parts> make_parts(const Json& json, const std::string& file) {
  const TokenizerKind kind = kind_of(json, file);
  const bool has_own_normalizer =
      kind == TokenizerKind::word_piece || kind == TokenizerKind::byte_fallback_bpe;
  if (!has_own_normalizer)
    (kind == TokenizerKind::byte_level_bpe ? check_byte_level : check_split)(json, file);
  const Json& model = json["model"];
  if (!model.contains("vocab")) fail_malformed(file, "model: expected a vocab, got none");

  const Vocabulary vocabulary = read_vocabulary(json, file);
  const bool composes = !has_own_normalizer && read_composes(json, kind, vocabulary, file);
  std::vector<std::string> tokens = tokens_of(kind, vocabulary, file);
  const auto read_model = [&]() -> TokenizerModel {
    if (kind == TokenizerKind::byte_level_bpe) return read_bpe(json, vocabulary, tokens, file);
    if (kind == TokenizerKind::byte_fallback_bpe) return read_byte_fallback(json, vocabulary, file);
    if (kind == TokenizerKind::word_piece) return read_word_piece(json, vocabulary, file);
    return read_characters(model, vocabulary, tokens, file);
  };
  auto read = read_model();
  for (const AddedToken& token : vocabulary.added)
    if (token.id == tokens.size())
      tokens.push_back(kind == TokenizerKind::byte_fallback_bpe ? bytes_of_piece(token.content)
                                                                : token.content);
  SequenceTemplate around =
      read_template(json.value("post_processor", Json()), tokens.size(), file);
  if (kind == TokenizerKind::byte_fallback_bpe && around.trim != TrimSpans::no)
    fail_unsupported(file, "post_processor with trim_offsets beside byte_fallback");
  return std::make_shared<Tokenizer::Parts>(
      Tokenizer::Parts{.tokens = std::move(tokens),
                       .model_tokens = vocabulary.texts.size(),
                       .model = std::move(read),
                       .added = AddedTokens(vocabulary.added),
                       .composes = composes,
                       .around = std::move(around)});
}

}  // namespace

Tokenizer parse_tokenizer(std::string_view json, const std::string& name) {
  const Json parsed = parse_json(json, name);
  check_file(parsed, name);
  return Tokenizer(make_parts(parsed, name));
}

Tokenizer read_tokenizer(const std::string& folder) {
  const InputFile file(folder + "/tokenizer.json");
  std::string text(static_cast<size_t>(std::min(file.bytes(), kMaxTokenizerFile + 1)), '\0');
  file.read(0, reinterpret_cast<std::byte*>(text.data()), std::ssize(text));
  return parse_tokenizer(text, file.name());
}

}  // namespace rapt::text
