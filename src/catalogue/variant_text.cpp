// Parameters from text and back.
#include "catalogue/variant_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace rapt {
namespace {

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyz0123456789_";  // of parameters

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

template <class T>
bool parse_number(std::string_view text, T& out) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto r = std::from_chars(text.data(), end, out);
  return r.ec == std::errc() && r.ptr == end && !text.empty();
}

// Whether `text` can be a value of `parameter`. A tensor accepts what no other parameter accepts.
bool parse(const Parameter& parameter, std::string_view text, const TensorSource& tensors,
           Argument& out) {
  out.type = parameter.type;
  switch (parameter.type) {
    case ParameterType::integer:
      return parse_number(text, out.integer);
    case ParameterType::real:
      return parse_number(text, out.real) && !std::isnan(out.real);
    case ParameterType::choice:
      for (size_t i = 0; i < parameter.choices.size(); ++i)
        if (text == parameter.choices[i]) {
          out.integer = static_cast<int64_t>(i);
          return true;
        }
      return false;
    case ParameterType::tensor:
      if (!tensors || text.empty()) return false;
      out.tensor = tensors(text);
      return true;
  }
  return false;
}

std::string describe(const Declaration& declaration) {
  std::string text = std::string(declaration.name) + "(";
  for (size_t i = 0; i < declaration.parameters.size(); ++i) {
    const Parameter& p = declaration.parameters[i];
    text += i ? ", " : "";
    text += p.name;
    for (size_t c = 0; c < p.choices.size(); ++c) text += std::string(c ? "|" : "=") + p.choices[c];
  }
  return text + ")";
}

// " (did you mean X?)" for a name that no parameter has; empty if none is near.
std::string name_meant(const Declaration& declaration, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Parameter& parameter : declaration.parameters) known.emplace_back(parameter.name);
  if (name.empty() || std::ranges::find(known, name) != known.end()) return "";
  const std::string guess = nearest(name, known);
  return guess.empty() ? "" : " (did you mean " + guess + "?)";
}

bool is_initial(const Parameter& parameter, const Argument& value) {
  const Argument initial = parameter.initial();
  switch (parameter.type) {
    case ParameterType::real:
      return value.real == initial.real || (std::isnan(value.real) && std::isnan(initial.real));
    case ParameterType::tensor:
      return !value.tensor.defined();
    case ParameterType::integer:
    case ParameterType::choice:
      break;
  }
  return value.integer == initial.integer;
}

// Whether `first` could accept a value that is meant for `second`.
bool mistakable(const Parameter& first, const Parameter& second) {
  const auto number = [](const Parameter& p) {
    return p.type == ParameterType::integer || p.type == ParameterType::real;
  };
  return first.type == ParameterType::tensor || first.type == second.type ||
         (number(first) && number(second));
}

// An optional tensor would accept every misspelt word of a choice.
bool goes_by_name(const Declaration& declaration, const Parameter& parameter) {
  return parameter.type == ParameterType::tensor && !parameter.required &&
         std::ranges::any_of(declaration.parameters, [](const Parameter& other) {
           return other.type == ParameterType::choice;
         });
}

std::string value_text(const Parameter& parameter, const Argument& value) {
  char text[32];
  switch (parameter.type) {
    case ParameterType::integer:
      return std::to_string(value.integer);
    case ParameterType::real:
      return {text, std::to_chars(text, text + sizeof text, value.real).ptr};  // the shortest exact
    case ParameterType::choice:
      return parameter.choices[static_cast<size_t>(value.integer)];
    case ParameterType::tensor:
      break;
  }
  return "<tensor>";
}

}  // namespace

void set_parameters(const Declaration& declaration, void* variant,
                    std::span<const std::string_view> arguments, const TensorSource& tensors) {
  std::vector<bool> taken(declaration.parameters.size());
  for (size_t at = 0; at < arguments.size(); ++at) {
    const std::string_view argument = trimmed(arguments[at]);
    // "name=value", unless the text before the = cannot be a name: /data/run=3/lengths.npy.
    const auto equals = argument.find('=');
    const std::string_view before =
        trimmed(argument.substr(0, equals == argument.npos ? 0 : equals));
    const bool named = before.find_first_not_of(kNameCharacters) == before.npos && !before.empty();
    const std::string_view name = named ? before : std::string_view{};
    const std::string_view value = named ? trimmed(argument.substr(equals + 1)) : argument;
    bool done = false;
    for (size_t i = 0; i < taken.size() && !done; ++i) {
      const Parameter& parameter = declaration.parameters[i];
      if (taken[i] || (!name.empty() && name != parameter.name)) continue;
      if (name.empty() && goes_by_name(declaration, parameter)) continue;
      Argument parsed;
      if (!parse(parameter, value, tensors, parsed)) continue;
      parameter.set(variant, parsed);
      done = taken[i] = true;
    }
    if (!done)
      throw RefusedArgument{at, ErrorCode::argument,
                            std::string(declaration.name) + ": no use for \"" +
                                std::string(argument) + "\"" + name_meant(declaration, name) +
                                "; expected " + describe(declaration)};
  }
  for (size_t i = 0; i < taken.size(); ++i)
    if (declaration.parameters[i].required && !taken[i])
      throw RefusedArgument{arguments.size(), ErrorCode::argument,
                            std::string(declaration.name) + ": " + declaration.parameters[i].name +
                                " is missing (" + declaration.parameters[i].doc + ")"};
  try {
    check_parameters(declaration, variant);
  } catch (const Error& error) {
    throw RefusedArgument{arguments.size(), error.code(), error.what()};
  }
}

std::string parameters_text(const Declaration& declaration, const void* variant) {
  std::string text;
  std::vector<const Parameter*> left_out;
  for (const Parameter& parameter : declaration.parameters) {
    const Argument value = parameter.get(variant);
    if (is_initial(parameter, value)) {
      left_out.push_back(&parameter);
      continue;
    }
    if (!text.empty()) text += ",";
    bool needs_name = goes_by_name(declaration, parameter);
    for (const Parameter* earlier : left_out) needs_name |= mistakable(*earlier, parameter);
    if (needs_name) text += std::string(parameter.name) + "=";
    text += value_text(parameter, value);
  }
  return text;
}

}  // namespace rapt
