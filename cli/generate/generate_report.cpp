#include "cli/generate/generate_report.h"

#include <fmt/format.h>

#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* finish_name(generation::Finish finish) {
  return generation::kFinishNames[static_cast<int>(finish)];
}

Json model_part(const GenerationModel& model) {
  return {{"layout", model.family},
          {"vocabulary", model.sizes.vocabulary},
          {"context", model.sizes.context},
          {"layers", model.sizes.layers},
          {"heads", model.sizes.heads},
          {"features", model.features},
          {"dtype", name_of(model.sizes.dtype)}};
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

}  // namespace

std::optional<double> GenerateReport::tokens_per_second() const {
  if (later_tokens == 0 || seconds <= 0) return std::nullopt;
  return static_cast<double>(later_tokens) / seconds;
}

std::string generate_summary(const GenerateReport& report) {
  int64_t tokens = 0;
  for (const GeneratedText& text : report.texts) tokens += std::ssize(text.tokens);
  std::string line = fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
  if (const auto speed = report.tokens_per_second())
    line += fmt::format(", {:.1f} per second", *speed);
  line += fmt::format(", after a prompt of {} in {:.2f} s", report.prompt_tokens,
                      report.prompt_seconds);
  if (report.texts.size() > 1) return line;
  const generation::Finish finish = report.texts[0].finish;
  line += std::string("; ended by ") + finish_name(finish);
  if (finish == generation::Finish::context) line += ", which --when-full slide goes beyond";
  return line;
}

Json generate_document(const GenerateReport& report, const GenerationModel& model,
                       const generation::GeneratorOptions& options,
                       const std::string& attention_file) {
  Json document = {{"schema", "rapt.generate/1"}, {"build", build_info()}};
  document["model"] = model_part(model);
  document["prompt"] = report.prompt;
  document["prompt_tokens"] = report.prompt_tokens;
  const DType own_type = model.sizes.cache_dtype.value_or(model.sizes.dtype);
  document["cache_dtype"] = name_of(options.cache_dtype.value_or(own_type));
  document["sampling"] = sampling_part(options.sampling);
  document["stop"] = report.stop;
  document["invariant"] = options.invariant;
  document["texts"] = Json::array();
  for (const GeneratedText& text : report.texts)
    document["texts"].push_back(
        {{"text", text.text}, {"tokens", text.tokens}, {"finish", finish_name(text.finish)}});
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
