#include "check/spec/score_spec.h"

#include <algorithm>

#include "check/spec/mask_spec.h"
#include "check/tensors/reference_matrix.h"

namespace check {

namespace {

// ",a,b" as "(a,b)"; "" as "".
std::string in_brackets(const std::string& arguments) {
  return arguments.empty() ? "" : "(" + arguments.substr(1) + ")";
}

}  // namespace

bool ScoreSpec::operator==(const ScoreSpec& other) const {  // ignores drawn numbers
  return kind == other.kind && cap == other.cap && by_position == other.by_position &&
         length == other.length && is_signed == other.is_signed && buckets == other.buckets &&
         max_distance == other.max_distance && past == other.past && anchor == other.anchor &&
         dims == other.dims;
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
    case log_n:
      owner.push_back(Tensor(DType::f64, {0}));
      break;
    case alibi:  // as large as they are in models, of either sign
      owner.push_back(random_normal(random, stored, dims, 0.3));
      break;
    case t5_bias: {
      Dims table = dims;
      table.push_back(buckets);
      owner.push_back(random_normal(random, stored, table));
      break;
    }
    case kerple_log: {  // [2, dims]: what multiplies the logarithm, and what the distance
      Dims both = dims;
      both.insert(both.begin(), 2);
      owner.push_back(mapped(
          random_normal(random, stored, both),
          [](double x, std::span<const int64_t> at) { return at[0] == 1 ? std::abs(x) : x; }));
      break;
    }
  }
  numbers = owner.back();
}

ScoreSpec::Which ScoreSpec::numbers_at(const PairPlace& place) const {
  if (kind == softcap) return {0, -1};
  if (kind == log_n) return {-1, -1};
  // Row-major, over the last of the leading dimensions; 1 where they repeat.
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t index = place.index[place.index.size() - dims.size() + d];
    at = at * dims[d] + (dims[d] == 1 ? 0 : index);
  }
  if (kind == t5_bias) return {at * buckets + bucket(ahead(place)), -1};
  if (kind == kerple_log) return {at, numbers.count() / 2 + at};
  return {at, -1};
}

int64_t ScoreSpec::ahead(const PairPlace& place) const {
  const bool bottom = anchor == rapt::Anchor::bottom_right;
  return place.j - place.i - (bottom ? place.k_len - place.q_len : 0);
}

double ScoreSpec::distance(const PairPlace& place) const {
  const auto behind = static_cast<double>(-ahead(place));
  return is_signed ? behind : std::abs(behind);
}

double ScoreSpec::log_factor(const PairPlace& place) const {
  const int64_t n = by_position ? place.i + 1 + place.k_len - place.q_len : place.k_len;
  const double factor = std::log(static_cast<double>(std::max<int64_t>(n, 1)));
  return length > 0 ? factor / std::log(static_cast<double>(length)) : factor;
}

// The bucket as in T5's own code.
int64_t ScoreSpec::bucket(int64_t ahead) const {
  const int64_t half = past ? buckets : buckets / 2;
  const int64_t first = !past && ahead > 0 ? half : 0;
  const int64_t n = past ? std::max<int64_t>(-ahead, 0) : std::abs(ahead);
  const int64_t exact = half / 2;
  if (n < exact) return first + n;
  const double grown = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const auto far = static_cast<int64_t>(grown * static_cast<double>(half - exact));
  return first + std::min(exact + far, half - 1);
}

double ScoreSpec::number(int64_t at) const { return element(numbers, at); }

TensorView ScoreSpec::part(int64_t nth) const {
  return {numbers.slice(0, nth, nth + 1).data, numbers.dtype, numbers.dims().subspan(1), true};
}

int64_t count_parameters_of(std::span<const ScoreSpec> scores) {
  int64_t count = 0;
  for (const ScoreSpec& score : scores) count += score.numbers.count();
  return count;
}

std::string to_string(const ScoreSpec& score, const Dims& leading) {
  const std::string dims =
      score.dims == default_head_dims(leading) ? "" : "," + to_string(score.dims);
  const std::string anchored = score.anchor == rapt::Anchor::bottom_right ? ",bottom-right" : "";
  switch (score.kind) {
    case ScoreSpec::softcap:
      return "softcap(" + number_text(score.cap) + ")";
    case ScoreSpec::head_scale:
      return "head_scale" + in_brackets(dims);
    case ScoreSpec::log_n:
      return "log_n" + in_brackets(std::string(score.by_position ? ",position" : "") +
                                   (score.length > 0 ? "," + std::to_string(score.length) : ""));
    case ScoreSpec::alibi:
      return "alibi" + in_brackets(std::string(score.is_signed ? ",signed" : "") + anchored + dims);
    case ScoreSpec::t5_bias:
      return "t5_bias" + in_brackets("," + std::to_string(score.buckets) + "," +
                                     std::to_string(score.max_distance) +
                                     (score.past ? ",past" : "") + anchored + dims);
    case ScoreSpec::kerple_log:
      return "kerple_log" + in_brackets(anchored + dims);
  }
  return {};
}

Dims default_head_dims(const Dims& leading) {
  return leading.empty() ? Dims{} : Dims{leading.back()};
}

}  // namespace check
