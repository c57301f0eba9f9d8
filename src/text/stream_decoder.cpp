#include "rapt/text/stream_decoder.h"

#include <variant>

#include "io/text/utf8.h"
#include "rapt/error.h"
#include "text/parts.h"

namespace rapt::text {
namespace {

constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

// Do these bytes, of which decode_utf8() made `c`, only lack what follows them?
bool is_cut_short(const CodePoint& c, std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  return c.bytes == bytes.size() && !is_valid(c, bytes) && lead >= 0xC2 && lead <= 0xF4;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  if (std::holds_alternative<WordPieceModel>(tokenizer.parts().model))
    throw Error(ErrorCode::unsupported,
                "tokenizer: expected tokens that are bytes or characters of a text, got WordPiece; "
                "language models have the former, and decode() gives the text of the latter");
}

std::string StreamDecoder::next(int64_t id) {
  pending_ += tokenizer_.token_bytes(id);
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const CodePoint c = decode_utf8(rest);
    if (is_cut_short(c, rest)) break;
    const std::string_view bytes = rest.substr(0, c.bytes);
    text += is_valid(c, bytes) ? bytes : kReplacementBytes;
    rest.remove_prefix(c.bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string StreamDecoder::finish() {
  const std::string_view text = pending_.empty() ? std::string_view() : kReplacementBytes;
  pending_.clear();
  return std::string(text);
}

}  // namespace rapt::text
