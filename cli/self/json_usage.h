#pragma once
// --json-usage: the description of a command and its options, as JSON.
#include <CLI/CLI.hpp>
#include <string>

namespace rapt::cli {

// Adds the option to the program and to each of its commands.
void add_json_usage(CLI::App& root);

// Thrown while a line is parsed, as CLI11 does for --help.
class UsageAsked : public CLI::Success {
 public:
  explicit UsageAsked(CLI::App& of)
      : CLI::Success("the usage is asked for", CLI::ExitCodes::Success), app(&of) {}
  CLI::App* app;  // of which
};

std::string usage_document(CLI::App& app);

}  // namespace rapt::cli
