#pragma once
// A manual page in roff, as man(1) shows it.
#include <string>

#include "cli/self/usage_tree.h"

namespace rapt::cli {

// The page of a command; `program` is the root of the tree that it belongs to.
std::string manual_page(const CommandUsage& command, const CommandUsage& program);

}  // namespace rapt::cli
