#include "cli/generate/generate_report.h"

#include <fmt/format.h>

#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* finish_name(generation::Finish finish) {
  return generation::kFinishNames[static_cast<int>(finish)];
}

Json model_part(const model::DecoderModel& model) {
  const model::DecoderSpec& spec = model.spec;
  return {{"layout", model::kDecoderFamilyNames[static_cast<int>(spec.family)]},
          {"vocabulary", spec.vocabulary},
          {"context", spec.context},
          {"layers", spec.layers},
          {"heads", spec.heads},
          {"features", spec.features},
          {"dtype", name_of(model.computed)}};
}

Json sampling_part(const generation::SamplingOptions& sampling) {
  Json top_k = nullptr;
  if (sampling.top_k > 0) top_k = sampling.top_k;
  return {{"temperature", sampling.temperature},
          {"top_k", top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"seed", sampling.seed}};
}

// The fields of a call's only prompt, of all prompts, and of all texts.
void add_texts(const std::vector<ContinuedPrompt>& prompts, Json& document) {
  const bool only = prompts.size() == 1;
  document["prompt"] = only ? Json(prompts[0].prompt.text) : Json();
  document["prompt_tokens"] = only ? Json(prompts[0].tokens.size()) : Json();
  document["prompts"] = Json::array();
  document["texts"] = Json::array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    document["prompts"].push_back(
        {{"text", prompts[i].prompt.text}, {"tokens", prompts[i].tokens.size()}});
    for (const GeneratedText& text : prompts[i].texts)
      document["texts"].push_back({{"prompt", i},
                                   {"text", text.text},
                                   {"tokens", text.tokens},
                                   {"finish", finish_name(text.finish)}});
  }
}

}  // namespace

std::optional<double> GenerateReport::tokens_per_second() const {
  if (later_tokens == 0 || seconds <= 0) return std::nullopt;
  return static_cast<double>(later_tokens) / seconds;
}

std::string generate_summary(const GenerateReport& report) {
  int64_t tokens = 0, read = 0;
  for (const ContinuedPrompt& prompt : report.prompts) {
    read += std::ssize(prompt.tokens);
    for (const GeneratedText& text : prompt.texts) tokens += std::ssize(text.tokens);
  }
  std::string line = fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
  if (const auto speed = report.tokens_per_second())
    line += fmt::format(", {:.1f} per second", *speed);
  if (report.prompts.size() > 1)
    return line + fmt::format(", after {} prompts of {} in {:.2f} s", report.prompts.size(), read,
                              report.prompt_seconds);
  line += fmt::format(", after a prompt of {} in {:.2f} s", read, report.prompt_seconds);
  const std::vector<GeneratedText>& texts = report.prompts[0].texts;
  if (texts.size() > 1) return line;
  const generation::Finish finish = texts[0].finish;
  line += std::string("; ended by ") + finish_name(finish);
  if (finish == generation::Finish::context) line += ", which --when-full slide goes beyond";
  return line;
}

Json generate_document(const GenerateReport& report, const model::DecoderModel& model,
                       const generation::GeneratorOptions& options,
                       const std::string& attention_file) {
  Json document = {{"schema", "rapt.generate/1"}, {"build", build_info()}};
  document["model"] = model_part(model);
  add_texts(report.prompts, document);
  document["cache_dtype"] = name_of(options.cache_dtype.value_or(DType::f32));
  document["sampling"] = sampling_part(options.sampling);
  document["stop"] = report.stop;
  document["invariant"] = options.invariant;
  document["attention"] = nullptr;
  if (options.attention)
    document["attention"] = {{"path", attention_file},
                             {"layer", options.attention->layer},
                             {"head", options.attention->head}};
  Json speed = nullptr;
  if (const auto tokens_per_second = report.tokens_per_second()) speed = *tokens_per_second;
  document["time"] = {{"prompt_seconds", report.prompt_seconds},
                      {"seconds", report.seconds},
                      {"tokens_per_second", speed}};
  return document;
}

}  // namespace rapt::cli
