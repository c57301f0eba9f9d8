#pragma once
// --json-usage: what a command and its options are, for programs (docs/json.md).
#include <CLI/CLI.hpp>

namespace rapt::cli {

// Adds --json-usage to the program and to all its commands. Like --help it ends the parsing.
void add_json_usage(CLI::App& root);

}  // namespace rapt::cli
