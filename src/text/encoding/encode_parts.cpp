#include "text/encoding/encode_parts.h"

#include <algorithm>
#include <list>
#include <variant>

#include "io/text/utf8.h"
#include "text/normal_form/nfc.h"
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

// Spans of tokens whose bytes are those of a text that is encoded, one token after the other.
class SpansOfBytes {
 public:
  SpansOfBytes(const Tokenizer::Parts& parts, std::string_view text, std::vector<ByteSpan>& spans)
      : parts_(parts), text_(text), encoded_(text), spans_(spans) {}

  // The bytes are those of `part`, which is made of what begins at `begin` of the text.
  SpansOfBytes(const Tokenizer::Parts& parts, std::string_view text, size_t begin,
               const NfcText& part, std::vector<ByteSpan>& spans)
      : parts_(parts),
        text_(text),
        encoded_(part.text()),
        part_(&part),
        part_begin_(static_cast<int64_t>(begin)),
        spans_(spans) {}

  // Those of ids [first, all), which stand for what is encoded from `begin`.
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
    while (is_inside_character(encoded_, begin)) --begin;
    while (is_inside_character(encoded_, end)) ++end;
    size_t from = begin, to = end;
    while (from < to && encoded_[from] == ' ') ++from;
    while (to > from && encoded_[to - 1] == ' ') --to;
    const size_t last = source_end(end);
    return trimmed(parts_.around.trim, text_, source_begin(begin), last,
                   from < end ? source_begin(from) : last, from < to ? source_end(to) : last);
  }

  size_t source_begin(size_t at) const {
    return part_ ? static_cast<size_t>(part_begin_ + part_->place(at).begin) : at;
  }
  size_t source_end(size_t end) const {
    return part_ ? static_cast<size_t>(part_begin_ + part_->place(end - 1).end) : end;
  }

  const Tokenizer::Parts& parts_;
  std::string_view text_, encoded_;
  const NfcText* part_ = nullptr;  // null: the text itself is encoded
  int64_t part_begin_ = 0;
  std::vector<ByteSpan>& spans_;
};

// Spans of tokens of a BPE with byte fallback, which have the characters of the text, with blanks
// of another form, or one byte of a character.
class SpansOfCharacters {
 public:
  SpansOfCharacters(const Tokenizer::Parts& parts, std::string_view text,
                    std::vector<ByteSpan>& spans)
      : parts_(parts), text_(text), spans_(spans) {}

  // As SpansOfBytes. A blank in front of the part is added to it; its place is that of the first
  // character (tokenizers, NormalizedString::prepend).
  void add(const std::vector<int64_t>& ids, size_t first, size_t begin, bool blank_in_front) {
    size_t at = begin;
    for (size_t i = first; i < ids.size(); ++i) {
      const std::string_view token = parts_.tokens[static_cast<size_t>(ids[i])];
      const size_t from = at;
      size_t to = at;
      for (size_t j = 0; j < token.size(); j += decode_utf8(token.substr(j)).bytes) {
        const bool is_byte = static_cast<unsigned char>(token[j]) >= 0x80 && token.size() == 1;
        const size_t bytes = is_byte ? 1 : decode_utf8(text_.substr(at)).bytes;
        to = at + bytes;
        if (!blank_in_front) at = to;
        blank_in_front = false;
      }
      push_whole_characters(from, to);
    }
  }

 private:
  void push_whole_characters(size_t begin, size_t end) {
    while (is_inside_character(text_, begin)) --begin;
    while (is_inside_character(text_, end)) ++end;
    spans_.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
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
  std::list<NfcText> composed;  // they outlive the encoder
  typename Model::Encoder encoder(model, ids);
  encode_around_added(parts, text, ids, spans, [&](size_t begin, size_t end) {
    const size_t first = ids.size();
    if (!parts.composes || is_surely_nfc(text.substr(begin, end - begin))) {
      encoder.encode(text, begin, end);
      if (spans) SpansOfBytes(parts, text, *spans).add(ids, first, begin);
      return;
    }
    const NfcText& part = composed.emplace_back(text.substr(begin, end - begin));
    encoder.encode(part.text(), 0, part.text().size());
    if (spans) SpansOfBytes(parts, text, begin, part, *spans).add(ids, first, 0);
  });
}

void encode_by(const ByteFallbackBpe& model, const Tokenizer::Parts& parts, std::string_view text,
               std::vector<int64_t>& ids, std::vector<ByteSpan>* spans) {
  ByteFallbackBpe::Encoder encoder(model, ids);
  encode_around_added(parts, text, ids, spans, [&](size_t begin, size_t end) {
    const size_t first = ids.size();
    encoder.encode(text, begin, end);
    if (spans)
      SpansOfCharacters(parts, text, *spans).add(ids, first, begin, model.adds_blank(text, begin));
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
