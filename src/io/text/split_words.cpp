// split_words: text -> words and punctuation marks.
#include <algorithm>
#include <iterator>

#include "io/text/utf8.h"
#include "rapt/io/text_features.h"

namespace rapt {
namespace {

enum class Kind : uint8_t {
  blank,   // separates, and is dropped
  letter,  // joins with its neighbours to a word
  digit,
  single,  // a token by itself
  extend,  // belongs to the character before it
};

struct Block {
  char32_t first, last;
  Kind kind;
};

// Blocks of Unicode 15 beyond ASCII, in order; code points outside are letters. Blocks and not
// every property: a label needs a sensible cut, not the full word-break algorithm.
constexpr Block kBlocks[] = {
    {0x0080, 0x00A0, Kind::blank},     // C1 controls, no-break space
    {0x00A1, 0x00A9, Kind::single},    // Latin-1 punctuation; U+00AA is a letter
    {0x00AB, 0x00B4, Kind::single},    // U+00B5 (micro) is a letter
    {0x00B6, 0x00B6, Kind::single},    // U+00B7 (middle dot) stands inside Catalan words
    {0x00B8, 0x00B9, Kind::single},    //
    {0x00BB, 0x00BF, Kind::single},    // U+00BA is a letter
    {0x00D7, 0x00D7, Kind::single},    // multiplication sign
    {0x00F7, 0x00F7, Kind::single},    // division sign
    {0x0300, 0x036F, Kind::extend},    // combining diacritical marks
    {0x1680, 0x1680, Kind::blank},     // Ogham space
    {0x2000, 0x200A, Kind::blank},     // spaces of given widths
    {0x200B, 0x200F, Kind::extend},    // zero-width space and joiners, direction marks
    {0x2010, 0x2027, Kind::single},    // dashes, quotes, bullets
    {0x2028, 0x2029, Kind::blank},     // line and paragraph separator
    {0x202A, 0x202E, Kind::extend},    // direction embeddings
    {0x202F, 0x202F, Kind::blank},     // narrow no-break space
    {0x2030, 0x205E, Kind::single},    // per mille, primes, guillemets
    {0x205F, 0x205F, Kind::blank},     // mathematical space
    {0x2060, 0x206F, Kind::extend},    // word joiner, direction isolates
    {0x20A0, 0x20CF, Kind::single},    // currency
    {0x20D0, 0x20FF, Kind::extend},    // combining marks for symbols
    {0x2190, 0x2BFF, Kind::single},    // arrows, mathematics, shapes, dingbats
    {0x3000, 0x3000, Kind::blank},     // ideographic space
    {0x3001, 0x3004, Kind::single},    // CJK punctuation
    {0x3008, 0x3029, Kind::single},    // CJK brackets
    {0x302A, 0x302F, Kind::extend},    // tone marks
    {0x3030, 0x3098, Kind::single},    // Hiragana
    {0x3099, 0x309A, Kind::extend},    // combining voicing marks
    {0x309B, 0x30FF, Kind::single},    // Katakana
    {0x31F0, 0x31FF, Kind::single},    // small Katakana
    {0x3400, 0x4DBF, Kind::single},    // Han, extension A
    {0x4E00, 0x9FFF, Kind::single},    // Han
    {0xF900, 0xFAFF, Kind::single},    // Han, compatibility
    {0xFE00, 0xFE0F, Kind::extend},    // variation selectors
    {0xFE10, 0xFE1F, Kind::single},    // vertical punctuation
    {0xFE20, 0xFE2F, Kind::extend},    // combining half marks
    {0xFE30, 0xFE6F, Kind::single},    // CJK compatibility forms, small forms
    {0xFEFF, 0xFEFF, Kind::blank},     // byte order mark
    {0xFF01, 0xFF0F, Kind::single},    // fullwidth punctuation; digits and letters stay letters
    {0xFF1A, 0xFF20, Kind::single},    //
    {0xFF3B, 0xFF40, Kind::single},    //
    {0xFF5B, 0xFF65, Kind::single},    //
    {0xFFFD, 0xFFFD, Kind::single},    // the replacement for invalid bytes
    {0x1F000, 0x1F3FA, Kind::single},  // pictographs
    {0x1F3FB, 0x1F3FF, Kind::extend},  // skin tones
    {0x1F400, 0x1FAFF, Kind::single},  // pictographs
    {0x20000, 0x3FFFF, Kind::single},  // Han, extensions B and later
    {0xE0000, 0xE0FFF, Kind::extend},  // tags, further variation selectors
};

Kind kind_of(char32_t c) {
  if (c < 0x80) {
    if (c <= 0x20 || c == 0x7F) return Kind::blank;
    if (c >= '0' && c <= '9') return Kind::digit;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter ? Kind::letter : Kind::single;
  }
  const auto* block = std::upper_bound(std::begin(kBlocks), std::end(kBlocks), c,
                                       [](char32_t v, const Block& b) { return v <= b.last; });
  return block != std::end(kBlocks) && c >= block->first ? block->kind : Kind::letter;
}

bool in_word(Kind kind) { return kind == Kind::letter || kind == Kind::digit; }

// Whether a mark between two characters holds them together: "don't", "3.14", "1,000".
bool binds(char32_t mark, Kind before, Kind after) {
  constexpr char32_t kApostrophe = 0x2019;
  if (mark == '\'' || mark == kApostrophe) return in_word(before) && in_word(after);
  return (mark == '.' || mark == ',') && before == Kind::digit && after == Kind::digit;
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  constexpr char32_t kZeroWidthJoiner = 0x200D;
  constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";
  std::vector<std::string> words;
  Kind previous = Kind::blank;  // of the last character that was not an extension
  bool joined = false;          // the last character glues the next one on: emoji families
  bool half_flag = false;       // the last character is the first of the two letters of a flag
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text.substr(at));
    const std::string_view bytes =
        c.value == kReplacement ? kReplacementUtf8 : text.substr(at, c.bytes);
    at += c.bytes;
    Kind kind = kind_of(c.value);
    if (kind == Kind::single && at < text.size() &&
        binds(c.value, previous, kind_of(decode_utf8(text.substr(at)).value))) {
      kind = previous;
    }
    if (kind == Kind::blank) {
      previous = kind;
      joined = half_flag = false;
      continue;
    }
    const bool same_word = in_word(kind) && in_word(previous);
    const bool flag_letter = c.value >= 0x1F1E6 && c.value <= 0x1F1FF;
    const bool attached = kind == Kind::extend || joined || (half_flag && flag_letter);
    if (previous != Kind::blank && (same_word || attached)) {
      words.back() += bytes;
    } else {
      words.emplace_back(bytes);
    }
    joined = c.value == kZeroWidthJoiner;
    half_flag = flag_letter && !attached;
    // An extension with nothing before it is a token that further extensions join.
    if (kind != Kind::extend)
      previous = kind;
    else if (previous == Kind::blank)
      previous = Kind::single;
  }
  return words;
}

}  // namespace rapt
