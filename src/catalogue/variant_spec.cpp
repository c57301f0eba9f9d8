// Scores, normalisers, methods, row transforms and relative positions from text: `name`,
// `name(arguments)` or `name:arguments`.
#include <string>
#include <vector>

#include "catalogue/variant_text.h"
#include "rapt/catalogue.h"
#include "rapt/methods.h"
#include "rapt/variants.h"

namespace rapt {
namespace {

// The variants of a list: their declarations, and how each is made.
template <class Made>
struct Maker {
  const Declaration* declaration;
  Made (*make)();
};

using MadeMethod = std::unique_ptr<Method>;

template <class Made, class T>
Made make() {
  if constexpr (std::is_same_v<Made, MadeMethod>) {
    return std::make_unique<T>();
  } else {
    auto variant = std::make_shared<T>();
    return {variant, *variant};
  }
}

// The variant whose members are the parameters.
template <class Made>
void* object_of(const Made& made) {
  if constexpr (std::is_same_v<Made, MadeMethod>)
    return dynamic_cast<void*>(made.get());
  else
    return made.object.get();
}

template <class Made, class... T>
std::span<const Maker<Made>> makers_of(TypeList<T...>) {
  static constexpr Maker<Made> all[] = {{&T::kDeclaration, make<Made, T>}...};
  return all;
}

template <class... T>
std::span<const Declaration* const> declarations_of(TypeList<T...>) {
  static constexpr const Declaration* all[] = {&T::kDeclaration...};
  return all;
}

// A variant that is passed by value.
template <class T>
struct MadeValue {
  std::shared_ptr<T> object;
  const T& value;
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// `what`: "score", for messages.
std::vector<std::string_view> arguments_of(const std::string& what, std::string_view spec,
                                           std::string_view text, std::string_view separators) {
  std::vector<std::string_view> arguments;
  if (trimmed(text).empty()) return arguments;
  constexpr size_t kMostArguments = 64;
  while (true) {
    const auto end = text.find_first_of(separators);
    if (arguments.size() == kMostArguments)
      throw Error(ErrorCode::argument,
                  what + " \"" + std::string(spec.substr(0, 40)) + "...\": too many arguments");
    arguments.push_back(trimmed(text.substr(0, end)));
    if (end == text.npos) return arguments;
    text.remove_prefix(end + 1);
  }
}

template <class Made>
Made made_of(const std::string& what, std::span<const Maker<Made>> makers, std::string_view spec,
             const TensorSource& tensors) {
  const std::string_view text = trimmed(spec);
  const auto name_end = text.find_first_of("(:");
  const std::string_view name = trimmed(text.substr(0, name_end));
  std::vector<std::string_view> arguments;
  if (name_end != text.npos && text[name_end] == '(') {
    if (text.back() != ')')
      throw Error(ErrorCode::argument,
                  what + " \"" + std::string(text.substr(0, 40)) +
                      "\": the closing parenthesis is missing or something follows it");
    arguments =
        arguments_of(what, text, text.substr(name_end + 1, text.size() - name_end - 2), ",");
  } else if (name_end != text.npos) {
    arguments = arguments_of(what, text, text.substr(name_end + 1), ",:");
  }

  std::vector<std::string_view> names;
  for (const Maker<Made>& maker : makers) {
    if (name != maker.declaration->name) {
      names.push_back(maker.declaration->name);
      continue;
    }
    Made made = maker.make();
    try {
      set_parameters(*maker.declaration, object_of(made), arguments, tensors);
    } catch (const RefusedArgument& refused) {
      throw Error(refused.code, what + " " + std::string(name) + ": " + refused.message);
    }
    return made;
  }
  const std::string guess = nearest(name, names);
  std::string known;
  for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
  throw Error(ErrorCode::unknown_name,
              "there is no " + what + " \"" + std::string(name.substr(0, 40)) + "\"" +
                  (guess.empty() ? "." : "; did you mean " + guess + "?") + " Known: " + known);
}

template <class T>
T value_of(const std::string& what, std::string_view spec, const TensorSource& tensors) {
  return made_of(what, makers_of<MadeValue<T>>(TypeList<T>{}), spec, tensors).value;
}

}  // namespace

std::span<const Declaration* const> score_declarations() { return declarations_of(Scores{}); }
std::span<const Declaration* const> normalizer_declarations() {
  return declarations_of(Normalizers{});
}

std::span<const Declaration* const> method_declarations() { return declarations_of(Methods{}); }

std::span<const Declaration* const> row_transform_declarations() {
  return declarations_of(TypeList<Cosine, Rotary>{});
}
std::span<const Declaration* const> product_declarations() {
  return declarations_of(TypeList<RelativePositions>{});
}

MadeScore make_score(std::string_view spec, const TensorSource& tensors) {
  return made_of("score", makers_of<MadeScore>(Scores{}), spec, tensors);
}
MadeNormalizer make_normalizer(std::string_view spec, const TensorSource& tensors) {
  return made_of("normaliser", makers_of<MadeNormalizer>(Normalizers{}), spec, tensors);
}

std::unique_ptr<Method> make_method(std::string_view spec, const TensorSource& tensors) {
  return made_of("method", makers_of<MadeMethod>(Methods{}), spec, tensors);
}

std::string to_string(const Method& method) {
  const Declaration& declaration = method.declaration();
  const std::string inside = parameters_text(declaration, dynamic_cast<const void*>(&method));
  return declaration.name + (inside.empty() ? "" : "(" + inside + ")");
}

Rotary make_rotary(std::string_view spec, const TensorSource& tensors) {
  return value_of<Rotary>("row change", spec, tensors);
}

RelativePositions make_relative(std::string_view spec, const TensorSource& tensors) {
  bool named = false;  // a tensor that is read later is not defined yet
  const TensorSource source = [&](std::string_view name) {
    named = true;
    return tensors ? tensors(name) : TensorView{};
  };
  auto made = value_of<RelativePositions>("change of products", spec, source);
  if (!named)
    throw Error(ErrorCode::argument,
                "relative: no tensor is named; expected one or more of key_rows, query_rows, "
                "value_rows, content_bias and position_bias, as in relative(key_rows=F.npy)");
  return made;
}

}  // namespace rapt
