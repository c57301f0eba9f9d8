// tokenizer.json from any bytes. A tokenizer that was read survives writing and reading, and
// decodes what it encodes.
#include <cstdint>
#include <cstdlib>

#include "largest_allocation.h"
#include "rapt/error.h"
#include "rapt/text/tokenizer_file.h"

using namespace rapt;

namespace {

// A value in an array has 16 bytes and at least 2 of text, in a list with up to twice the room that
// it needs; an id of an encoded byte has 8, in a list of this kind. A tokenizer has tables of all
// bytes.
constexpr size_t kBytesPerByte = 22, kBytesBeyond = 8192;

void require(bool condition) {
  if (!condition) std::abort();
}

void encode_and_decode(const text::Tokenizer& tokenizer, std::string_view given) {
  try {
    const std::vector<int64_t> ids = tokenizer.encode(given);
    for (const int64_t id : ids) require(id >= 0 && id < tokenizer.vocabulary());
    require(tokenizer.decode(ids) == given);
  } catch (const Error& e) {  // a character that is not in the vocabulary
    require(e.code() == ErrorCode::argument);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  fuzz::begin_watching();
  try {
    const text::Tokenizer tokenizer = text::parse_tokenizer(given, "fuzz");
    require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
    encode_and_decode(tokenizer, given);
    const std::string json = text::tokenizer_json(tokenizer);
    const text::Tokenizer again = text::parse_tokenizer(json, "written");
    require(text::tokenizer_json(again) == json && again.vocabulary() == tokenizer.vocabulary());
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported);
    require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
  }
  return 0;
}
