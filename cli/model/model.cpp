// rapt model: trained models in folders of Hugging Face transformers.
#include "cli/commands.h"
#include "cli/input/run_folder.h"
#include "cli/model/model_actions.h"
#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

void run_model(ModelArguments a) {
  ModelSettings settings = model_settings(a);
  a.folder = model_folder_of(a.folder);
  settings.context.cancel = &interruption();
  switch (settings.action) {
    case ModelAction::info:
      return run_model_info(a);
    case ModelAction::attend:
      return run_model_attend(a, settings);
    case ModelAction::embed:
      return run_model_embed(a, settings);
  }
}

}  // namespace

Command add_model(CLI::App& root) {
  CLI::App* app = root.add_subcommand("model", "what a trained model looks at; vectors of texts");
  const auto a = arguments_of<ModelArguments>(*app);
  add_model_options(*app, *a);
  app->footer(
      "Encoders are BERT (MiniLM), RoBERTa and DistilBERT. info and attend also take language\n"
      "models, which rapt generate continues: GPT-2, Llama, Mistral, Qwen 2 and 3, Gemma 2. "
      "Layers\n"
      "and heads count from 0.\n\n"
      "  rapt model info DIR\n"
      "  rapt model attend DIR \"The cat sat.\" --find sat,cat\n"
      "  rapt model attend DIR @text --layers 3 --heads 1 --heatmap map.svg\n"
      "  rapt model embed DIR \"The cat sat.\" \"A dog ran.\" --similar");
  return {app, [a] { model_settings(*a); }, [a] { run_model(*a); }};
}

}  // namespace rapt::cli
