#include "text/file/read_template.h"

#include "io/quoted.h"
#include "text/file/json_text.h"
#include "text/file/settings.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;
using enum Presence;

class TemplateReader {
 public:
  TemplateReader(size_t tokens, const std::string& file) : tokens_(tokens), file_(file) {}

  void read(const Json& json, SequenceTemplate& result) {
    const std::string& type = type_of(json, "post_processor", file_);
    if (type != "Sequence" && type != "ByteLevel") {
      // The package would put the second one's tokens around those of the first.
      if (has_template_) fail_unsupported(file_, "a Sequence with two templates");
      has_template_ = true;
    }
    if (type == "Sequence")
      read_sequence(json, result);
    else if (type == "ByteLevel")
      read_byte_level(json, result);
    else if (type == "BertProcessing")
      read_bert(json, result);
    else if (type == "RobertaProcessing")
      read_roberta(json, result);
    else if (type == "TemplateProcessing")
      read_parts(json, result);
    else
      fail_unsupported(file_, "post_processor " + rapt::in_quotes(type));
  }

 private:
  void read_trim(const Json& json, SequenceTemplate& result) const {
    if (!json.value("trim_offsets", true)) return;
    // The package would cut the blanks of each token twice.
    if (result.trim != TrimSpans::no)
      fail_unsupported(file_, "a Sequence of two with trim_offsets");
    result.trim =
        json.value("add_prefix_space", true) ? TrimSpans::blanks_but_first : TrimSpans::blanks;
  }

  void read_sequence(const Json& json, SequenceTemplate& result) {
    check_settings(json, "post_processor Sequence",
                   {{"type", required, {}}, {"processors", required, {}}}, file_);
    if (!json["processors"].is_array())
      fail_malformed(file_, "processors: expected an array, got " + shown(json["processors"]));
    for (const Json& one : json["processors"]) read(one, result);
  }

  void read_byte_level(const Json& json, SequenceTemplate& result) const {
    check_settings(json, "post_processor ByteLevel",
                   {{"type", required, {}},
                    {"add_prefix_space", optional, {false, true}},
                    {"trim_offsets", optional, {false, true}},
                    {"use_regex", optional, {}}},
                   file_);
    read_trim(json, result);
  }

  // ["[SEP]", 102]
  TemplatePart special(const Json& json, const char* name, int64_t type) const {
    const Json& pair = json[name];
    if (!pair.is_array() || pair.size() != 2)
      fail_malformed(file_,
                     std::string(name) + ": expected a token and its id, got " + shown(pair));
    return {.text = -1, .ids = {id_from(pair[1])}, .type = type};
  }

  void read_bert(const Json& json, SequenceTemplate& result) const {
    check_settings(json, "post_processor BertProcessing",
                   {{"type", required, {}}, {"sep", required, {}}, {"cls", required, {}}}, file_);
    const TemplatePart begin = special(json, "cls", 0), end = special(json, "sep", 0);
    result.single = {begin, text_part(0, 0), end};
    result.pair = {begin, text_part(0, 0), end, text_part(1, 1), special(json, "sep", 1)};
  }

  void read_roberta(const Json& json, SequenceTemplate& result) const {
    check_settings(json, "post_processor RobertaProcessing",
                   {{"type", required, {}},
                    {"sep", required, {}},
                    {"cls", required, {}},
                    {"trim_offsets", optional, {false, true}},
                    {"add_prefix_space", optional, {false, true}}},
                   file_);
    const TemplatePart begin = special(json, "cls", 0), end = special(json, "sep", 0);
    result.single = {begin, text_part(0, 0), end};
    result.pair = {begin, text_part(0, 0), end, end, text_part(1, 0), end};
    read_trim(json, result);
  }

  void read_parts(const Json& json, SequenceTemplate& result) const {
    check_settings(json, "post_processor TemplateProcessing",
                   {{"type", required, {}},
                    {"single", required, {}},
                    {"pair", required, {}},
                    {"special_tokens", required, {}}},
                   file_);
    result.single = parts_of(json, "single", 1);
    result.pair = parts_of(json, "pair", 2);
  }

  std::vector<TemplatePart> parts_of(const Json& json, const char* name, int texts) const {
    if (!json[name].is_array())
      fail_malformed(file_, std::string(name) + ": expected an array, got " + shown(json[name]));
    std::vector<TemplatePart> parts;
    int found[2] = {};
    size_t room = kMostTokens;
    for (const Json& one : json[name]) {
      parts.push_back(part_of(one, json["special_tokens"], name, room));
      room -= parts.back().ids.size();
      if (parts.back().text >= 0) ++found[parts.back().text];
    }
    if (found[0] != 1 || found[1] != texts - 1)
      fail_malformed(file_,
                     std::string(name) + ": expected " +
                         (texts == 1 ? "the sequence A once" : "the sequences A and B once"));
    return parts;
  }

  // `room`: how many tokens of its own the part may have.
  TemplatePart part_of(const Json& json, const Json& specials, const char* name,
                       size_t room) const {
    const bool one = json.is_object() && json.size() == 1;
    const std::string kind = one ? json.begin().key() : "";
    const Json part = one ? json.begin().value() : Json();
    if ((kind != "Sequence" && kind != "SpecialToken") || !part.is_object() ||
        !part.value("id", Json()).is_string() ||
        !part.value("type_id", Json()).is_number_unsigned() || part["type_id"] > kMostType)
      fail_malformed(file_,
                     std::string(name) +
                         ": expected a Sequence or a SpecialToken with id and type_id, got " +
                         shown(json));
    const auto& id = part["id"].get_ref<const std::string&>();
    const auto type = part["type_id"].get<int64_t>();
    if (kind == "SpecialToken")
      return {.text = -1, .ids = special_ids(specials, id, name, room), .type = type};
    if (id != "A" && id != "B")
      fail_malformed(file_, std::string(name) + ": expected the sequence A or B, got " + shown(id));
    return text_part(id == "A" ? 0 : 1, type);
  }

  std::vector<uint32_t> special_ids(const Json& specials, const std::string& id, const char* name,
                                    size_t room) const {
    const auto at = specials.is_object() ? specials.find(id) : specials.end();
    if (at == specials.end() || !at->is_object() || !at->value("ids", Json()).is_array())
      fail_malformed(file_,
                     "special_tokens: expected ids of " + rapt::in_quotes(id) + ", got none");
    if ((*at)["ids"].size() > room)
      fail_malformed(file_, std::string(name) + ": expected at most " +
                                std::to_string(kMostTokens) + " special tokens, got more");
    std::vector<uint32_t> ids;
    for (const Json& one : (*at)["ids"]) ids.push_back(id_from(one));
    return ids;
  }

  uint32_t id_from(const Json& id) const {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokens_)
      fail_malformed(file_, "post_processor: expected an id from 0 to " + std::to_string(tokens_) +
                                " - 1, got " + shown(id));
    return id.get<uint32_t>();
  }

  static TemplatePart text_part(int text, int64_t type) {
    return {.text = text, .ids = {}, .type = type};
  }

  static constexpr int64_t kMostType = 1 << 20;
  // Each part repeats the ids of its token, so that a small file could ask for much memory. Known
  // templates have four.
  static constexpr size_t kMostTokens = 1024;

  size_t tokens_;
  const std::string& file_;
  bool has_template_ = false;
};

}  // namespace

SequenceTemplate read_template(const Json& post_processor, size_t tokens, const std::string& file) {
  SequenceTemplate result;
  if (!post_processor.is_null()) TemplateReader(tokens, file).read(post_processor, result);
  return result;
}

}  // namespace rapt::text
