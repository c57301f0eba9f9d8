#include "cli/support/tiny_language_model.h"

#include "rapt/checkpoint/model_files.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli_test {

void save_tiny_language_model(const std::string& folder, nn::LanguageModelLayout layout,
                              DType dtype) {
  const text::Tokenizer tokenizer = text::learn_characters(kTinyCharacters);
  nn::LanguageModel model = nn::make_language_model({.layout = layout,
                                                     .vocabulary = tokenizer.vocabulary(),
                                                     .context = kTinyContext,
                                                     .layers = 2,
                                                     .heads = 2,
                                                     .features = 8,
                                                     .initializer_range = 0.6},
                                                    dtype);
  nn::initialize_language_model(model, 1);
  checkpoint::save_model(folder, model);
  text::write_tokenizer(tokenizer, folder, Overwrite::yes);
}

}  // namespace rapt::cli_test
