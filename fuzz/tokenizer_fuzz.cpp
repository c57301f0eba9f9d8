// tokenizer.json from any bytes. A tokenizer that was read encodes the bytes of its file by the
// laws of encoding_laws.h, and survives writing and reading, unless it is of a kind that is not
// written.
#include <cstdint>
#include <string>
#include <string_view>

#include "encoding_laws.h"
#include "largest_allocation.h"
#include "rapt/text/tokenizer_file.h"

using namespace rapt;
using fuzz::require;

namespace {

// A value in an array has 16 bytes and at least 2 of text, in a list with up to twice the room that
// it needs; an id of an encoded byte has 8, in a list of this kind. A tokenizer has tables of all
// bytes.
constexpr size_t kBytesPerByte = 22, kBytesBeyond = 8192;

bool is_written(const text::Tokenizer& tokenizer) {
  try {
    text::tokenizer_json(tokenizer);
    return true;
  } catch (const Error& e) {
    require(e.code() == ErrorCode::unsupported);
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  fuzz::begin_watching();
  try {
    const text::Tokenizer tokenizer = text::parse_tokenizer(given, "fuzz");
    require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
    fuzz::encode_and_decode(tokenizer, given);
    if (!is_written(tokenizer)) return 0;
    const std::string json = text::tokenizer_json(tokenizer);
    const text::Tokenizer again = text::parse_tokenizer(json, "written");
    require(text::tokenizer_json(again) == json && again.vocabulary() == tokenizer.vocabulary());
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported);
    require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
  }
  return 0;
}
