// Any bytes as a text for a tokenizer, by the laws of encoding_laws.h. The first byte selects one
// of the small tokenizers in tokenizers/: WordPiece, byte-level BPE by each of the expressions that
// cut texts, and BPE with byte fallback.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "encoding_laws.h"
#include "rapt/text/tokenizer_file.h"

using namespace rapt;

namespace {

// The corpus refers to them by their place: '0' is the first.
constexpr const char* kNames[] = {"gpt2",
                                  "roberta",
                                  "llama3",
                                  "qwen2",
                                  "byte_fallback_llama",
                                  "byte_fallback_gemma",
                                  "byte_fallback_metaspace",
                                  "word_piece_uncased",
                                  "word_piece_cased"};

std::vector<text::Tokenizer> read_all() {
  std::vector<text::Tokenizer> tokenizers;
  for (const char* const name : kNames) {
    const std::string path = std::string(RAPT_FUZZ_TOKENIZERS "/") + name + ".json";
    std::ifstream in(path, std::ios::binary);
    const std::string json(std::istreambuf_iterator<char>(in), {});
    tokenizers.push_back(text::parse_tokenizer(json, path));
  }
  return tokenizers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<text::Tokenizer> tokenizers = read_all();
  if (size == 0) return 0;
  const auto selected = static_cast<uint8_t>(data[0] - '0') % tokenizers.size();
  fuzz::encode_and_decode(tokenizers[selected],
                          {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
