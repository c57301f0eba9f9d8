#include "cli/model/encoder_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/output/narrate.h"
#include "cli/process/failure.h"
#include "cli/tokenize/text_argument.h"

namespace rapt::cli {
void check_model_folder(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw Failure(Exit::io, folder + ": no such folder",
                  "expected a folder with config.json, model.safetensors and tokenizer.json");
  if (!std::filesystem::exists(folder + "/config.json", ignored))
    throw Failure(Exit::io, folder + ": has no config.json",
                  "expected a folder as Hugging Face transformers writes it");
}

void check_token_count(const std::string& folder, int64_t tokens, int64_t vocabulary) {
  if (tokens > vocabulary)
    throw Failure(Exit::data,
                  fmt::format("{}: tokenizer.json has {} tokens, the model {}; expected the "
                              "tokenizer of this model",
                              folder, tokens, vocabulary));
}

EncoderFolder open_encoder(const std::string& folder) {
  check_model_folder(folder);
  text::Tokenizer tokenizer = tokenizer_at(folder);
  model::EncoderModel model = model::load_encoder(folder);
  check_token_count(folder, tokenizer.vocabulary(), model.spec.vocabulary);
  return {std::move(model), std::move(tokenizer)};
}

double encoder_row_elements(const model::EncoderSpec& spec) {
  return 5 * static_cast<double>(spec.features) + static_cast<double>(spec.hidden_features);
}

text::Encoding model_tokens(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                            const std::vector<std::string>& names, int64_t longest, bool truncate) {
  text::Encoding encoding =
      encode_named(tokenizer, texts, names, {.most_tokens = truncate ? longest : 0});
  const std::string what = texts.size() > 1 ? "the pair" : names[0];
  if (std::ssize(encoding.ids) > longest)
    throw Failure(
        Exit::data,
        fmt::format("{} has {} tokens, the model reads {}", what, encoding.ids.size(), longest),
        "--truncate cuts it");
  if (encoding.cut)
    narrate(fmt::format("{} is cut to the {} tokens that the model reads", what, longest));
  return encoding;
}

}  // namespace rapt::cli
