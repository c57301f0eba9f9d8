#include "cli/self/json_usage.h"

#include <nlohmann/json.hpp>

#include "cli/process/failure.h"
#include "cli/self/usage_tree.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const OptionUsage& option) {
  return Json{{"names", option.names},
              {"value", text_or_null(option.value)},
              {"help", option.help},
              {"default", text_or_null(option.fallback)},
              {"choices", option.choices},
              {"file", option.file},
              {"repeatable", option.repeatable},
              {"group", option.group}};
}

// The members of a command, appended to what the object already has.
void append(Json& json, const CommandUsage& command) {
  json["name"] = command.name;
  json["help"] = command.help;
  json["notes"] = command.notes;
  json["arguments"] = json["options"] = json["commands"] = Json::array();
  for (const OptionUsage& argument : command.arguments)
    json["arguments"].push_back(json_of(argument));
  for (const OptionUsage& option : command.options) json["options"].push_back(json_of(option));
  for (const CommandUsage& inner : command.commands) {
    Json child;
    append(child, inner);
    json["commands"].push_back(std::move(child));
  }
}

void add_to(CLI::App& app) {
  app.add_flag_callback(
      "--json-usage", [&app] { throw UsageAsked(app); },
      "what this command and its options are, for programs (docs/json.md)");
}

}  // namespace

std::string usage_document(CLI::App& app) {
  Json document;
  document["schema"] = "rapt.usage/1";
  document["build"] = build_info();
  append(document, usage_of(app));
  document["exit_codes"] = Json::array();
  for (const ExitMeaning& exit : kExitMeanings) {
    document["exit_codes"].push_back(
        Json{{"code", static_cast<int>(exit.code)}, {"means", exit.means}});
  }
  return document.dump(2);
}

void add_json_usage(CLI::App& root) {
  add_to(root);
  for (CLI::App* command : root.get_subcommands([](CLI::App*) { return true; })) add_to(*command);
}

}  // namespace rapt::cli
