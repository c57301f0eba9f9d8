#include "check/tolerance/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "check/reference/philox.h"

namespace check {
namespace {

using rapt::DType;

// Sorts the largest first, and a NaN before all numbers.
template <class Real>
void sort_falling(std::vector<Real>& values) {
  std::ranges::sort(values, [](Real a, Real b) {
    return std::isnan(a) ? !std::isnan(b) : !std::isnan(b) && a > b;
  });
}

// Visits every index at which `wanted` holds `value`. An empty `wanted` means all: visits `value`.
template <class Visit>
void for_places(const std::vector<int64_t>& wanted, int64_t value, const Visit& visit) {
  if (wanted.empty()) return visit(value);
  for (size_t place = 0; place < wanted.size(); ++place)
    if (wanted[place] == value) visit(static_cast<int64_t>(place));
}

// The results of one run of the reference for every tensor, by their place in the tensor, so that
// runs of two types can be compared.
template <class Real>
class Collector {
 public:
  Collector(const Sizes& sizes, const Captures& captures) : sizes_(sizes), captures_(captures) {
    if (const auto& map = captures.map) {
      const size_t heads =
          map->heads.empty() ? static_cast<size_t>(sizes.heads) : map->heads.size();
      cells.assign(heads * static_cast<size_t>(map->rows * map->columns), 0);
    }
    if (captures.received) received.assign(static_cast<size_t>(sizes.heads * sizes.k_len), 0);
  }

  void add(const Row<Real>& row) {
    output.insert(output.end(), row.output.begin(), row.output.end());
    lse.push_back(row.statistic);
    if (captures_.entropy) entropy.push_back(row.entropy);
    if (const auto& wanted = captures_.weights) {
      for_weights_row(*wanted, row, [&](int64_t) {
        weights.insert(weights.end(), row.weights.begin(), row.weights.end());
      });
    }
    if (captures_.top_k > 0) {
      std::vector<Real> sorted = row.weights;
      sort_falling(sorted);
      sorted.resize(static_cast<size_t>(captures_.top_k), Real{0});
      top_weights.insert(top_weights.end(), sorted.begin(), sorted.end());
    }
    if (captures_.received)
      for (size_t j = 0; j < row.weights.size(); ++j)
        received[static_cast<size_t>(row.head * sizes_.k_len) + j] += row.weights[j];
    if (captures_.map) pool(row, cells, [&](size_t j) { return row.weights[j]; });
  }

  // Visits the rows of the weights' tensor that hold this row, if any.
  template <class Visit>
  void for_weights_row(const WeightsWanted& wanted, const Row<Real>& row, const Visit& visit) {
    const int64_t end = wanted.end < 0 ? sizes_.q_len : wanted.end;
    const int64_t rows =
        wanted.rows.empty() ? end - wanted.begin : static_cast<int64_t>(wanted.rows.size());
    for_places(wanted.heads, row.head, [&](int64_t head) {
      if (wanted.rows.empty()) {
        if (row.index >= wanted.begin && row.index < end)
          visit(head * rows + row.index - wanted.begin);
      } else {
        for_places(wanted.rows, row.index, [&](int64_t r) { visit(head * rows + r); });
      }
    });
  }

  // Adds value(j) of one row to its cells. With Pooling::max, a cell becomes the maximum of both.
  template <class Value, class Number>
  void pool(const Row<Real>& row, std::vector<Number>& into, const Value& value) {
    const MapWanted& map = *captures_.map;
    const int64_t q_len = sizes_.q_len, k_len = sizes_.k_len;
    for (int64_t a = 0; a < map.rows; ++a) {
      const int64_t begin = a * q_len / map.rows, end = (a + 1) * q_len / map.rows;
      if (row.index < begin || row.index >= end) continue;
      for_places(map.heads, row.head, [&](int64_t head) {
        for (int64_t b = 0; b < map.columns; ++b) {
          const int64_t first = b * k_len / map.columns, last = (b + 1) * k_len / map.columns;
          Number& cell = into[static_cast<size_t>((head * map.rows + a) * map.columns + b)];
          const auto pairs = static_cast<Number>((end - begin) * (last - first));
          for (int64_t j = first; j < last; ++j) {
            const auto x = static_cast<Number>(value(static_cast<size_t>(j)));
            if (map.pooling == Pooling::max)
              cell = std::max(cell, x);
            else
              cell += map.pooling == Pooling::mean ? x / pairs : x;
          }
        }
      });
    }
  }

  std::vector<Real> output, lse, entropy, weights, top_weights, cells, received;

 private:
  const Sizes& sizes_;
  const Captures& captures_;
};

// Adds the floors of one row to the expectations.
template <class Real, class Wide>
class Floors {
 public:
  Floors(const Problem& problem, const Sizes& sizes, const Captures& captures, bool sampled,
         Expectations& into)
      : sizes_(sizes), captures_(captures), sampled_(sampled), into_(into) {
    const DType dtype = problem.query.dtype;
    if (problem.rounds_weights && !is_sparse(problem.normalizer))
      weight_roundoff_ = unit_roundoff(dtype);
    if (!is_sparse(problem.normalizer)) left_out_ = problem.left_out.weights;
    const DType output = problem.output_dtype.value_or(dtype);
    output_roundoff_ = unit_roundoff(output);
    output_denormal_ = smallest_denormal(output) / 2;
    kept_factor_ = 1 / (1 - drawn_probability(problem.dropout));
    if (problem.dropout > 0) dropout_roundings_ = kEpsilon;
    if (captures.received)
      into.received.floor.assign(static_cast<size_t>(sizes.heads * sizes.k_len), 0);
  }

  void add(const Row<Wide>& row, Collector<Wide>& truth) {
    const double terms = row.score_error;
    const int64_t flat = row.head * sizes_.q_len + row.index;
    const auto statistic = static_cast<double>(row.statistic);
    seen_scores_.clear();
    for (size_t j = 0; j < row.scores.size(); ++j)
      if (row.seen[j]) seen_scores_.push_back(static_cast<double>(row.scores[j]));
    const Off off = off_of_row(row.normalizer, seen_scores_, statistic,
                               {terms * kEpsilon, kEpsilon, static_cast<double>(row.slopes),
                                static_cast<double>(row.cut), static_cast<double>(row.condition)});
    into_.lse.floor.push_back(std::visit(
        [&](const auto& n) {
          find_errors(n, row, off);
          return n.statistic_error(statistic, off);
        },
        row.normalizer));
    place(into_.lse, flat, 1);
    for (size_t c = 0; c < row.output.size(); ++c) {
      const auto output = static_cast<double>(std::abs(row.output[c]));
      const auto squares = static_cast<double>(row.output_squares[c]);
      const double rounding = (weight_roundoff_ + left_out_) * (output + squares) +
                              output_roundoff_ * output + output_denormal_;
      into_.output.floor.push_back(
          output_errors_[c] + kTiny * (1 + kept_factor_ * static_cast<double>(row.value_sum[c])) +
          rounding);
    }
    place(into_.output, flat, sizes_.value_dim);
    if (captures_.entropy) {
      const double lse = std::max(1.0, std::abs(statistic));
      double floor = kEpsilon * (2 * (lse + static_cast<double>(row.score_mean)) + terms);
      for (size_t j = 0; j < errors_.size(); ++j)
        if (row.weights[j] > 0)
          floor +=
              errors_[j] * static_cast<double>(std::abs(std::log(row.weights[j]) + row.entropy));
      into_.entropy.floor.push_back(floor);
      place(into_.entropy, flat, 1);
    }
    if (captures_.weights)
      truth.for_weights_row(*captures_.weights, row, [&](int64_t r) {
        for (size_t j = 0; j < row.weights.size(); ++j)
          into_.weights.floor.push_back(errors_[j] + kTiny);
        const bool in_order = !sampled_ && *captures_.weights == WeightsWanted{};
        for (int64_t j = 0; j < sizes_.k_len && !in_order; ++j)
          into_.weights.at.push_back(r * sizes_.k_len + j);
      });
    if (captures_.top_k > 0) add_top_k(row, flat);
    if (captures_.received)
      for (size_t j = 0; j < row.weights.size(); ++j)
        into_.received.floor[static_cast<size_t>(row.head * sizes_.k_len) + j] +=
            errors_[j] + kTiny;
    if (captures_.map) {
      into_.map.floor.resize(truth.cells.size(), 0);
      truth.pool(row, into_.map.floor, [&](size_t j) { return errors_[j] + kTiny; });
    }
  }

 private:
  static constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();
  static constexpr double kTiny = std::numeric_limits<Real>::min();

  // Computes the errors of the row's weights, and those of the output that follow from them. Both
  // leave out what weights that are flushed to zero add.
  template <class N>
  void find_errors(const N& normalizer, const Row<Wide>& row, const Off& off) {
    errors_.assign(row.weights.size(), 0);
    output_errors_.assign(row.output.size(), 0);
    const Wide* value = row.value_sizes.data();
    for (size_t j = 0; j < errors_.size(); ++j, value += row.output.size()) {
      if (!row.seen[j]) continue;
      const auto weight = static_cast<double>(row.weights[j]);
      errors_[j] = normalizer.weight_error(static_cast<double>(row.scores[j]), weight,
                                           static_cast<double>(row.statistic), off);
      const auto kept = static_cast<double>(row.kept[j]);
      const double error = kept * (errors_[j] + dropout_roundings_ * weight);
      for (size_t c = 0; c < row.output.size(); ++c)
        output_errors_[c] += error * static_cast<double>(value[c]);
    }
  }

  // Appends the places of a row's elements in the tensor. Without a sample all rows come in order,
  // and `at` stays empty.
  void place(Expectation& e, int64_t flat, int64_t width) const {
    if (!sampled_) return;
    for (int64_t c = 0; c < width; ++c) e.at.push_back(flat * width + c);
  }

  void add_top_k(const Row<Wide>& row, int64_t flat) {
    Expectations::Candidates candidates{flat, {}, {}, row.seen};
    for (size_t j = 0; j < errors_.size(); ++j) {
      candidates.weights.push_back(row.weights[j]);
      candidates.error.push_back(errors_[j] + kTiny);
    }
    std::vector<double> sorted = candidates.error;
    sort_falling(sorted);
    sorted.resize(static_cast<size_t>(captures_.top_k), kTiny);
    into_.top_weights.floor.insert(into_.top_weights.floor.end(), sorted.begin(), sorted.end());
    place(into_.top_weights, flat, captures_.top_k);
    into_.candidates.push_back(std::move(candidates));
  }

  const Sizes& sizes_;
  const Captures& captures_;
  bool sampled_;
  Expectations& into_;
  double weight_roundoff_ = 0, left_out_ = 0, output_roundoff_ = 0, output_denormal_ = 0;
  double kept_factor_ = 1, dropout_roundings_ = 0;
  std::vector<double> errors_, output_errors_, seen_scores_;  // [k_len], [value_dim], [seen keys]
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
  Collector<Wide> truth(sizes, captures);
  Collector<Real> plain(sizes, captures);
  Floors<Real, Wide> floors(problem, sizes, captures, sampled, e);
  for_each_row<Wide>(problem, sample, [&](const Row<Wide>& row) {
    truth.add(row);
    floors.add(row, truth);
  });
  for_each_row<Real>(problem, sample, [&](const Row<Real>& row) { plain.add(row); });
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
  fill(e.map, truth.cells, plain.cells);
  fill(e.received, truth.received, plain.received);
  e.map.floor.resize(e.map.truth.size(), 0);
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
  return std::isfinite(e.truth[i]) && std::isfinite(e.plain[i]) && std::isfinite(e.floor[i]);
}

}  // namespace

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
    const bool wrong_class = std::isfinite(truth[i]) ? std::isfinite(plain[i]) && !std::isfinite(x)
                                                     : std::isfinite(x) || (std::isinf(truth[i]) &&
                                                                            truth[i] < 0 && x > 0);
    if (wrong_class) {
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
      if (std::isfinite(row.weights[key]) && std::abs(row.weights[key] - weight) > allowed)
        return fail(place, "not the weight of key " + std::to_string(key));
    }
  }
  return verdict;
}

}  // namespace check
