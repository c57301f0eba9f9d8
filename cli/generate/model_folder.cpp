#include "cli/generate/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "cli/process/failure.h"
#include "cli/process/memory.h"
#include "rapt/text/encoding.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli {
namespace {

// Calls visit(character) for the bytes of each character of valid UTF-8.
template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    visit(text.substr(begin, end - begin));
    begin = end;
  }
}

bool can_encode(const text::Tokenizer& tokenizer, std::string_view text) {
  try {
    tokenizer.encode(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The different characters of a text that the tokenizer lacks, in the order of their first places.
std::vector<std::string_view> lacking_characters(const text::Tokenizer& tokenizer,
                                                 std::string_view text) {
  std::vector<std::string_view> seen, lacking;
  for_each_character(text, [&](std::string_view character) {
    if (std::ranges::find(seen, character) != seen.end()) return;
    seen.push_back(character);
    if (!can_encode(tokenizer, character)) lacking.push_back(character);
  });
  return lacking;
}

}  // namespace

text::Tokenizer read_folder_tokenizer(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    const bool exists = std::filesystem::exists(folder, ignored);
    throw Failure(Exit::io, folder + (exists ? ": is no folder" : ": no such folder"),
                  "expected a folder with config.json, model.safetensors and tokenizer.json");
  }
  if (!std::filesystem::exists(folder + "/tokenizer.json", ignored))
    throw Failure(Exit::io, folder + ": has no tokenizer.json",
                  "text becomes tokens by the tokenizer that the model was trained with");
  return text::read_tokenizer(folder);
}

void check_generation_memory(const std::string& folder, DType dtype,
                             const generation::GeneratorOptions& options, int64_t prompt) {
  const model::DecoderInfo info = model::load_decoder_info(folder, dtype);
  const auto weights = static_cast<double>(info.copied_bytes);
  // A longer prompt is rejected by the generator.
  const double cache = generation_bytes(decoder_sizes(info.spec, dtype), options,
                                        std::min(prompt, info.spec.context));
  require_memory(weights + cache,
                 fmt::format("weights while they are loaded {}, keys, values and temporaries {}",
                             bytes_text(weights), bytes_text(cache)),
                 "they grow with the prompt, --length and --num");
}

model::DecoderModel read_folder_model(const std::string& folder, const text::Tokenizer& tokenizer,
                                      DType dtype) {
  model::DecoderModel model = model::load_decoder(folder, dtype);
  if (tokenizer.vocabulary() > model.spec.vocabulary)
    throw Failure(Exit::data,
                  fmt::format("{}: tokenizer.json has {} tokens, the model {}; expected the "
                              "tokenizer of this model",
                              folder, tokenizer.vocabulary(), model.spec.vocabulary));
  return model;
}

std::vector<int64_t> encode_prompt(const text::Tokenizer& tokenizer, const std::string& option,
                                   const std::string& prompt) {
  try {
    // With the tokens that the tokenizer puts around a text, as a first one of Llama 3's.
    return encode_texts(tokenizer, prompt).ids;
  } catch (const Error& error) {
    constexpr size_t kMostNamed = 16;
    // Of a text that is not UTF-8 there are no characters to name; the message says where.
    const bool utf8 = std::string_view(error.what()).find("UTF-8") == std::string_view::npos;
    if (!utf8) throw Error(error.code(), option + ": " + error.what());
    const std::vector<std::string_view> lacking = lacking_characters(tokenizer, prompt);
    std::string names;
    for (size_t i = 0; i < std::min(lacking.size(), kMostNamed); ++i)
      names += fmt::format("{}'{}'", i ? ", " : "", lacking[i]);
    if (lacking.size() > kMostNamed)
      names += fmt::format(" and {} more", lacking.size() - kMostNamed);
    throw Failure(Exit::data, option + ": the tokenizer lacks " + names,
                  "the model was trained on texts without them");
  }
}

}  // namespace rapt::cli
