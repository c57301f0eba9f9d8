#include "check/score_spec.h"

#include "check/mask_spec.h"
#include "check/reference_matrix.h"

namespace check {

bool ScoreSpec::operator==(const ScoreSpec& other) const {  // but for what was drawn
  return kind == other.kind && cap == other.cap && dims == other.dims;
}

void ScoreSpec::draw(Random& random, DType dtype, std::vector<Tensor>& owner) {
  const DType stored = dtype == DType::f64 ? DType::f64 : DType::f32;
  switch (kind) {
    case softcap:
      owner.push_back(filled(DType::f64, {1}, cap));
      break;
    case head_scale:
      owner.push_back(random_normal(random, stored, dims));
      break;
  }
  numbers = owner.back();
}

int64_t ScoreSpec::number_at(const PairPlace& place) const {
  if (kind == softcap) return 0;
  // Row-major, over the last of the leading dimensions; 1 where they repeat.
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t index = place.index[place.index.size() - dims.size() + d];
    at = at * dims[d] + (dims[d] == 1 ? 0 : index);
  }
  return at;
}

double ScoreSpec::number(int64_t at) const { return element(numbers, at); }

rapt::MadeScore ScoreSpec::make() const {
  const auto given = [this](std::string_view) { return numbers; };
  switch (kind) {
    case softcap:
      return rapt::make_score("softcap(" + number_text(number(0)) + ")");
    case head_scale:
      return rapt::make_score("head_scale(numbers)", given);
  }
  return {};
}

std::vector<rapt::ScoreRef> refs_of(const std::vector<rapt::MadeScore>& scores) {
  return {scores.begin(), scores.end()};
}

int64_t count_of_numbers(std::span<const ScoreSpec> scores) {
  int64_t count = 0;
  for (const ScoreSpec& score : scores) count += score.numbers.count();
  return count;
}

std::string to_string(const ScoreSpec& score, const Dims& leading) {
  switch (score.kind) {
    case ScoreSpec::softcap:
      return "softcap(" + number_text(score.cap) + ")";
    case ScoreSpec::head_scale:
      return std::string("head_scale") +
             (score.dims == default_head_dims(leading) ? "" : "(" + to_string(score.dims) + ")");
  }
  return {};
}

Dims default_head_dims(const Dims& leading) {
  return leading.empty() ? Dims{} : Dims{leading.back()};
}

}  // namespace check
