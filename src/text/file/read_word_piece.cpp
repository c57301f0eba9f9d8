#include "text/file/read_word_piece.h"

#include "io/quoted.h"
#include "text/file/json_text.h"
#include "text/file/settings.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;
using enum Presence;

BertNormalizer::Steps read_steps(const Json& normalizer, const std::string& file) {
  if (normalizer.is_null()) return {false, false, false, false};
  if (const std::string& type = type_of(normalizer, "normalizer", file); type != "BertNormalizer")
    fail_unsupported(file, "normalizer " + rapt::in_quotes(type) + " beside WordPiece");
  check_settings(normalizer, "normalizer BertNormalizer",
                 {{"type", required, {}},
                  {"clean_text", required, {false, true}},
                  {"handle_chinese_chars", required, {false, true}},
                  {"strip_accents", required, {nullptr, false, true}},
                  {"lowercase", required, {false, true}}},
                 file);
  const bool lowercase = normalizer["lowercase"].get<bool>();
  const Json& strip = normalizer["strip_accents"];
  return {.clean_text = normalizer["clean_text"].get<bool>(),
          .handle_chinese_chars = normalizer["handle_chinese_chars"].get<bool>(),
          .strip_accents = strip.is_null() ? lowercase : strip.get<bool>(),
          .lowercase = lowercase};
}

const std::string& text_of(const Json& object, const char* name, const std::string& where,
                           const std::string& file) {
  if (!object[name].is_string())
    fail_malformed(file, where + ": expected a text '" + name + "', got " + shown(object[name]));
  return object[name].get_ref<const std::string&>();
}

void read_decoder(const Json& decoder, WordPieceModel::Settings& settings,
                  const std::string& file) {
  if (const std::string& type = type_of(decoder, "decoder", file); type != "WordPiece")
    fail_unsupported(file, "decoder " + rapt::in_quotes(type) + " beside WordPiece");
  check_settings(
      decoder, "decoder WordPiece",
      {{"type", required, {}}, {"prefix", required, {}}, {"cleanup", required, {false, true}}},
      file);
  settings.decoder_prefix = text_of(decoder, "prefix", "decoder WordPiece", file);
  settings.cleans_up = decoder["cleanup"].get<bool>();
}

}  // namespace

WordPieceModel read_word_piece(const Json& json, const Vocabulary& vocabulary,
                               const std::string& file) {
  const Json& model = json["model"];
  check_settings(model, "model WordPiece",
                 {{"type", optional, {}},
                  {"unk_token", required, {}},
                  {"continuing_subword_prefix", required, {}},
                  {"max_input_chars_per_word", required, {}},
                  {"vocab", required, {}}},
                 file);
  check_settings(json["pre_tokenizer"], "pre_tokenizer BertPreTokenizer", {{"type", required, {}}},
                 file);
  if (!model["max_input_chars_per_word"].is_number_unsigned())
    fail_malformed(file, "max_input_chars_per_word: expected a number, 0 or more, got " +
                             shown(model["max_input_chars_per_word"]));
  WordPieceModel::Settings settings{
      .steps = read_steps(json.value("normalizer", Json()), file),
      .prefix = text_of(model, "continuing_subword_prefix", "model WordPiece", file),
      .unknown = id_of(vocabulary, text_of(model, "unk_token", "model WordPiece", file),
                       "unk_token", file),
      .most_characters = model["max_input_chars_per_word"].get<size_t>()};
  read_decoder(json["decoder"], settings, file);
  for (const AddedToken& token : vocabulary.added)
    if (token.normalized)
      fail_unsupported(file, "added token " + rapt::in_quotes(token.content) +
                                 " that is normalized, beside WordPiece");
  std::vector<std::string> texts;
  for (const std::string* text : vocabulary.texts) texts.push_back(*text);
  return {texts, std::move(settings)};
}

}  // namespace rapt::text
