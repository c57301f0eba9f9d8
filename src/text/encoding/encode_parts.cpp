#include "text/encoding/encode_parts.h"

#include <algorithm>
#include <variant>

#include "io/text/utf8.h"
#include "text/space_runs.h"

namespace rapt::text {
namespace {

bool is_inside_character(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// pre_tokenizers/byte_level.rs, process_offsets: [from, to) is what is no blank in the token
// [begin, end) of a text; [end, end) if all are blanks.
ByteSpan trimmed(TrimSpans trim, std::string_view text, size_t begin, size_t end, size_t from,
                 size_t to) {
  if (trim == TrimSpans::no) from = begin, to = end;
  const bool one_blank_in_front = begin == 0 && from > 0 && from == decode_utf8(text).bytes;
  if (trim == TrimSpans::blanks_but_first && one_blank_in_front) {
    if (from == end) to = begin;  // the blank is cut from the end nevertheless
    from = begin;
  }
  return {static_cast<int64_t>(from), static_cast<int64_t>(to)};
}

// Spans of tokens whose bytes are those of the text, one token after the other.
class SpansOfBytes {
 public:
  SpansOfBytes(const Tokenizer::Parts& parts, std::string_view text, std::vector<ByteSpan>& spans)
      : parts_(parts), text_(text), spans_(spans) {}

  // Those of ids [spans so far, all), which stand for the text from `begin`.
  void add(const std::vector<int64_t>& ids, size_t first, size_t begin) {
    size_t at = begin;
    for (size_t i = first; i < ids.size(); ++i) {
      const size_t bytes = parts_.tokens[static_cast<size_t>(ids[i])].size();
      spans_.push_back(whole_characters(at, at + bytes));
      at += bytes;
    }
  }

 private:
  ByteSpan whole_characters(size_t begin, size_t end) const {
    while (is_inside_character(text_, begin)) --begin;
    while (is_inside_character(text_, end)) ++end;
    size_t from = begin, to = end;
    while (from < to && text_[from] == ' ') ++from;
    while (to > from && text_[to - 1] == ' ') --to;
    return trimmed(parts_.around.trim, text_, begin, end, from, to);
  }

  const Tokenizer::Parts& parts_;
  std::string_view text_;
  std::vector<ByteSpan>& spans_;
};

// Appends what `encoder` makes of a text, and the added tokens in it.
template <class EncodePart>
void encode_around_added(const Tokenizer::Parts& parts, std::string_view text,
                         std::vector<int64_t>& ids, std::vector<ByteSpan>* spans,
                         const EncodePart& encode_part) {
  const TrimSpans trim = parts.around.trim;
  parts.added.split(text, encode_part, [&](uint32_t id, size_t begin, size_t end) {
    ids.push_back(id);
    if (!spans) return;
    const size_t from = end_of_space(text.substr(0, end), begin);
    spans->push_back(trimmed(trim, text, begin, end, from, begin_of_space(text, from, end)));
  });
}

template <class Model>
void encode_by(const Model& model, const Tokenizer::Parts& parts, std::string_view text,
               std::vector<int64_t>& ids, std::vector<ByteSpan>* spans) {
  typename Model::Encoder encoder(model, ids);
  encode_around_added(parts, text, ids, spans, [&](size_t begin, size_t end) {
    const size_t first = ids.size();
    encoder.encode(text, begin, end);
    if (spans) SpansOfBytes(parts, text, *spans).add(ids, first, begin);
  });
}

void encode_by(const WordPieceModel& model, const Tokenizer::Parts& parts, std::string_view text,
               std::vector<int64_t>& ids, std::vector<ByteSpan>* spans) {
  WordPieceModel::Encoder encoder(model, ids, spans);
  encode_around_added(parts, text, ids, spans,
                      [&](size_t begin, size_t end) { encoder.encode(text, begin, end); });
}

}  // namespace

void encode_parts(const Tokenizer::Parts& parts, std::string_view text, std::vector<int64_t>& ids,
                  std::vector<ByteSpan>* spans) {
  std::visit([&](const auto& model) { encode_by(model, parts, text, ids, spans); }, parts.model);
}

}  // namespace rapt::text
