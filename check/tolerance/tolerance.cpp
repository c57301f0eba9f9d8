#include "check/tolerance/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "check/reference/captured.h"
#include "check/reference/philox.h"
#include "check/tolerance/feature_tolerance.h"
#include "check/tolerance/normalizer_errors.h"
#include "check/tolerance/score_errors.h"

namespace check {
namespace {

using rapt::DType;

// The `count` largest numbers, a NaN before all of them; `none` behind the last.
std::vector<double> largest(std::vector<double> numbers, int64_t count, double none) {
  std::ranges::sort(numbers, [](double a, double b) {
    return std::isnan(a) ? !std::isnan(b) : !std::isnan(b) && a > b;
  });
  numbers.resize(static_cast<size_t>(count), none);
  return numbers;
}

// Adds the floors of one row to the expectations.
template <class Real, class Wide>
class Floors {
 public:
  Floors(const Problem& problem, const Sizes& sizes, const Captures& captures, bool sampled,
         Expectations& into)
      : sizes_(sizes), captures_(captures), sampled_(sampled), into_(into), score_errors_(problem) {
    const DType dtype = problem.query.dtype;
    if (problem.rounds_weights && !is_sparse(problem.normalizer))
      weight_roundoff_ = unit_roundoff(dtype);
    if (!is_sparse(problem.normalizer)) left_out_ = problem.left_out.weights;
    const DType output = problem.output_dtype.value_or(dtype);
    output_roundoff_ = unit_roundoff(output);
    output_denormal_ = smallest_denormal(output) / 2;
    kept_factor_ = 1 / (1 - drawn_probability(problem.dropout));
    if (problem.dropout > 0) dropout_roundings_ = kEpsilon;
    into.received.floor.resize(count_of_received(captures, sizes));
    into.map.floor.resize(count_of_map(captures, sizes));
  }

  void add(const Row<Wide>& row) {
    if (row.head != head_) enter(row);
    const double terms = score_errors_.of_row(row);
    const int64_t flat = row.head * sizes_.q_len + row.index;
    const auto statistic = static_cast<double>(row.weighed.statistic);
    std::vector<Wide> scores;
    for (const Pair<Wide>& pair : row.pairs) scores.push_back(pair.score);
    const Off off = off_of_row(row.normalizer, std::span<const Wide>(scores), row.weighed,
                               terms * kEpsilon, kEpsilon);
    into_.lse.floor.push_back(std::visit(
        [&](const auto& n) {
          find_errors(errors_of(n), row, off);
          return errors_of(n).statistic_error(statistic, off);
        },
        row.normalizer));
    place(into_.lse, flat, 1);
    add_output(row);
    place(into_.output, flat, sizes_.value_dim);
    if (captures_.entropy) {
      into_.entropy.floor.push_back(entropy_floor(row, terms));
      place(into_.entropy, flat, 1);
    }
    add_captures(row);
    if (captures_.top_k > 0) add_top_k(row, flat);
  }

 private:
  static constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();
  static constexpr double kTiny = std::numeric_limits<Real>::min();

  void enter(const Row<Wide>& row) {
    head_ = row.head;
    score_errors_.enter(*row.inputs);
    value_sum_.assign(static_cast<size_t>(sizes_.value_dim), 0);
    for (int64_t j = 0; j < sizes_.k_len; ++j)
      for (size_t c = 0; c < value_sum_.size(); ++c)
        if (const Wide v = row.inputs->value_row(j)[c]; std::isfinite(v))
          value_sum_[c] += std::abs(v);
  }

  // Computes the errors of the row's weights, without what weights that are flushed to zero add.
  template <class Errors>
  void find_errors(const Errors& errors, const Row<Wide>& row, const Off& off) {
    errors_.assign(row.weights.size(), 0);
    for (const Pair<Wide>& pair : row.pairs)
      errors_[static_cast<size_t>(pair.key)] =
          errors.weight_error(static_cast<double>(pair.score), static_cast<double>(pair.weight),
                              static_cast<double>(row.weighed.statistic), off);
  }

  // The errors of the output that follow from those of the weights, and its roundings.
  void add_output(const Row<Wide>& row) {
    const RelativeRows<Wide>& tables = row.inputs->relative;
    std::vector<double> errors(row.output.size(), 0);
    std::vector<char> open(row.output.size(), 0);
    std::vector<Wide> squares(row.output.size(), 0), value_sum = value_sum_;
    for (const Pair<Wide>& pair : row.pairs) {
      const double of_weight = errors_[static_cast<size_t>(pair.key)],
                   weight = weight_number(pair.weight);
      const double error =
          static_cast<double>(pair.kept) * (of_weight + dropout_roundings_ * weight);
      const bool vanishes = may_vanish(row.normalizer, weight, of_weight, kTiny);
      if (pair.kept == 0 && !std::isfinite(weight)) open.assign(open.size(), 1);
      const Wide kept = pair.kept * pair.weight;
      for (size_t c = 0; c < errors.size(); ++c) {
        const Wide v = row.inputs->value_row(pair.key)[c];
        const Wide added =
            tables.number(RelativeSpec::values, pair.table_row, static_cast<int64_t>(c));
        errors[c] += error * static_cast<double>(std::abs(v) + std::abs(added));
        squares[c] += kept * v * (kept * v);
        if (vanishes && !std::isfinite(v + added)) open[c] = 1;
        if (!tables.has(RelativeSpec::values)) continue;
        squares[c] += kept * added * (kept * added);
        if (std::isfinite(added)) value_sum[c] += std::abs(added);
      }
    }
    into_.output.open.insert(into_.output.open.end(), open.begin(), open.end());
    for (size_t c = 0; c < errors.size(); ++c) {
      const auto output = static_cast<double>(std::abs(row.output[c]));
      const double rounding =
          (weight_roundoff_ + left_out_) * (output + static_cast<double>(std::sqrt(squares[c]))) +
          output_roundoff_ * output + output_denormal_;
      into_.output.floor.push_back(
          errors[c] + kTiny * (1 + kept_factor_ * static_cast<double>(value_sum[c])) + rounding);
    }
  }

  double entropy_floor(const Row<Wide>& row, double terms) const {
    Wide mean = 0;
    for (const Pair<Wide>& pair : row.pairs)
      if (pair.weight > 0) mean += pair.weight * pair.score;
    const double lse = std::max(1.0, std::abs(static_cast<double>(row.weighed.statistic)));
    double floor = kEpsilon * (2 * (lse + static_cast<double>(std::abs(mean))) + terms);
    for (size_t j = 0; j < errors_.size(); ++j)
      if (row.weights[j] > 0)
        floor += errors_[j] * static_cast<double>(std::abs(std::log(row.weights[j]) + row.entropy));
    return floor;
  }

  // Weights, received, map.
  void add_captures(const Row<Wide>& row) {
    std::vector<double> floors;
    for (const double error : errors_) floors.push_back(error + kTiny);
    if (captures_.weights)
      for_weights_rows(*captures_.weights, sizes_.q_len, row.head, row.index, [&](int64_t r) {
        into_.weights.floor.insert(into_.weights.floor.end(), floors.begin(), floors.end());
        const bool in_order = !sampled_ && *captures_.weights == WeightsWanted{};
        for (int64_t j = 0; j < sizes_.k_len && !in_order; ++j)
          into_.weights.at.push_back(r * sizes_.k_len + j);
      });
    if (captures_.received) add_received(sizes_, row.head, floors, into_.received.floor);
    if (captures_.map) pool(*captures_.map, sizes_, row.head, row.index, floors, into_.map.floor);
  }

  // Appends the places of a row's elements in the tensor. Without a sample all rows come in order,
  // and `at` stays empty.
  void place(Expectation& e, int64_t flat, int64_t width) const {
    if (!sampled_) return;
    for (int64_t c = 0; c < width; ++c) e.at.push_back(flat * width + c);
  }

  void add_top_k(const Row<Wide>& row, int64_t flat) {
    Expectations::Candidates candidates{flat, {}, {}, std::vector<char>(row.weights.size(), 0)};
    for (const Pair<Wide>& pair : row.pairs) candidates.seen[static_cast<size_t>(pair.key)] = 1;
    candidates.weights.assign(row.weights.begin(), row.weights.end());
    for (const double error : errors_) candidates.error.push_back(error + kTiny);
    const std::vector<double> sorted = largest(candidates.error, captures_.top_k, kTiny);
    into_.top_weights.floor.insert(into_.top_weights.floor.end(), sorted.begin(), sorted.end());
    open_top_weights(row);
    place(into_.top_weights, flat, captures_.top_k);
    into_.candidates.push_back(std::move(candidates));
  }

  // A list takes a NaN for +inf. Without a sum over the row, its weight is that of +inf.
  void open_top_weights(const Row<Wide>& row) {
    int64_t most = 0;  // such scores
    bool is_nan = false;
    for (const Pair<Wide>& pair : row.pairs) {
      is_nan = is_nan || std::isnan(pair.score);
      most += !std::isfinite(pair.score) && !(pair.score < 0);
    }
    const bool opens = is_nan && !has_statistic(row.normalizer);
    for (int64_t at = 0; at < captures_.top_k; ++at)
      into_.top_weights.open.push_back(opens && at < most);
  }

  const Sizes& sizes_;
  const Captures& captures_;
  bool sampled_;
  Expectations& into_;
  ScoreErrors<Wide> score_errors_;
  double weight_roundoff_ = 0, left_out_ = 0, output_roundoff_ = 0, output_denormal_ = 0;
  double kept_factor_ = 1, dropout_roundings_ = 0;
  int64_t head_ = -1;
  std::vector<Wide>
      value_sum_;               // [value_dim]: the sum of |value| over all keys, of the finite ones
  std::vector<double> errors_;  // [k_len], of the weights of the current row
};

// Keeps only the rows [heads, width] of the heads `heads`.
void keep_heads(Expectation& e, const std::vector<int64_t>& heads, int64_t width) {
  Expectation kept;
  for (const int64_t head : heads)
    for (int64_t j = 0; j < width; ++j) {
      const auto i = static_cast<size_t>(head * width + j);
      kept.truth.push_back(e.truth[i]);
      kept.plain.push_back(e.plain[i]);
      kept.floor.push_back(e.floor[i]);
      kept.at.push_back(head * width + j);
    }
  e = std::move(kept);
}

// Real: the type that rounds, Wide: the type of the truth.
template <class Real, class Wide>
Expectations expect(const Problem& problem, const Captures& captures, const Sample& sample) {
  const Sizes sizes = sizes_of(problem);
  const bool sampled = sample.heads || sample.rows;
  Expectations e;
  Floors<Real, Wide> floors(problem, sizes, captures, sampled, e);
  const Result<Wide> truth =
      attention<Wide>(problem, captures, sample, [&](const Row<Wide>& row) { floors.add(row); });
  const Result<Real> plain = attention<Real>(problem, captures, sample);
  const auto fill = [](Expectation& into, const std::vector<Wide>& wide,
                       const std::vector<Real>& narrow) {
    into.truth.assign(wide.begin(), wide.end());
    into.plain.assign(narrow.begin(), narrow.end());
  };
  fill(e.output, truth.output, plain.output);
  fill(e.lse, truth.lse, plain.lse);
  fill(e.weights, truth.weights, plain.weights);
  fill(e.entropy, truth.entropy, plain.entropy);
  fill(e.top_weights, truth.top_weights, plain.top_weights);
  fill(e.map, truth.map, plain.map);
  fill(e.received, truth.received, plain.received);
  // The weights of a cell are added key by key, up to 128 in a block. Each addition rounds a
  // partial sum by e/2: sqrt(128) e/2 in quadrature, and twice that, because a maximum is compared.
  // Pooling by maximum adds nothing.
  constexpr double kSum = 12 * double{std::numeric_limits<Real>::epsilon()};
  for (size_t i = 0; i < e.map.floor.size() && captures.map->pooling != Pooling::max; ++i)
    e.map.floor[i] += kSum * std::abs(static_cast<double>(e.map.truth[i]));
  if (sample.heads) {
    std::vector<int64_t> places;
    if (captures.map) {
      for (const int64_t head : *sample.heads)
        for_places(captures.map->heads, head, [&](int64_t place) { places.push_back(place); });
      keep_heads(e.map, places, captures.map->rows * captures.map->columns);
    }
    if (captures.received) keep_heads(e.received, *sample.heads, sizes.k_len);
  }
  return e;
}

// Only finite elements have an error that can be compared.
bool counts(const Expectation& e, size_t i) {
  return std::isfinite(e.truth[i]) && std::isfinite(e.plain[i]) && std::isfinite(e.floor[i]) &&
         (e.open.empty() || !e.open[i]);
}

// Both are NaN, or the same infinity.
bool same_class(long double a, long double b) {
  return std::isnan(a) ? std::isnan(b) : std::isinf(a) && a == b;
}

// Whether the result x is finite, NaN or an infinity where it must be.
bool is_of_right_class(double x, long double truth, long double plain) {
  if (std::isfinite(truth)) return std::isfinite(x) || !std::isfinite(plain);
  if (same_class(truth, plain)) return same_class(x, truth);
  return !std::isfinite(x) && (std::isnan(x) || std::isnan(truth) || same_class(x, truth));
}

}  // namespace

bool may_vanish(const Normalizer& normalizer, double weight, double error, double tiny) {
  constexpr double kRoom = 1024;  // of what a kernel multiplies before it divides by the sum
  if (weight == 0) return error > 0 || std::holds_alternative<ReluReference>(normalizer);
  return weight <= std::max(error, kRoom * tiny);
}

double unit_roundoff(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
}
double smallest_denormal(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-133 : dtype == DType::f16 ? 0x1p-24 : 0;
}

Budget Expectation::budget() const {
  double max_plain = 0, max_floor = 0, sum_plain = 0, sum_floor = 0, count = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (!counts(*this, i)) continue;
    const auto error = static_cast<double>(std::abs(plain[i] - truth[i]));
    max_plain = std::max(max_plain, error);
    max_floor = std::max(max_floor, floor[i]);
    sum_plain += error * error;
    sum_floor += floor[i] * floor[i];
    ++count;
  }
  if (count == 0) return {};
  return {2 * max_plain + max_floor,
          2 * std::sqrt(sum_plain / count) + std::sqrt(sum_floor / count)};
}

Verdict Expectation::verdict(std::span<const double> got, const char* what, double factor) const {
  Verdict verdict;
  std::ostringstream message;
  const auto failed = [&] {
    verdict.ok = false;
    verdict.message = message.str();
    return verdict;
  };
  const Budget allowed = budget();
  verdict.allowed = {factor * allowed.max, factor * allowed.rms};
  if (at.empty() && got.size() != truth.size()) {
    message << what << " has " << got.size() << " elements instead of " << truth.size();
    return failed();
  }
  double sum = 0, count = 0;
  size_t worst = 0;
  const auto place = [&](size_t i) { return at.empty() ? i : static_cast<size_t>(at[i]); };
  for (size_t i = 0; i < truth.size(); ++i) {
    if (place(i) >= got.size()) {
      message << what << " has " << got.size() << " elements, too few for [" << place(i) << "]";
      return failed();
    }
    const double x = got[place(i)];
    if (!open.empty() && open[i]) continue;
    if (!is_of_right_class(x, truth[i], plain[i])) {
      message << what << "[" << place(i) << "] is " << x << " instead of " << truth[i]
              << " (plain loop: " << plain[i] << ")";
      return failed();
    }
    if (!counts(*this, i)) continue;
    const auto error = static_cast<double>(std::abs(static_cast<long double>(x) - truth[i]));
    if (error > verdict.error.max) {
      verdict.error.max = error;
      worst = i;
    }
    sum += error * error;
    ++count;
  }
  verdict.error.rms = count == 0 ? 0 : std::sqrt(sum / count);
  if (verdict.error.max <= verdict.allowed.max && verdict.error.rms <= verdict.allowed.rms)
    return verdict;
  message << what << ": largest error " << verdict.error.max << " of allowed "
          << verdict.allowed.max << ", rms " << verdict.error.rms << " of " << verdict.allowed.rms
          << "; worst at " << place(worst) << " of " << got.size() << ": " << got[place(worst)]
          << " instead of " << truth[worst] << " (plain loop: " << plain[worst] << ")";
  return failed();
}

Expectations expectations(const Problem& problem, const Captures& captures, const Sample& sample) {
  if (problem.features) return feature_expectations(problem);
  return problem.query.dtype == DType::f64 ? expect<double, long double>(problem, captures, sample)
                                           : expect<float, double>(problem, captures, sample);
}

Verdict verdict_of_top_k(const Expectations& expected, std::span<const double> keys,
                         std::span<const double> weights, int64_t top_k) {
  constexpr double kRoundedTwice = 4 * double{std::numeric_limits<float>::epsilon()};
  Verdict verdict = expected.top_weights.verdict(weights, "top_weights");
  if (!verdict.ok) return verdict;
  // A weight that is right in its place may belong to another key with nearly the same weight.
  const double allowed = expected.top_weights.budget().max;
  for (const Expectations::Candidates& row : expected.candidates) {
    std::vector<char> taken(row.weights.size(), 0);
    const auto fail = [&](int64_t place, const std::string& what) {
      std::ostringstream message;
      message << "top_keys of row " << row.row << ", place " << place << ": " << what;
      verdict.ok = false;
      verdict.message = message.str();
      return verdict;
    };
    for (int64_t place = 0; place < top_k; ++place) {
      const auto i = static_cast<size_t>(row.row * top_k + place);
      if (i >= keys.size()) return fail(place, "missing");
      const double weight = weights[i];
      if (std::isnan(weight)) continue;
      // Scores are in order; 2^x rounds them to within two units in the last place.
      if (place > 0 && weights[i - 1] < weight * (1 - kRoundedTwice))
        return fail(place, "larger than the one before");
      if (keys[i] == -1) {
        // All keys must have been listed, except those whose weight may have become 0.
        for (size_t j = 0; j < taken.size(); ++j)
          if (row.seen[j] && !taken[j] && row.weights[j] > 2 * row.error[j])
            return fail(place, "no key, although key " + std::to_string(j) + " is left");
        if (weight != 0) return fail(place, "no key, but a weight");
        continue;
      }
      if (!(keys[i] >= 0 && keys[i] < static_cast<double>(taken.size())))
        return fail(place, "no such key: " + std::to_string(keys[i]));
      const auto key = static_cast<size_t>(keys[i]);
      if (taken[key]) return fail(place, "key " + std::to_string(key) + " again");
      if (!row.seen[key]) return fail(place, "key " + std::to_string(key) + " is excluded");
      taken[key] = 1;
      if (std::isfinite(row.weights[key]) && std::isfinite(row.error[key]) &&
          std::isfinite(weight) &&
          std::abs(row.weights[key] - weight) > std::max(allowed, 2 * row.error[key]))
        return fail(place, "not the weight of key " + std::to_string(key));
    }
  }
  return verdict;
}

}  // namespace check
