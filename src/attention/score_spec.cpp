// A score from text: `name`, `name(arguments)` or `name:arguments`.
#include <array>
#include <string>
#include <vector>

#include "attention/variant_text.h"
#include "rapt/catalogue.h"
#include "rapt/score/softcap.h"

namespace rapt {
namespace {

using Make = MadeScore (*)();

template <class S>
MadeScore make() {
  auto score = std::make_shared<S>();
  MadeScore made;
  made.ref = ScoreRef(*score);
  made.object = std::move(score);
  return made;
}

template <class... S>
auto makers_of(TypeList<S...>) {
  return std::array<Make, sizeof...(S)>{make<S>...};
}

template <class... S>
std::span<const Declaration* const> declarations_of(TypeList<S...>) {
  static constexpr const Declaration* all[] = {&S::kDeclaration...};
  return all;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string_view> arguments_of(std::string_view spec, std::string_view text,
                                           std::string_view separators) {
  std::vector<std::string_view> arguments;
  if (trimmed(text).empty()) return arguments;
  constexpr size_t kMostArguments = 64;
  while (true) {
    const auto end = text.find_first_of(separators);
    if (arguments.size() == kMostArguments)
      throw Error(ErrorCode::argument,
                  "score \"" + std::string(spec.substr(0, 40)) + "...\": too many arguments");
    arguments.push_back(trimmed(text.substr(0, end)));
    if (end == text.npos) return arguments;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::span<const Declaration* const> score_declarations() { return declarations_of(Scores{}); }

MadeScore make_score(std::string_view spec, const TensorSource& tensors) {
  const std::string_view text = trimmed(spec);
  const auto name_end = text.find_first_of("(:");
  const std::string_view name = trimmed(text.substr(0, name_end));
  std::vector<std::string_view> arguments;
  if (name_end != text.npos && text[name_end] == '(') {
    if (text.back() != ')')
      throw Error(ErrorCode::argument,
                  "score \"" + std::string(text.substr(0, 40)) +
                      "\": the closing parenthesis is missing or something follows it");
    arguments = arguments_of(text, text.substr(name_end + 1, text.size() - name_end - 2), ",");
  } else if (name_end != text.npos) {
    arguments = arguments_of(text, text.substr(name_end + 1), ",:");
  }

  static const auto makers = makers_of(Scores{});
  const auto all = score_declarations();
  std::vector<std::string_view> names;
  for (size_t i = 0; i < all.size(); ++i) {
    if (name != all[i]->name) {
      names.push_back(all[i]->name);
      continue;
    }
    MadeScore made = makers[i]();
    try {
      set_parameters(*all[i], made.object.get(), arguments, tensors);
    } catch (const RefusedArgument& refused) {
      throw Error(refused.code, "score " + std::string(name) + ": " + refused.message);
    }
    return made;
  }
  const std::string guess = nearest(name, names);
  std::string known;
  for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
  throw Error(ErrorCode::unknown_name,
              "there is no score \"" + std::string(name.substr(0, 40)) + "\"" +
                  (guess.empty() ? "" : "; did you mean " + guess + "?") + " Known: " + known);
}

}  // namespace rapt
