// A tokenizer to tokenizer.json, as the package tokenizers saves it, and tokenizer_config.json.
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "rapt/text/tokenizer_file.h"
#include "text/byte_characters.h"
#include "text/parts.h"

namespace rapt::text {
namespace {

constexpr std::string_view kPreTokenizer = R"({
    "type": "ByteLevel",
    "add_prefix_space": false,
    "trim_offsets": true,
    "use_regex": true
  })";
constexpr std::string_view kDecoder = R"({
    "type": "ByteLevel",
    "add_prefix_space": true,
    "trim_offsets": true,
    "use_regex": true
  })";
constexpr std::string_view kSplit = R"({
    "type": "Split",
    "pattern": {
      "String": ""
    },
    "behavior": "Isolated",
    "invert": false
  })";
constexpr std::string_view kBpe = R"(
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": )";
constexpr std::string_view kWordLevel = R"(
    "type": "WordLevel",
    "vocab": )";
constexpr std::string_view kFuse = R"({
    "type": "Fuse"
  })";

// transformers opens a folder by it. Without its own default, decoding would drop blanks before
// punctuation.
constexpr std::string_view kConfig = R"({
  "clean_up_tokenization_spaces": false,
  "tokenizer_class": "PreTrainedTokenizerFast"
}
)";

std::string quoted_json(const std::string& text) { return nlohmann::json(text).dump(); }

// Items between brackets, each on a line of its own.
std::string list_of(const std::vector<std::string>& items, std::string_view brackets,
                    const std::string& indent) {
  std::string text(1, brackets[0]);
  for (const std::string& item : items)
    text += (text.size() == 1 ? "\n" : ",\n") + indent + "  " + item;
  if (!items.empty()) text += "\n" + indent;
  return text + brackets[1];
}

// The texts that stand for the tokens of the model, by id.
std::vector<std::string> texts_of(const Tokenizer::Parts& parts) {
  const bool bpe = std::holds_alternative<ByteLevelBpe>(parts.model);
  std::vector<std::string> texts;
  for (size_t id = 0; id < parts.model_tokens; ++id)
    texts.push_back(bpe ? characters_of_bytes(parts.tokens[id]) : parts.tokens[id]);
  for (const AddedToken& token : parts.added.tokens())
    if (token.id < texts.size()) texts[token.id] = token.content;
  return texts;
}

std::string added_json(const AddedToken& token) {
  const auto word = [](bool value) { return value ? "true" : "false"; };
  return list_of(
      {"\"id\": " + std::to_string(token.id), "\"content\": " + quoted_json(token.content),
       "\"single_word\": false", std::string("\"lstrip\": ") + word(token.lstrip),
       std::string("\"rstrip\": ") + word(token.rstrip),
       std::string("\"normalized\": ") + word(token.normalized),
       std::string("\"special\": ") + word(token.special)},
      "{}", "    ");
}

std::string model_json(const Tokenizer::Parts& parts) {
  const std::vector<std::string> texts = texts_of(parts);
  std::vector<std::string> vocab;
  for (size_t id = 0; id < texts.size(); ++id)
    vocab.push_back(quoted_json(texts[id]) + ": " + std::to_string(id));
  const std::string vocab_json = list_of(vocab, "{}", "    ");
  const auto* bpe = std::get_if<ByteLevelBpe>(&parts.model);
  if (bpe == nullptr)
    return "{" + std::string(kWordLevel) + vocab_json + ",\n    \"unk_token\": \"<unk>\"\n  }";
  std::vector<std::string> merges;
  for (const Merge& merge : bpe->merges())
    merges.push_back(
        list_of({quoted_json(texts[merge.left]), quoted_json(texts[merge.right])}, "[]", "      "));
  return "{" + std::string(kBpe) + vocab_json +
         ",\n    \"merges\": " + list_of(merges, "[]", "    ") + "\n  }";
}

std::string post_processor_json(TrimSpans trim) {
  if (trim == TrimSpans::no) return "null";
  return list_of({"\"type\": \"ByteLevel\"",
                  std::string("\"add_prefix_space\": ") +
                      (trim == TrimSpans::blanks_but_first ? "true" : "false"),
                  "\"trim_offsets\": true", "\"use_regex\": true"},
                 "{}", "  ");
}

bool is_written(const Tokenizer::Parts& parts) {
  const SequenceTemplate none;
  if (parts.composes) return false;
  if (parts.around.single != none.single || parts.around.pair != none.pair) return false;
  const auto* const bpe = std::get_if<ByteLevelBpe>(&parts.model);
  if (bpe != nullptr)
    return bpe->options().pattern == PiecePattern::gpt2 && bpe->options().whole_pieces.empty();
  return std::holds_alternative<CharacterModel>(parts.model);
}

}  // namespace

std::string tokenizer_json(const Tokenizer& tokenizer) {
  const Tokenizer::Parts& parts = tokenizer.parts();
  if (!is_written(parts))
    throw Error(ErrorCode::unsupported,
                "tokenizer: WordPiece, BPE with byte fallback, NFC, tokens around a text and other "
                "expressions than GPT-2's are read, but not written; copy the file");
  const bool bpe = std::holds_alternative<ByteLevelBpe>(parts.model);
  std::vector<std::string> added;
  for (const AddedToken& token : parts.added.tokens()) added.push_back(added_json(token));
  const auto member = [](const char* name, std::string_view value) {
    return "\"" + std::string(name) + "\": " + std::string(value);
  };
  return list_of(
      {member("version", "\"1.0\""), member("truncation", "null"), member("padding", "null"),
       member("added_tokens", list_of(added, "[]", "  ")), member("normalizer", "null"),
       member("pre_tokenizer", bpe ? kPreTokenizer : kSplit),
       member("post_processor", post_processor_json(parts.around.trim)),
       member("decoder", bpe ? kDecoder : kFuse), member("model", model_json(parts))},
      "{}", "");
}

void write_tokenizer(const Tokenizer& tokenizer, const std::string& folder, Overwrite overwrite) {
  // Both are opened first: if one of them exists and must stay, none is written.
  OutputFile file(folder + "/tokenizer.json", overwrite);
  OutputFile config(folder + "/tokenizer_config.json", overwrite);
  const std::string json = tokenizer_json(tokenizer);
  file.write(json.data(), std::ssize(json));
  config.write(kConfig.data(), std::ssize(kConfig));
  file.commit();
  config.commit();
}

}  // namespace rapt::text
