#include "cli/train/built_in_texts.h"

#include "cli/input/arguments.h"
#include "cli/process/failure.h"
#include "rapt/text/verse_grammar.h"

namespace rapt::cli {
namespace {

// A run of minutes reads it less than once, so its loss can come near the entropy of the verse. It
// is fixed, because a run that is resumed needs the same text.
constexpr int64_t kVerseCharacters = 2'000'000;
constexpr uint64_t kVerseSeed = 1;

constexpr BuiltInText kBuiltInTexts[] = {
    {"poems", [] { return std::string(poems_text()); }},
    {"verse", [] { return text::write_verse(kVerseCharacters, kVerseSeed); }},
};

}  // namespace

std::vector<std::string> built_in_text_names() {
  std::vector<std::string> names;
  for (const BuiltInText& one : kBuiltInTexts) names.emplace_back(one.name);
  return names;
}

const BuiltInText& built_in_text(const std::string& name) {
  for (const BuiltInText& one : kBuiltInTexts)
    if (name == one.name) return one;
  const std::vector<std::string> names = built_in_text_names();
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw usage_error("--text: expected poems or verse, got '" + name + "'",
                    did_you_mean(name, known));
}

}  // namespace rapt::cli
