#include "text/wordpiece/word_piece.h"

#include <algorithm>
#include <utility>

#include "io/text/utf8.h"

namespace rapt::text {
namespace {

// Texts are normalised in chunks. A chunk ends at the first blank behind so many bytes.
constexpr size_t kChunk = size_t{1} << 16;

// decoders/wordpiece.rs, cleanup.
constexpr std::pair<std::string_view, std::string_view> kCleanedUp[] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

WordPieceModel::WordPieceModel(const std::vector<std::string>& texts, Settings settings)
    : settings_(std::move(settings)) {
  std::vector<LongestMatch::Entry> beginnings, continuations;
  for (size_t id = 0; id < texts.size(); ++id) {
    const std::string& text = texts[id];
    // A token with the prefix can begin a word, too.
    if (!text.empty()) beginnings.push_back({text, static_cast<uint32_t>(id)});
    if (text.starts_with(settings_.prefix) && text.size() > settings_.prefix.size())
      continuations.push_back({text.substr(settings_.prefix.size()), static_cast<uint32_t>(id)});
  }
  beginnings_ = LongestMatch(std::move(beginnings));
  continuations_ = LongestMatch(std::move(continuations));
}

std::string WordPieceModel::decoded(std::string_view token, bool is_first) const {
  std::string text(token);
  if (!is_first) {
    if (token.starts_with(settings_.decoder_prefix))
      text = token.substr(settings_.decoder_prefix.size());
    else
      text.insert(0, 1, ' ');
  }
  if (settings_.cleans_up)
    for (const auto& [from, to] : kCleanedUp) replace_all(text, from, to);
  return text;
}

void WordPieceModel::Encoder::encode(std::string_view text, size_t begin, size_t end) {
  // What follows the part is never searched: a text may have a part between any two added tokens.
  text = text.substr(0, end);
  while (begin < end) {
    const size_t blank = text.find_first_of(" \n", std::min(begin + kChunk, end));
    const size_t chunk_end = std::min(blank, end);
    normalizer_.normalize(text, begin, chunk_end, normal_);
    encode_normal();
    begin = chunk_end;
  }
}

void WordPieceModel::Encoder::encode_normal() {
  for (const NormalCharacter& c : normal_) {
    const WordPart part = word_part_of(c.value);
    if (part != WordPart::letter) end_word();
    if (part == WordPart::blank) continue;
    begins_.push_back(word_.size());
    append_utf8(c.value, word_);
    sources_.push_back({static_cast<int64_t>(c.begin), static_cast<int64_t>(c.begin + c.bytes)});
    if (part == WordPart::punctuation) end_word();
  }
  end_word();
}

void WordPieceModel::Encoder::end_word() {
  if (begins_.empty()) return;
  const size_t ids = ids_.size(), spans = spans_ ? spans_->size() : 0;
  if (begins_.size() > model_.settings_.most_characters || !cut_word()) {
    ids_.resize(ids);
    if (spans_) spans_->resize(spans);
    add(model_.settings_.unknown, 0, begins_.size() - 1);
  }
  word_.clear();
  begins_.clear();
  sources_.clear();
}

// False: some part of the word is no token.
bool WordPieceModel::Encoder::cut_word() {
  size_t first = 0;
  while (first < begins_.size()) {
    const LongestMatch& table = first == 0 ? model_.beginnings_ : model_.continuations_;
    const LongestMatch::Found found = table.find(std::string_view(word_).substr(begins_[first]));
    if (found.bytes == 0) return false;
    // Tokens are UTF-8, so that they end where characters do.
    const size_t end = begins_[first] + found.bytes;
    const size_t next =
        static_cast<size_t>(std::ranges::lower_bound(begins_, end) - begins_.begin());
    add(found.id, first, next - 1);
    first = next;
  }
  return true;
}

void WordPieceModel::Encoder::add(uint32_t id, size_t first, size_t last) {
  ids_.push_back(id);
  if (spans_) spans_->push_back({sources_[first].begin, sources_[last].end});
}

}  // namespace rapt::text
