#pragma once
// The texts that the program brings along (docs/texts.md).
#include <string>
#include <string_view>
#include <vector>

namespace rapt::cli {

// texts/poems.txt, which the build turns into a source.
std::string_view poems_text();

std::vector<std::string> built_in_text_names();

// A text by its name, and how it is written. Throws a usage error for another name.
struct BuiltInText {
  const char* name;
  std::string (*write)();
};
const BuiltInText& built_in_text(const std::string& name);

}  // namespace rapt::cli
