// The catalogue at run time: declarations, and masks made from text.
#include "rapt/catalogue.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "rapt/variants.h"

namespace rapt {
namespace {

template <class... T>
std::span<const Declaration* const> declarations_of(TypeList<T...>) {
  static constexpr const Declaration* all[] = {&T::kDeclaration...};
  return all;
}

using MakeMask = std::unique_ptr<Mask> (*)();
template <class... T>
MakeMask maker_of(TypeList<T...>, size_t index) {
  static constexpr MakeMask all[] = {
      []() -> std::unique_ptr<Mask> { return std::make_unique<T>(); }...};
  return all[index];
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

struct Spec {
  std::string_view name;
  std::vector<std::string_view> arguments;
};

// name, name(a, b) or name:a,b:c
Spec split(std::string_view text) {
  Spec spec;
  const auto end = text.find_first_of("(:");
  spec.name = trim(text.substr(0, end));
  if (end == text.npos) return spec;
  std::string_view rest = text.substr(end + 1);
  const bool parentheses = text[end] == '(';
  if (parentheses) {
    if (rest.empty() || rest.back() != ')')
      throw Error(ErrorCode::argument, std::string(text) + ": the closing parenthesis is missing");
    rest.remove_suffix(1);
    if (trim(rest).empty()) return spec;
  }
  while (true) {
    const auto comma = rest.find_first_of(parentheses ? "," : ",:");
    spec.arguments.push_back(trim(rest.substr(0, comma)));
    if (comma == rest.npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

// Does `text` make a value for `parameter`? Tensors take anything that nothing else takes.
bool parse(const Parameter& parameter, std::string_view text, const TensorSource& tensors,
           Argument& out) {
  out.type = parameter.type;
  const char* end = text.data() + text.size();
  switch (parameter.type) {
    case ParameterType::integer: {
      if (!text.empty() && text[0] == '+') text.remove_prefix(1);
      const auto r = std::from_chars(text.data(), end, out.integer);
      return r.ec == std::errc() && r.ptr == end && !text.empty();
    }
    case ParameterType::real: {
      const auto r = std::from_chars(text.data(), end, out.real);
      return r.ec == std::errc() && r.ptr == end && !text.empty();
    }
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

void assign(const Declaration& declaration, void* variant, const Spec& spec,
            const TensorSource& tensors) {
  std::vector<bool> taken(declaration.parameters.size());
  for (const std::string_view argument : spec.arguments) {
    const auto equals = argument.find('=');
    const std::string_view name =
        equals == argument.npos ? std::string_view{} : trim(argument.substr(0, equals));
    const std::string_view value =
        equals == argument.npos ? argument : trim(argument.substr(equals + 1));
    bool done = false;
    for (size_t i = 0; i < taken.size() && !done; ++i) {
      const Parameter& parameter = declaration.parameters[i];
      if (taken[i] || (!name.empty() && name != parameter.name)) continue;
      Argument parsed;
      if (!parse(parameter, value, tensors, parsed)) continue;
      parameter.set(variant, parsed);
      done = taken[i] = true;
    }
    if (!done)
      throw Error(ErrorCode::argument, "mask " + std::string(declaration.name) + ": no use for \"" +
                                           std::string(argument) + "\"; expected " +
                                           describe(declaration));
  }
  for (size_t i = 0; i < taken.size(); ++i)
    if (declaration.parameters[i].required && !taken[i])
      throw Error(ErrorCode::argument, "mask " + std::string(declaration.name) + ": " +
                                           declaration.parameters[i].name + " is missing (" +
                                           declaration.parameters[i].doc + ")");
  check_parameters(declaration, variant);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const Declaration* const> mask_declarations() { return declarations_of(Masks{}); }
std::span<const Declaration* const> normalizer_declarations() {
  return declarations_of(Normalizers{});
}

std::string nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;  // farther is no misspelling
  for (const std::string_view candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return std::string(best);
}

std::unique_ptr<Mask> make_mask(std::string_view text, const TensorSource& tensors) {
  const Spec spec = split(trim(text));
  const auto all = mask_declarations();
  for (size_t i = 0; i < all.size(); ++i) {
    if (spec.name != all[i]->name) continue;
    std::unique_ptr<Mask> mask = maker_of(Masks{}, i)();
    // Parameters are members of the most derived class, whose address the setters expect.
    assign(*all[i], dynamic_cast<void*>(mask.get()), spec, tensors);
    return mask;
  }
  std::vector<std::string_view> names;
  std::string list;
  for (const Declaration* d : all) {
    list += (list.empty() ? "" : ", ") + std::string(d->name);
    names.push_back(d->name);
  }
  const std::string guess = nearest(spec.name, names);
  throw Error(ErrorCode::unknown_name, "there is no mask \"" + std::string(spec.name) + "\"" +
                                           (guess.empty() ? "" : "; did you mean " + guess + "?") +
                                           " Known: " + list);
}

}  // namespace rapt
