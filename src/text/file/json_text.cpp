#include "text/file/json_text.h"

#include "io/quoted.h"
#include "rapt/error.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;  // templates of post-processors, the deepest values, need 6

// A pass of its own, since a callback of the parser costs a value for each key of a vocabulary.
// Brackets are counted right up to the first byte that is no JSON, where the parser stops.
bool is_too_deep(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(std::string_view json, const std::string& name) {
  if (std::ssize(json) > kMaxTokenizerFile)
    fail_malformed(name, "expected at most " + std::to_string(kMaxTokenizerFile) + " bytes, got " +
                             std::to_string(json.size()));
  // The parser treats a zero byte as the end, whatever follows it.
  const size_t zero = json.find('\0');
  if (zero != std::string_view::npos)
    fail_malformed(name, "expected JSON, got a zero byte at its byte " + std::to_string(zero));
  if (is_too_deep(json))
    fail_malformed(name, "expected objects and arrays at most " + std::to_string(kMaxDepth) +
                             " deep, got more");
  try {
    return Json::parse(json.begin(), json.end());
  } catch (const Json::parse_error& error) {
    fail_malformed(name, "expected JSON, got none at its byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range&) {
    fail_malformed(name, "expected JSON with numbers of 64 bits, got a larger one");
  }
}

void fail_malformed(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::format, path_text(name) + ": malformed tokenizer: " + what +
                                     "; the file is damaged, copy or write it again");
}

void fail_unsupported(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::unsupported, path_text(name) + ": " + what +
                                          " is not supported; rapt reads byte-level BPE as "
                                          "GPT-2's, BPE with byte fallback as Llama "
                                          "2's, WordPiece as BERT's, and characters");
}

std::string shown(const Json& value) {
  return rapt::in_quotes(value.is_string() ? value.get_ref<const std::string&>()
                                           : value.dump(-1, ' ', true));
}

}  // namespace rapt::text
