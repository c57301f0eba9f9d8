#pragma once
// Completion scripts, one per shell. Each completes commands, options, the words that options take
// and, where a value may be a file, files.
#include <string>

#include "cli/self/usage_tree.h"

namespace rapt::cli {

std::string bash_completion(const CommandUsage& program);
std::string zsh_completion(const CommandUsage& program);
std::string fish_completion(const CommandUsage& program);

}  // namespace rapt::cli
