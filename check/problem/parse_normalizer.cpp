#include "check/problem/parse_normalizer.h"

#include "check/spec/mask_spec.h"

namespace check {
namespace {

template <class N>
double argument(Scanner& in, const NormalizerParameter<N>& parameter) {
  const std::string what = std::string(parameter.whole ? "a whole number" : "a number") + " from " +
                           number_text(parameter.least) + " to " + number_text(parameter.most) +
                           " for " + std::string(parameter.name);
  const size_t begin = in.position();
  const double value = in.real(parameter.least, parameter.most, what);
  if (parameter.whole && value != std::floor(value)) {
    in.go_back_to(begin);
    in.fail("expected " + what);
  }
  return value;
}

// Reads "(a, b=1)", if it is there: arguments in order, or by name.
template <class N>
void parse_arguments(Scanner& in, N& normalizer) {
  if (!in.take("(")) return;
  do {
    const size_t begin = in.position();
    const std::string_view name = in.word();
    const bool named = in.take("=");
    if (!named) in.go_back_to(begin);
    bool taken = false;
    for (const NormalizerParameter<N>& parameter : N::kParameters) {
      if (taken || normalizer.*parameter.value || (named && name != parameter.name)) continue;
      normalizer.*parameter.value = argument(in, parameter);
      taken = true;
    }
    if (taken) continue;
    in.go_back_to(begin);
    std::string known;
    for (const NormalizerParameter<N>& parameter : N::kParameters)
      known += (known.empty() ? "" : ", ") + std::string(parameter.name);
    in.fail("expected " + (known.empty() ? "no parameters" : known + ", each once"));
  } while (in.take(","));
  in.expect(")");
}

template <size_t at = 0>
Normalizer parse_named(Scanner& in, std::string_view name, size_t begin) {
  if constexpr (at == std::variant_size_v<Normalizer>) {
    in.go_back_to(begin);
    std::string known;
    const auto add = [&]<class... N>(const std::variant<N...>*) {
      ((known += (known.empty() ? "" : " or ") + std::string(N::kName)), ...);
    };
    add(static_cast<const Normalizer*>(nullptr));
    in.fail("expected " + known);
  } else {
    std::variant_alternative_t<at, Normalizer> normalizer;
    if (name != normalizer.kName) return parse_named<at + 1>(in, name, begin);
    parse_arguments(in, normalizer);
    return normalizer;
  }
}

}  // namespace

Normalizer parse_normalizer(Scanner& in) {
  const size_t begin = in.position();
  return parse_named(in, in.word(), begin);
}

std::string to_string(const Normalizer& normalizer) {
  return std::visit(
      []<class N>(const N& n) {
        std::string arguments;
        bool all = true;  // so far
        for (const NormalizerParameter<N>& parameter : N::kParameters) {
          const std::optional<double>& value = n.*parameter.value;
          if (value)
            arguments += (arguments.empty() ? "" : ",") +
                         (all ? "" : std::string(parameter.name) + "=") + number_text(*value);
          all &= value.has_value();
        }
        return std::string(N::kName) + (arguments.empty() ? "" : "(" + arguments + ")");
      },
      normalizer);
}

}  // namespace check
