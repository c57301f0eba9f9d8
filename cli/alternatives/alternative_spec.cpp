// Expands lists in braces, and tells methods from options that differ.
#include "cli/alternatives/alternative_spec.h"

#include <fmt/format.h>

#include <utility>

#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/process/failure.h"
#include "rapt/catalogue.h"

namespace rapt::cli {
namespace {

constexpr std::pair<std::string_view, Changed> kFields[] = {{"mask", Changed::mask},
                                                            {"precision", Changed::precision},
                                                            {"dtype", Changed::dtype},
                                                            {"norm", Changed::normalizer}};

// Texts come from anywhere, and lists are expanded by recursion.
constexpr size_t kMostText = 4096;

[[noreturn]] void refuse_alternative(const std::string& text, const std::string& why) {
  throw usage_error("--method " + text + ": " + why);
}

// A list in braces: the part of the text before it, its values, the part behind it.
struct BraceList {
  std::string before, after;
  std::vector<std::string> values;
};

// Takes the first outermost list apart; false if there is none. Commas within brackets or inner
// braces separate no values. `given`: the whole text, for messages.
bool take_list(const std::string& given, const std::string& text, BraceList& list) {
  const size_t open = text.find_first_of("{}");
  if (open == std::string::npos) return false;
  if (text[open] == '}') refuse_alternative(given, "'}' without '{' before it");
  list = {text.substr(0, open), "", {""}};
  int braces = 1, brackets = 0;
  size_t at = open + 1;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    braces += (c == '{') - (c == '}');
    brackets += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (braces == 0) break;
    if (c == ',' && braces == 1 && brackets == 0) {
      list.values.emplace_back();
    } else {
      list.values.back() += c;
    }
  }
  if (braces != 0) refuse_alternative(given, "'}' is missing");
  list.after = text.substr(at + 1);
  for (const std::string& value : list.values)
    if (value.empty())
      refuse_alternative(given, "expected values with commas between them within { }");
  return true;
}

// Appends every text that the lists of `text` make. Inner lists are expanded with the values that
// they stand in.
void expand(const std::string& given, const std::string& text, std::vector<AlternativeSpec>& all) {
  BraceList list;
  if (take_list(given, text, list)) {
    for (const std::string& value : list.values)
      expand(given, list.before + value + list.after, all);
    return;
  }
  if (all.size() == kMostAlternatives)
    throw usage_error(fmt::format("--method: more than {} alternatives", kMostAlternatives),
                      "a list in braces makes one of each of its values");
  all.push_back({.text = text, .list = given, .value = {}});
}

// Sets what the alternative changes, by the word before '='.
void take_field(AlternativeSpec& spec) {
  spec.value = spec.text;
  const size_t end = spec.text.find_first_of("=(:");
  if (end == std::string::npos || spec.text[end] != '=') return;
  const std::string word = spec.text.substr(0, end);
  spec.value = spec.text.substr(end + 1);
  std::vector<std::string_view> known;
  for (const auto& [name, changed] : kFields) {
    known.push_back(name);
    if (word != name) continue;
    spec.changed = changed;
    if (spec.value.empty()) refuse_alternative(spec.text, "expected a value behind '='");
    return;
  }
  throw usage_error(fmt::format("--method {}: expected a method, or mask=, precision=, dtype= or "
                                "norm=, got '{}='",
                                spec.text, word),
                    did_you_mean(word, known));
}

}  // namespace

std::vector<AlternativeSpec> alternative_specs(const std::vector<std::string>& texts) {
  std::vector<AlternativeSpec> all;
  for (const std::string& text : texts) {
    if (text.size() > kMostText)
      throw usage_error(fmt::format("--method: a text of {} characters; expected at most {}",
                                    text.size(), kMostText));
    expand(text, text, all);
  }
  for (AlternativeSpec& spec : all) take_field(spec);
  return all;
}

void add_alternatives_option(CLI::App& command, std::vector<std::string>& texts) {
  CLI::Option* option = command.add_option(
      "--method", texts,
      fmt::format("what is compared with exact attention: {} (rapt list methods), or one option "
                  "that differs: mask=window(256,0), precision=fast, dtype=bf16, norm=entmax15; a "
                  "list in braces makes several: \"favor(features={{64,256}})\" (repeatable)",
                  usual_texts(method_declarations())));
  option->type_name("SPEC")->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  offer(option, method_words());
}

}  // namespace rapt::cli
