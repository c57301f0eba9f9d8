#pragma once
// What `rapt generate` says about a run: the line behind the text, and the document for programs.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/generate/generate_arguments.h"
#include "cli/generate/prompts.h"
#include "rapt/model/decoder_model.h"

namespace rapt::cli {

struct GeneratedText {
  std::string text;  // without the prompt; UTF-8
  std::vector<int64_t> tokens;
  generation::Finish finish = generation::Finish::none;
};

struct ContinuedPrompt {
  Prompt prompt;
  std::vector<int64_t> tokens = {};  // of the prompt
  std::vector<GeneratedText> texts = {};
};

struct GenerateReport {
  std::vector<std::string> stop;  // words that end a text
  std::vector<ContinuedPrompt> prompts = {};
  double prompt_seconds = 0;  // until the first token of each text
  double seconds = 0;         // of all others
  int64_t later_tokens = 0;   // which were written in these

  std::optional<double> tokens_per_second() const;
};

// "48 tokens, 158.2 per second, after a prompt of 5 in 0.02 s; ended by length"
std::string generate_summary(const GenerateReport& report);

// The document; schema: docs/json.md. `options` are those of the run.
nlohmann::ordered_json generate_document(const GenerateReport& report,
                                         const model::DecoderModel& model,
                                         const generation::GeneratorOptions& options,
                                         const std::string& attention_file);

}  // namespace rapt::cli
