#pragma once
// Normal form C: canonical decomposition, marks in the order of their classes, composition (Unicode
// Standard Annex 15), by the tables of the package tokenizers (dev/record_normal_form.py).
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/text/encoding.h"

namespace rapt::text {

// Is the text in the form already, and known to be so without composing anything?
bool is_surely_nfc(std::string_view text);

// A text in the form, and where its characters come from.
class NfcText {
 public:
  // `text` is valid UTF-8.
  explicit NfcText(std::string_view text);

  const std::string& text() const { return text_; }

  // Where the character of text() that has the byte `at` comes from, in bytes of the source. What
  // several characters are composed to has the place of the first one; the places of marks that are
  // exchanged stay in the order of the source, as in the package.
  ByteSpan place(size_t at) const;

 private:
  // From byte `at` of text_ on: a character of `bytes` in the source, or, if 0, bytes of the source
  // as they are.
  struct Piece {
    size_t at, begin, bytes;
  };
  void add_as_it_is(std::string_view source, size_t begin, size_t end);
  void add_composed(std::string_view source, size_t begin, size_t end);

  std::string text_;
  std::vector<Piece> pieces_;  // by `at`
};

}  // namespace rapt::text
