#include "text/file/read_byte_fallback.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "io/quoted.h"
#include "io/text/utf8.h"
#include "text/file/json_text.h"
#include "text/file/read_merges.h"
#include "text/file/settings.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;
using enum Presence;

constexpr const char* kMark = "\xE2\x96\x81";  // kBlankMarkBytes

// The byte of "<0xE4>".
std::optional<uint8_t> byte_of_piece(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int byte = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    byte = 16 * byte + digit;
  }
  return static_cast<uint8_t>(byte);
}

std::string piece_of_byte(size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
}

void check_replace(const Json& part, const char* where, const Json& from, const std::string& to,
                   const std::string& file) {
  const std::string place = std::string(where) + " Replace";
  check_settings(part, place,
                 {{"type", required, {"Replace"}},
                  {"pattern", required, {Json::object({{"String", from}})}},
                  {"content", required, {to}}},
                 file);
}

// The parts of a Sequence, or the one part.
std::vector<Json> sequence_parts(const Json& json, const char* where, const char* list,
                                 const std::string& file) {
  if (type_of(json, where, file) != "Sequence") return {json};
  check_settings(json, std::string(where) + " Sequence",
                 {{"type", required, {}}, {list, required, {}}}, file);
  if (!json[list].is_array())
    fail_malformed(file, std::string(list) + ": expected an array, got " + shown(json[list]));
  return json[list].get<std::vector<Json>>();
}

// Prepend U+2581, and Replace " " by U+2581, or the latter alone.
BlankInFront read_normalizer(const Json& normalizer, const std::string& file) {
  std::vector<Json> parts = sequence_parts(normalizer, "normalizer", "normalizers", file);
  BlankInFront blank = BlankInFront::never;
  if (parts.size() > 1 && type_of(parts[0], "normalizer", file) == "Prepend") {
    check_settings(parts[0], "normalizer Prepend",
                   {{"type", required, {}}, {"prepend", required, {kMark}}}, file);
    blank = BlankInFront::parts_anyway;
    parts.erase(parts.begin());
  }
  for (const Json& part : parts)
    if (const std::string& type = type_of(part, "normalizer", file); type != "Replace")
      fail_unsupported(file, "normalizer " + rapt::in_quotes(type) + " beside byte_fallback");
  if (parts.size() != 1)
    fail_unsupported(file, "normalizer Sequence other than of Prepend and Replace");
  check_replace(parts[0], "normalizer", " ", kMark, file);
  return blank;
}

BlankInFront read_metaspace(const Json& metaspace, const std::string& file) {
  check_settings(metaspace, "pre_tokenizer Metaspace",
                 {{"type", required, {}},
                  {"replacement", required, {kMark}},
                  {"prepend_scheme", optional, {"never", "first", "always"}},
                  {"split", optional, {false}}},
                 file);
  // metaspace.rs: what absent settings are.
  if (!metaspace.contains("split"))
    fail_unsupported(file, "pre_tokenizer Metaspace that splits, as one without 'split' does,");
  const std::string scheme = metaspace.value("prepend_scheme", "always");
  if (scheme == "never") return BlankInFront::never;
  return scheme == "first" ? BlankInFront::text : BlankInFront::parts;
}

// Metaspace without a normalizer, or a normalizer that leaves no blank behind which a Split would
// cut.
BlankInFront read_blank_in_front(const Json& json, const std::string& file) {
  const Json normalizer = json.value("normalizer", Json());
  const Json& pre_tokenizer = json["pre_tokenizer"];
  const std::string type =
      pre_tokenizer.is_null() ? "null" : type_of(pre_tokenizer, "pre_tokenizer", file);
  if (type == "Metaspace") {
    if (!normalizer.is_null())
      fail_unsupported(file, "a normalizer beside pre_tokenizer Metaspace");
    return read_metaspace(pre_tokenizer, file);
  }
  if (normalizer.is_null())
    fail_unsupported(file, "byte_fallback with neither a normalizer nor pre_tokenizer Metaspace");
  if (type == "Split")
    check_settings(pre_tokenizer, "pre_tokenizer Split",
                   {{"type", required, {}},
                    {"pattern", required, {Json::object({{"String", " "}})}},
                    {"behavior", required, {}},
                    {"invert", required, {false}}},
                   file);
  else if (type != "null")
    fail_unsupported(file, "pre_tokenizer " + rapt::in_quotes(type) + " beside byte_fallback");
  return read_normalizer(normalizer, file);
}

// Replace, ByteFallback, Fuse, and Strip or not.
bool read_strip(const Json& decoder, const std::string& file) {
  const std::vector<Json> parts = sequence_parts(decoder, "decoder", "decoders", file);
  std::string types;
  for (const Json& part : parts) types += type_of(part, "decoder", file) + " ";
  const bool strips = types == "Replace ByteFallback Fuse Strip ";
  if (!strips && types != "Replace ByteFallback Fuse ")
    fail_unsupported(file, "decoder other than of Replace, ByteFallback, Fuse and Strip");
  check_replace(parts[0], "decoder", kMark, " ", file);
  check_settings(parts[1], "decoder ByteFallback", {{"type", required, {}}}, file);
  check_settings(parts[2], "decoder Fuse", {{"type", required, {}}}, file);
  if (strips)
    check_settings(parts[3], "decoder Strip",
                   {{"type", required, {}},
                    {"content", required, {" "}},
                    {"start", required, {1}},
                    {"stop", required, {0}}},
                   file);
  return strips;
}

// No byte is left that a text needs: bytes 0xC0, 0xC1 and from 0xF5 on are not in UTF-8, and ASCII
// may have tokens of characters.
std::array<uint32_t, 256> read_byte_ids(const Vocabulary& vocabulary,
                                        const CharacterIds& characters, const std::string& file) {
  std::array<uint32_t, 256> ids;
  ids.fill(ByteFallbackBpe::kNoToken);
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    const auto at = vocabulary.ids.find(piece_of_byte(byte));
    if (at != vocabulary.ids.end()) ids[byte] = at->get<uint32_t>();
    const bool needed = byte < 0x80 ? byte != ' ' && characters.find(static_cast<char32_t>(byte)) ==
                                                         CharacterIds::kNone
                                    : byte != 0xC0 && byte != 0xC1 && byte <= 0xF4;
    if (needed && ids[byte] == ByteFallbackBpe::kNoToken)
      fail_malformed(
          file, "expected the token '" + piece_of_byte(byte) + "' beside byte_fallback, got none");
  }
  return ids;
}

CharacterIds read_character_ids(const Vocabulary& vocabulary) {
  std::vector<CharacterIds::Entry> entries;
  for (size_t id = 0; id < vocabulary.texts.size(); ++id) {
    const std::string& text = *vocabulary.texts[id];
    if (text.empty()) continue;
    if (const CodePoint c = decode_utf8(text); c.bytes == text.size())
      entries.push_back({c.value, static_cast<uint32_t>(id)});
  }
  return CharacterIds(std::move(entries));
}

// Bytes are where no character is; a merge of them would be of characters that are no tokens.
void check_merges(const std::vector<Merge>& merges, const Vocabulary& vocabulary,
                  const std::string& file) {
  for (const Merge& merge : merges)
    for (const uint32_t id : {merge.left, merge.right, merge.id})
      if (byte_of_piece(*vocabulary.texts[id]))
        fail_unsupported(file,
                         "a merge with the token of a byte, '" + *vocabulary.texts[id] + "',");
}

// The package searches the normalised text for tokens that are normalised, where a blank is U+2581:
// no white space that lstrip or rstrip would take.
void check_added(const Vocabulary& vocabulary, bool has_normalizer, BlankInFront blank,
                 const std::string& file) {
  for (const AddedToken& token : vocabulary.added) {
    const bool changes = blank == BlankInFront::parts_anyway || token.lstrip || token.rstrip ||
                         token.content.find(' ') != std::string::npos ||
                         token.content.find(kMark) != std::string::npos;
    if (token.normalized && has_normalizer && changes)
      fail_unsupported(file, "added token " + rapt::in_quotes(token.content) +
                                 " that is normalized, beside this normalizer");
  }
}

}  // namespace

ByteFallbackBpe read_byte_fallback(const Json& json, const Vocabulary& vocabulary,
                                   const std::string& file) {
  const Json& model = json["model"];
  check_bpe_settings(model, true, file);
  ByteFallbackOptions options{.blank_in_front = read_blank_in_front(json, file)};
  options.decoding_strips_blank = read_strip(json["decoder"], file);
  check_added(vocabulary, !json.value("normalizer", Json()).is_null(), options.blank_in_front,
              file);
  id_of(vocabulary, kMark, "the token of blanks", file);
  CharacterIds characters = read_character_ids(vocabulary);
  const std::array<uint32_t, 256> byte_ids = read_byte_ids(vocabulary, characters, file);
  const std::vector<Merge> merges = read_merges(model["merges"], vocabulary, file);
  check_merges(merges, vocabulary, file);
  return {std::move(characters), byte_ids, merges, vocabulary.texts, options};
}

std::string bytes_of_piece(const std::string& text) {
  if (const std::optional<uint8_t> byte = byte_of_piece(text))
    return std::string(1, static_cast<char>(*byte));
  std::string bytes;
  size_t at = 0;
  for (size_t mark; (mark = text.find(kBlankMarkBytes, at)) != std::string::npos;
       at = mark + kBlankMarkBytes.size())
    bytes.append(text, at, mark - at) += ' ';
  return bytes.append(text, at);
}

}  // namespace rapt::text
