#include "text/check_utf8.h"

#include <string>

#include "io/quoted.h"
#include "io/text/utf8.h"
#include "rapt/error.h"

namespace rapt::text {

void check_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(text.substr(at));
    const std::string_view bytes = text.substr(at, c.bytes);
    if (!is_valid(c, bytes))
      throw Error(ErrorCode::argument,
                  "text: expected UTF-8, got " + in_quotes(bytes) + " at byte " +
                      std::to_string(at) + "; convert the text to UTF-8",
                  "text");
    at += c.bytes;
  }
}

}  // namespace rapt::text
