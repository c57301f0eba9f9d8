// The library reads the arguments of a score, and its parameters are read back from its object. The
// dimensions of its tensors are added.
#include "check/problem/parse_scores.h"

#include <algorithm>
#include <stdexcept>

#include "check/problem/variant_text.h"
#include "check/tensors/reference_matrix.h"

namespace check {
namespace {

using rapt::ParameterType;

// Makes a score from its arguments without tensors; tensors(name) returns the tensor of a
// parameter.
rapt::MadeScore library_score(const rapt::Declaration& declaration, const std::string& arguments,
                              const rapt::TensorSource& tensors) {
  std::string all;
  for (const rapt::Parameter& parameter : declaration.parameters) {
    const std::string name = parameter.name;
    if (parameter.own_rank >= 0) all += (all.empty() ? "" : ",") + name + "=" + name;
  }
  if (!arguments.empty()) all += (all.empty() ? "" : ",") + arguments;
  return rapt::make_score(declaration.name + ("(" + all + ")"), tensors);
}

// The arguments of a score, without tensors and without those at their defaults. The first number
// and words of choices have no name.
std::string arguments_text(const rapt::Declaration& declaration, const void* score) {
  std::string text;
  int numbers = 0;
  for (const rapt::Parameter& parameter : declaration.parameters) {
    if (parameter.type == ParameterType::tensor) continue;
    const auto text_of = [&](const rapt::Argument& value) -> std::string {
      if (parameter.type == ParameterType::real) return number_text(value.real);
      if (parameter.type == ParameterType::integer) return std::to_string(value.integer);
      return parameter.choices[static_cast<size_t>(value.integer)];
    };
    const bool named = parameter.type != ParameterType::choice && numbers++ > 0;
    const std::string value = text_of(parameter.get(score));
    if (value == text_of(parameter.initial())) continue;
    text += (text.empty() ? "" : ",") + (named ? parameter.name + std::string("=") : "") + value;
  }
  return text;
}

// The score of an object of the library, whose tensors have the right dimensions.
ScoreSpec spec_of(const rapt::Declaration& declaration, const void* score) {
  std::vector<LearnedParameter> learned;
  for (const rapt::Parameter& p : declaration.parameters) {
    const rapt::Argument value = p.get(score);
    if (p.type != ParameterType::real && p.own_rank < 0) continue;
    const rapt::Shape dims = value.tensor.dims();
    learned.push_back({p.name,
                       p.own_rank,
                       value.real,
                       p.range.min,
                       p.range.max,
                       Dims(dims.begin(), dims.end()),
                       {}});
  }
  if (learned.size() > kMostPerPair)
    throw std::logic_error("score_formula.h: more learned parameters than kMostPerPair");
  return {formula_of(declaration.name, arguments_of(declaration, score)),
          arguments_text(declaration, score), std::move(learned)};
}

ScoreSpec parse_score(Scanner& in, const Descriptor& problem) {
  const rapt::Declaration& declaration = read_name(in, "a score", rapt::score_declarations());
  int own_rank = -1;  // the largest of its tensors
  for (const rapt::Parameter& parameter : declaration.parameters)
    own_rank = std::max(own_rank, parameter.own_rank);
  Dims dims = default_tensor_dims(problem.leading, own_rank);
  const size_t column = in.position() + in.next_is('(');
  std::string arguments;
  if (in.take("(")) {
    bool has_dims = own_rank < 0;
    do {
      if (!has_dims && in.next_is('['))
        dims = in.last_of(problem.leading, kMaxLeading, kMaxLength, own_rank), has_dims = true;
      else
        arguments += (arguments.empty() ? "" : ",") + std::string(in.until(",):"));
    } while (in.take(","));
    in.expect(")");
  }
  return made_at(in, column, [&] {
    const rapt::MadeScore score = library_score(declaration, arguments, [&](std::string_view name) {
      static double number = 0;  // numbers are drawn later
      const auto* const is = &*std::ranges::find_if(
          declaration.parameters, [&](const rapt::Parameter& p) { return p.name == name; });
      const Dims own(dims.begin(), dims.end() - (own_rank - is->own_rank));
      return TensorView(&number, DType::f64, own, true);
    });
    if (score.ref.check) score.ref.check(score.ref.object, problem.leading);
    return spec_of(declaration, score.ref.object);
  });
}

}  // namespace

std::vector<ScoreSpec> parse_scores(Scanner& in, const Descriptor& problem) {
  std::vector<ScoreSpec> scores;
  do {
    if (scores.size() == rapt::ScoreList::kMost)
      in.fail("expected at most " + std::to_string(rapt::ScoreList::kMost) + " scores");
    scores.push_back(parse_score(in, problem));
  } while (in.take(","));
  return scores;
}

rapt::MadeScore made(const ScoreSpec& spec) {
  Scanner name(spec.name());
  const rapt::Declaration& declaration = read_name(name, "a score", rapt::score_declarations());
  const auto numbers = [&](std::string_view of) {
    return std::ranges::find(spec.learned, of, &LearnedParameter::name)->numbers;
  };
  rapt::MadeScore score = library_score(declaration, spec.arguments, numbers);
  for (const rapt::Parameter& parameter : declaration.parameters) {
    if (parameter.type != ParameterType::real) continue;
    rapt::Argument argument;
    argument.type = ParameterType::real;
    argument.real = element(numbers(parameter.name), 0);
    parameter.set(score.object.get(), argument);
  }
  return score;
}

std::vector<rapt::ScoreRef> refs_of(const std::vector<rapt::MadeScore>& scores) {
  return {scores.begin(), scores.end()};
}

}  // namespace check
