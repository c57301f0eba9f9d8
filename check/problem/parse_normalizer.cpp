#include "check/problem/parse_normalizer.h"

#include "check/problem/variant_text.h"
#include "check/tensors/reference_matrix.h"

namespace check {
namespace {

// The library's normaliser, in whose text a number stands for a tensor.
rapt::MadeNormalizer made_of_text(const std::string& text, std::vector<Tensor>& owner) {
  const auto tensor = [&owner](std::string_view number) {
    double value = 0;
    const char* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end || !(value < HUGE_VAL))
      throw rapt::Error(rapt::ErrorCode::argument,
                        "expected a number for the tensor, got \"" + std::string(number) + "\"");
    owner.push_back(filled(DType::f64, {}, value));
    return owner.back().view();
  };
  rapt::MadeNormalizer normalizer = rapt::make_normalizer(text, tensor);
  if (normalizer.ref.check) normalizer.ref.check(normalizer.ref.object);
  return normalizer;
}

double as_number(const rapt::Parameter& parameter, const rapt::Argument& argument) {
  switch (parameter.type) {
    case rapt::ParameterType::real:
      return argument.real;
    case rapt::ParameterType::tensor:
      return argument.tensor.defined() ? element(argument.tensor, 0) : rapt::kNotGiven;
    default:
      return static_cast<double>(argument.integer);
  }
}

// If N is the reference of this normaliser, stores it in `into` with the parameters that differ
// from their defaults.
template <class N>
bool take(const rapt::NormalizerRef& normalizer, Normalizer& into) {
  if (N::kName != normalizer.declaration->name) return false;
  N reference;
  for (const NormalizerParameter<N>& parameter : N::kParameters)
    for (const rapt::Parameter& declared : normalizer.declaration->parameters) {
      if (parameter.name != declared.name) continue;
      const double number = as_number(declared, declared.get(normalizer.object));
      const bool given = number != as_number(declared, declared.initial()) && !std::isnan(number);
      if (given) reference.*parameter.value = number;
    }
  into = reference;
  return true;
}

template <class... N>
bool take_one(const rapt::NormalizerRef& normalizer, std::variant<N...>& into) {
  return (take<N>(normalizer, into) || ...);
}

}  // namespace

Normalizer parse_normalizer(Scanner& in) {
  const size_t begin = in.position();
  read_name(in, "a normaliser", rapt::normalizer_declarations());
  const size_t column = in.position() + in.next_is('(');
  if (in.take("(")) in.until("):"), in.expect(")");
  std::vector<Tensor> numbers;
  return made_at(in, column, [&] {
    return reference_of(made_of_text(std::string(in.since(begin)), numbers).ref);
  });
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

rapt::MadeNormalizer made(Normalizer normalizer, std::vector<Tensor>& owner) {
  if (has_gradient(normalizer))
    normalizer = of_length(normalizer, 0);  // makes its default explicit
  return made_of_text(to_string(normalizer), owner);
}

Normalizer reference_of(const rapt::NormalizerRef& normalizer) {
  Normalizer reference;
  if (take_one(normalizer, reference)) return reference;
  throw rapt::Error(rapt::ErrorCode::unsupported, std::string("normalizer ") +
                                                      normalizer.declaration->name +
                                                      " has no plain computation to compare with");
}

}  // namespace check
