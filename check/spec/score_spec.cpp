#include "check/spec/score_spec.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "check/spec/relative_spec.h"
#include "check/tensors/reference_matrix.h"

namespace check {
namespace {

template <class... Formula>
std::optional<ScoreReference> formula_among(const std::variant<Formula...>*, std::string_view score,
                                            const VariantArguments& arguments) {
  std::optional<ScoreReference> found;
  const auto take = [&]<class F>(const F*) {
    if (score != F::kName) return;
    if constexpr (std::is_constructible_v<F, const VariantArguments&>)
      found = F(arguments);
    else
      found = F{};
  };
  (take(static_cast<const Formula*>(nullptr)), ...);
  return found;
}

// Which of a head's numbers a pair uses.
int64_t entry_of(const ScoreReference& formula, const PairPlace& place, int64_t entries) {
  return std::visit(
      [&](const auto& f) -> int64_t {
        if constexpr (requires { f.entry(place, entries); }) return f.entry(place, entries);
        throw std::logic_error("check/reference/scores: an entry() is missing");
      },
      formula);
}

}  // namespace

ScoreReference formula_of(std::string_view score, const VariantArguments& arguments) {
  if (auto found = formula_among(static_cast<const ScoreReference*>(nullptr), score, arguments))
    return *found;
  throw std::logic_error("check/reference/scores has no " + std::string(score));
}

std::string_view ScoreSpec::name() const {
  return std::visit([](const auto& f) { return f.kName; }, formula);
}

const LearnedParameter* ScoreSpec::tensor() const {
  const auto widest = std::ranges::max_element(learned, {}, &LearnedParameter::own_rank);
  return widest == learned.end() || widest->own_rank < 0 ? nullptr : &*widest;
}

int64_t ScoreSpec::count() const {
  int64_t count = 0;
  for (const LearnedParameter& parameter : learned) count += parameter.numbers.count();
  return count;
}

bool ScoreSpec::operator==(const ScoreSpec& other) const {
  return name() == other.name() && arguments == other.arguments &&
         std::ranges::equal(learned, other.learned, {}, &LearnedParameter::dims,
                            &LearnedParameter::dims);
}

void ScoreSpec::draw(Random& random, DType dtype, std::vector<Tensor>& owner) {
  const DType stored = dtype == DType::f64 ? DType::f64 : DType::f32;
  const double spread = std::visit(
      []<class F>(const F&) {
        if constexpr (requires { F::kSpread; }) return F::kSpread;
        return 1.0;
      },
      formula);
  for (LearnedParameter& parameter : learned) {
    const auto within_range = [&](double x, auto) {
      return std::clamp(x < parameter.least ? -x : x, parameter.least, parameter.most);
    };
    owner.push_back(
        parameter.own_rank < 0
            ? filled(DType::f64, {}, parameter.value)
            : mapped(random_normal(random, stored, parameter.dims, spread), within_range));
    parameter.numbers = owner.back();
  }
}

ScoreSpec::Which ScoreSpec::numbers_at(const PairPlace& place) const {
  Which which;
  which.fill(-1);
  int64_t first = 0;
  for (size_t n = 0; n < learned.size(); ++n) {
    const Dims& dims = learned[n].dims;
    const bool several = learned[n].own_rank == 1;
    // Row-major, over the last of the leading dimensions; 1 where they repeat.
    int64_t at = 0;
    const size_t leading = dims.size() - several;
    for (size_t d = 0; d < leading; ++d) {
      const int64_t index = place.index[place.index.size() - leading + d];
      at = at * dims[d] + (dims[d] == 1 ? 0 : index);
    }
    if (several) at = at * dims.back() + entry_of(formula, place, dims.back());
    which[n] = first + at;
    first += learned[n].numbers.count();
  }
  return which;
}

double ScoreSpec::number(int64_t at) const {
  size_t n = 0;
  for (; at >= learned[n].numbers.count(); ++n) at -= learned[n].numbers.count();
  return element(learned[n].numbers, at);
}

int64_t count_parameters_of(std::span<const ScoreSpec> scores) {
  int64_t count = 0;
  for (const ScoreSpec& score : scores) count += score.count();
  return count;
}

Dims default_tensor_dims(const Dims& leading, int own_rank) {
  Dims dims = own_rank < 0 ? Dims{} : default_head_dims(leading);
  if (own_rank == 1) dims.push_back(32);
  return dims;
}

std::string to_string(const ScoreSpec& score, const Dims& leading) {
  std::string inside = score.arguments;
  if (const LearnedParameter* tensor = score.tensor();
      tensor && tensor->dims != default_tensor_dims(leading, tensor->own_rank))
    inside += (inside.empty() ? "" : ",") + to_string(tensor->dims);
  return std::string(score.name()) + (inside.empty() ? "" : "(" + inside + ")");
}

}  // namespace check
