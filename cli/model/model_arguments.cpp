#include "cli/model/model_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/input/rows_argument.h"
#include "cli/output/tensor_output.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

ModelAction action_from(const std::string& word) {
  const std::vector<std::string_view> known(std::begin(kModelActions), std::end(kModelActions));
  if (word.empty()) throw usage_error("expected info, attend or embed, and the folder of a model");
  const auto found = std::ranges::find(known, word);
  if (found == known.end())
    throw usage_error("expected info, attend or embed, got '" + word + "'",
                      did_you_mean(word, known));
  return static_cast<ModelAction>(found - known.begin());
}

// "64x64:max"
MapRequest map_from(const std::string& text) {
  const size_t times = text.find('x'), colon = text.find(':');
  const std::string pool = colon == std::string::npos ? "mean" : text.substr(colon + 1);
  if (times == std::string::npos || times > colon || (pool != "mean" && pool != "max"))
    throw usage_error("--map: expected ROWSxCOLUMNS:max or :mean, got '" + text + "'");
  const auto number = [&](const std::string& part) {
    return integer_from("--map", part.empty() ? "0" : part, 0, 1);
  };
  return {.rows = number(text.substr(0, times)),
          .columns = number(
              text.substr(times + 1, colon == std::string::npos ? colon : colon - times - 1)),
          .pool = pool == "max" ? Pool::max : Pool::mean};
}

void check_model_texts(const ModelArguments& a, ModelAction action) {
  if (a.folder.empty()) throw usage_error("expected the folder of a model");
  const size_t texts = a.texts.size();
  if (action == ModelAction::info && texts > 0)
    throw usage_error("info takes a folder alone, got '" + a.texts[0] + "'");
  if (action == ModelAction::attend && (texts < 1 || texts > 2))
    throw usage_error(fmt::format("attend takes one text, or two as a pair, got {}", texts));
  if (action == ModelAction::embed && texts < 1)
    throw usage_error("embed takes texts, or @FILE with one per line");
}

void check_belongs(const ModelArguments& a, ModelAction action) {
  const auto refuse = [&](bool given, const char* option, ModelAction to) {
    if (given && action != to)
      throw usage_error(
          fmt::format("{} belongs to rapt model {}", option, kModelActions[static_cast<int>(to)]));
  };
  refuse(!a.layers.empty(), "--layers", ModelAction::attend);
  refuse(!a.heads.empty(), "--heads", ModelAction::attend);
  refuse(!a.rows.empty(), "--rows", ModelAction::attend);
  refuse(!a.map.empty(), "--map", ModelAction::attend);
  refuse(!a.top_k.empty(), "--top-k", ModelAction::attend);
  refuse(!a.find.empty(), "--find", ModelAction::attend);
  refuse(a.hide_special, "--hide-special", ModelAction::attend);
  refuse(!a.picture.targets.empty(), "--heatmap", ModelAction::attend);
  refuse(a.similar, "--similar", ModelAction::embed);
  if (action == ModelAction::info && (!a.output.empty() || a.truncate))
    throw usage_error("--output and --truncate need a text");
}

void check_model_rows(const ModelArguments& a) {
  if (a.rows.empty()) return;
  parse_rows("--rows", a.rows);
  if (!a.map.empty()) throw usage_error("--rows chooses rows and --map pools all; expected one");
  if (!a.find.empty())
    throw usage_error(
        "--rows chooses rows and --find looks at that of its first word; expected one");
}

}  // namespace

void add_model_options(CLI::App& app, ModelArguments& a) {
  offer(app.add_option("ACTION", a.action,
                       "info: sizes and memory; attend: what each word looks at; embed: a vector "
                       "for each text")
            ->type_name(""),
        {"info", "attend", "embed"});
  app.add_option("DIR", a.folder, "a folder with config.json, model.safetensors, tokenizer.json")
      ->type_name("");
  app.add_option(
         "TEXT", a.texts,
         "attend: one text, or two as a pair; embed: texts. @FILE reads a file, for embed a "
         "text per line")
      ->type_name("");
  const auto option = [&](const char* name, std::string& value, const char* type,
                          const std::string& help, const char* group) {
    app.add_option(name, value, help)->type_name(type)->group(group);
  };
  option("--layers", a.layers, "L,L", "of these layers, from 0 (default: all)", "Attend");
  option("--heads", a.heads, "H,H", "of these heads, from 0 (default: all)", "Attend");
  option("--rows", a.rows, "ROWS",
         "only the weights of these tokens, from 0: 0,5,9, or a:b for a to b - 1", "Attend");
  option("--find", a.find, "WORD,WORD", "the heads in which the first looks most at the second",
         "Attend");
  option("--map", a.map, "RxC:HOW", "pool each map to R rows and C columns by max or mean",
         "Attend");
  option("--top-k", a.top_k, "K", "also the K largest weights of each token, into --output",
         "Attend");
  app.add_flag("--hide-special", a.hide_special,
               "leave out the tokens around the text, and scale what remains to 1")
      ->group("Attend");
  app.add_flag("--similar", a.similar, "print how similar the texts are, -1 to 1")->group("Embed");
  app.add_flag("--truncate", a.truncate, "cut texts that are longer than the model's positions");
  option("--output", a.output, "F", "write tensors: F.npz or F.safetensors; embed: F.npy, too",
         "Output");
  app.add_flag("--force,-f", a.force, "overwrite files")->group("Output");
  app.add_flag("--json", a.json, "one document for programs (docs/json.md)")->group("Output");
  option("--threads", a.threads, "N",
         "use at most N threads (default: what the machine gives, or RAPT_THREADS)", "Output");
  add_picture_options(app, a.picture, "the mean of the chosen heads' weights");
}

ModelSettings model_settings(const ModelArguments& a) {
  ModelSettings settings;
  settings.action = action_from(a.action);
  check_model_texts(a, settings.action);
  check_belongs(a, settings.action);
  check_picture_options(a.picture);
  if (!a.layers.empty()) settings.layers = parse_integers("--layers", a.layers);
  if (!a.heads.empty()) settings.heads = parse_integers("--heads", a.heads);
  if (!a.map.empty()) settings.map = map_from(a.map);
  check_model_rows(a);
  settings.top_k = integer_from("--top-k", a.top_k, 0, 1);
  if ((settings.map || settings.top_k > 0) && a.output.empty())
    throw usage_error("--map and --top-k need --output");
  if (!a.find.empty()) {
    const size_t comma = a.find.find(',');
    settings.find_from = a.find.substr(0, comma);
    if (comma != std::string::npos) settings.find_to = a.find.substr(comma + 1);
    if (settings.find_from.empty() || settings.find_to.empty())
      throw usage_error("--find: expected WORD,WORD, got '" + a.find + "'");
  }
  if (!a.output.empty()) {
    const bool many = place_of("--output", a.output).many();
    if (settings.action == ModelAction::attend && !many)
      throw usage_error("--output: expected F.npz or F.safetensors, got '" + a.output + "'");
  }
  settings.context.threads = parse_threads(a.threads);
  return settings;
}

}  // namespace rapt::cli
