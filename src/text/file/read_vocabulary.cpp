#include "text/file/read_vocabulary.h"

#include "io/quoted.h"
#include "io/repeated_name.h"
#include "text/file/json_text.h"
#include "text/file/settings.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;

// Bytes of an added token, at most: each place of a text is compared with them.
constexpr size_t kLongestAddedToken = 1024;

// The id of a token, below `count`. A vocabulary has many: only an error names the token.
size_t read_id(const Json& value, size_t count, const std::string& token, const std::string& file) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= count)
    fail_malformed(file, "token " + rapt::in_quotes(token) + ": expected an id from 0 to " +
                             std::to_string(count) + " - 1, each once, got " + shown(value));
  return value.get<size_t>();
}

std::vector<const std::string*> texts_by_id(const Json& vocab, const std::string& file) {
  if (!vocab.is_object()) fail_malformed(file, "vocab: expected an object, got " + shown(vocab));
  const auto& object = vocab.get_ref<const Json::object_t&>();
  std::vector<const std::string*> texts(object.size());
  for (const auto& [text, id] : object) {
    const std::string*& place = texts[read_id(id, texts.size(), text, file)];
    if (place != nullptr)
      fail_malformed(file, "tokens " + rapt::in_quotes(*place) + " and " + rapt::in_quotes(text) +
                               " have the same id " + shown(id));
    place = &text;
  }
  return texts;
}

AddedToken read_added(const Json& token, const Vocabulary& vocabulary, size_t next_id,
                      const std::string& file) {
  check_settings(token, "added token",
                 {{"id", Presence::required, {}},
                  {"content", Presence::required, {}},
                  {"single_word", Presence::required, {false}},
                  {"lstrip", Presence::required, {false, true}},
                  {"rstrip", Presence::required, {false, true}},
                  {"normalized", Presence::required, {false, true}},
                  {"special", Presence::required, {false, true}}},
                 file);
  if (!token["content"].is_string() || token["content"].get_ref<const std::string&>().empty())
    fail_malformed(file, "added token: expected a text 'content', got " + shown(token["content"]));
  const auto& content = token["content"].get_ref<const std::string&>();
  if (content.size() > kLongestAddedToken)
    fail_unsupported(file, "added token " + rapt::in_quotes(content) + " of " +
                               std::to_string(content.size()) + " bytes, more than " +
                               std::to_string(kLongestAddedToken) + ",");
  const auto known = vocabulary.ids.find(content);
  const Json expected = known == vocabulary.ids.end() ? Json(next_id) : *known;
  if (token["id"] != expected)
    fail_malformed(file, "added token " + rapt::in_quotes(content) + ": expected the id " +
                             expected.dump() + ", got " + shown(token["id"]));
  return {.content = content,
          .id = token["id"].get<uint32_t>(),
          .special = token["special"].get<bool>(),
          .normalized = token["normalized"].get<bool>(),
          .lstrip = token["lstrip"].get<bool>(),
          .rstrip = token["rstrip"].get<bool>()};
}

}  // namespace

Vocabulary read_vocabulary(const Json& json, const std::string& file) {
  const Json& ids = json["model"]["vocab"];
  Vocabulary vocabulary{.ids = ids, .texts = texts_by_id(ids, file), .added = {}};
  const auto added = json.find("added_tokens");
  if (added == json.end()) return vocabulary;
  if (!added->is_array())
    fail_malformed(file, "added_tokens: expected an array, got " + shown(*added));
  size_t next_id = vocabulary.texts.size();
  for (const Json& token : *added) {
    vocabulary.added.push_back(read_added(token, vocabulary, next_id, file));
    if (vocabulary.added.back().id == next_id) ++next_id;
  }
  const std::string* repeated = repeated_name(
      vocabulary.added, [](const AddedToken& t) -> const std::string& { return t.content; });
  if (repeated != nullptr)
    fail_malformed(file, "added token " + rapt::in_quotes(*repeated) + " occurs twice");
  return vocabulary;
}

uint32_t id_of(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
               const std::string& file) {
  const auto at = vocabulary.ids.find(text);
  if (at == vocabulary.ids.end())
    fail_malformed(file,
                   what + ": expected a token of the vocabulary, got " + rapt::in_quotes(text));
  return at->get<uint32_t>();
}

}  // namespace rapt::text
