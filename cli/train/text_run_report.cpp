#include "cli/train/text_run_report.h"

#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

Json trained_model_part(const training::Trainer& trainer) {
  const nn::LanguageModelSpec& spec = trainer.model().spec;
  return {{"layout", nn::kLanguageModelLayoutNames[static_cast<int>(spec.layout)]},
          {"vocabulary", spec.vocabulary},
          {"context", spec.context},
          {"layers", spec.layers},
          {"heads", spec.heads},
          {"features", spec.features},
          {"parameters", nn::count_parameters(trainer.model())},
          {"dtype", name_of(trainer.model().dtype())}};
}

Json settings_part(const training::TrainingSettings& settings) {
  return {{"steps", settings.steps},
          {"batch", settings.batch},
          {"block", settings.block},
          {"learning_rate", settings.learning_rate},
          {"warmup_steps", settings.warmup_steps},
          {"evaluation_interval", settings.evaluation_interval},
          {"seed", settings.seed}};
}

}  // namespace

Json text_run_document(const TextRunReport& report, const TrainingTexts& texts,
                       const training::Trainer& trainer) {
  const training::TrainingState& state = trainer.state();
  Json document = {{"schema", "rapt.train_text/1"}, {"build", build_info()}};
  document["texts"] = Json::array();
  for (size_t i = 0; i < texts.texts.size(); ++i)
    document["texts"].push_back({{"name", texts.names[i]}, {"bytes", texts.texts[i].size()}});
  document["folder"] = report.folder;
  document["model"] = trained_model_part(trainer);
  document["settings"] = settings_part(state.settings);
  document["resumed_step"] = report.resumed_step ? Json(*report.resumed_step) : Json();
  document["step"] = state.step;
  document["evaluations"] = Json::array();
  for (const training::EvaluationRecord& record : report.evaluations)
    document["evaluations"].push_back({{"step", record.step},
                                       {"loss", record.loss},
                                       {"loss_per_byte", record.loss_per_byte},
                                       {"best", record.best}});
  document["best"] = nullptr;
  if (state.best) document["best"] = {{"step", state.best->step}, {"loss", state.best->loss}};
  document["time"] = {{"seconds", report.seconds},
                      {"tokens_per_second", report.tokens_per_second},
                      {"share_of_peak", report.share_of_peak}};
  return document;
}

}  // namespace rapt::cli
