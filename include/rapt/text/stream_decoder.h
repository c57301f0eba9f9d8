#pragma once
// Token ids to text, one by one, as a model generates them: only whole characters come out.
#include <cstdint>
#include <string>

#include "rapt/text/tokenizer.h"

namespace rapt::text {

// A blank at the beginning stays, which decode() may take away: what is generated follows a prompt.
class StreamDecoder {
 public:
  // Throws Error(unsupported) for WordPiece, which is made for encoders: the text of its tokens is
  // Tokenizer::decode().
  explicit StreamDecoder(const Tokenizer& tokenizer);

  // The characters that this token completes: valid UTF-8, maybe none. Bytes that can begin no
  // character become U+FFFD, one for each longest part that could have begun one (Unicode 15,
  // section 3.9). Throws Error(argument): an id out of range.
  std::string next(int64_t id);

  // The end of the text: a character that is not complete becomes U+FFFD. The decoder is then as
  // new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::string pending_;  // the first bytes of a character
};

}  // namespace rapt::text
