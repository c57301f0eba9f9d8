// Every column of `rapt compare`, against full matrices of doubles.
#include "cli/compare/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "cli/compare/compare_report.h"
#include "cli/compare/metrics/leak.h"
#include "cli/compare/plain_attention.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "rapt/method/lsh.h"

namespace rapt::cli {
namespace {

using ReportJson = nlohmann::ordered_json;
using Heads = std::vector<PlainHead>;
using Allows = std::function<bool(int64_t query, int64_t key)>;

struct DrawnComparison {
  const char* input;
  const char* mask;  // empty: none
  Allows allows;
  const char* q_len;
  std::vector<std::string> methods;
};

Allows causal_pairs() {
  return [](int64_t i, int64_t j) { return j <= i; };
}

std::vector<DrawnComparison> drawn_comparisons() {
  return {{"clustered",
           "",
           [](int64_t, int64_t) { return true; },
           "96",
           {"lsh(rounds={1,3},chunk=12,duplicates={count-once,count-all})", "mask=window(20,10)"}},
          {"clustered",
           "causal",
           causal_pairs(),
           "96",
           {"lsh(rounds=2,chunk=12)", "favor(features=32)", "mask=window(9,0)", "mean"}},
          {"normal(0.7)",
           "causal",
           causal_pairs(),
           "112",
           {"favor(features={8,24})", "linear(elu)", "mask=window(30,0)"}},
          {"needle",
           "window(40,20)",
           [](int64_t i, int64_t j) { return j >= i - 40 && j <= i + 20; },
           "112",
           {"mask=window({5,12},4)"}},
          {"huge-key",
           "prefix(8) | window(30,0)",
           [](int64_t i, int64_t j) { return j < 8 || (j <= i && j >= i - 30); },
           "80",
           {"mask=window(6,6)", "norm=softmax"}}};
}

CompareArguments arguments_for(const DrawnComparison& problem) {
  CompareArguments a;
  a.input = problem.input;
  a.q_len = problem.q_len;
  a.head_dim = "8";
  a.heads = "2";
  a.dtype = "f64";
  a.seed = "7";
  a.seeds = "3";
  a.methods = problem.methods;
  a.gradients = true;
  if (*problem.mask != '\0') a.masks = {problem.mask};
  return a;
}

PlainMatrix matrix_of(const TensorView& heads, int64_t head) {
  PlainMatrix matrix(heads.shape[heads.rank - 2], heads.shape[heads.rank - 1]);
  const double* const from =
      static_cast<const double*>(heads.data) + head * matrix.rows * matrix.columns;
  std::copy_n(from, matrix.rows * matrix.columns, matrix.numbers.begin());
  return matrix;
}

Heads heads_of(const ComparedCall& call, double scale) {
  Heads heads;
  for (int64_t h = 0; h < call.query.shape[0]; ++h) {
    heads.push_back({matrix_of(call.query, h), matrix_of(call.key, h), matrix_of(call.value, h),
                     matrix_of(call.d_output, h), scale});
  }
  return heads;
}

PlainMatrix allowed_counts(int64_t n, const Allows& allows) {
  PlainMatrix counts(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) counts.at(i, j) = allows(i, j) ? 1 : 0;
  return counts;
}

// No token attends to itself, unless it attends to nothing else.
void leave_out_own(PlainMatrix& counts) {
  for (int64_t i = 0; i < counts.rows; ++i) {
    const double own = std::exchange(counts.at(i, i), 0);
    double others = 0;
    for (int64_t j = 0; j < counts.columns; ++j) others += counts.at(i, j);
    if (others == 0) counts.at(i, i) = own > 0 ? 1 : 0;
  }
}

// In how many rounds pairs meet: rows in the order of bucket and position, cut into chunks; a row
// meets those of its chunk and of the one before.
PlainMatrix lsh_counts(const Lsh& lsh, const LshBuckets& buckets, int64_t head,
                       const PlainMatrix& allowed) {
  const int64_t n = allowed.rows, chunks = (n + lsh.chunk - 1) / lsh.chunk;
  PlainMatrix counts(n, n);
  for (int64_t r = 0; r < lsh.rounds; ++r) {
    const int32_t* const bucket =
        static_cast<const int32_t*>(buckets.query.data()) + (head * lsh.rounds + r) * n;
    std::vector<int64_t> order(static_cast<size_t>(n)), chunk(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return bucket[a] < bucket[b]; });
    for (int64_t at = 0; at < n; ++at)
      chunk[static_cast<size_t>(order[static_cast<size_t>(at)])] = at / lsh.chunk;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t before = (chunk[static_cast<size_t>(i)] + chunks - 1) % chunks;
        const int64_t there = chunk[static_cast<size_t>(j)];
        if (there == chunk[static_cast<size_t>(i)] || there == before)
          counts.at(i, j) += allowed.at(i, j);
      }
  }
  leave_out_own(counts);
  if (lsh.duplicates == LshDuplicates::count_once)
    for (double& count : counts.numbers) count = std::min(count, 1.0);
  return counts;
}

// The results of a call, one for each head.
struct PlainCall {
  std::vector<PlainResult> heads;
  std::vector<PlainMatrix> counts;  // of the pairs looked at
};

PlainCall plain_exact(const Heads& heads, const PlainMatrix& allowed, Exactly exactly) {
  PlainCall plain;
  for (const PlainHead& head : heads) {
    PlainMatrix counts = allowed;
    if (exactly == Exactly::shared_keys) leave_out_own(counts);
    plain.counts.push_back(counts);
    plain.heads.push_back(
        plain_softmax(head, counts, exactly == Exactly::plain ? PlainKeys::own : PlainKeys::units));
  }
  return plain;
}

PlainCall plain_lsh(const Lsh& lsh, const ComparedCall& call, const Heads& heads,
                    const PlainMatrix& allowed) {
  const LshBuckets buckets = lsh_buckets(call.query, call.key, call.value, call.options);
  PlainCall plain;
  for (size_t h = 0; h < heads.size(); ++h) {
    plain.counts.push_back(lsh_counts(lsh, buckets, static_cast<int64_t>(h), allowed));
    plain.heads.push_back(plain_softmax(heads[h], plain.counts.back(), PlainKeys::units));
  }
  return plain;
}

// The width of "window(5,5)", "mask=window(9,0)".
Allows window_in(const std::string& name) {
  const size_t at = name.find("window(") + 7, comma = name.find(',', at);
  const int64_t left = std::stoll(name.substr(at)), right = std::stoll(name.substr(comma + 1));
  return [left, right](int64_t i, int64_t j) { return j >= i - left && j <= i + right; };
}

PlainCall plain_call(const Contender& contender, const ComparedCall& call, const Heads& heads,
                     const PlainMatrix& allowed) {
  const Method* const method = call.options.method;
  if (const auto* const lsh = dynamic_cast<const Lsh*>(method);
      lsh != nullptr && contender.role == Role::alternative)
    return plain_lsh(*lsh, call, heads, allowed);
  if (contender.role == Role::exact || contender.name == "norm=softmax")
    return plain_exact(heads, allowed, contender.exactly);
  if (contender.name.find("window") != std::string::npos) {
    const Allows window = window_in(contender.name);
    PlainMatrix counts = allowed;
    for (int64_t i = 0; i < counts.rows; ++i)
      for (int64_t j = 0; j < counts.columns; ++j) counts.at(i, j) *= window(i, j) ? 1 : 0;
    return plain_exact(heads, counts, contender.exactly);
  }
  PlainCall plain;
  for (const PlainHead& head : heads) {
    if (const auto* const favor = dynamic_cast<const Favor*>(method)) {
      const Tensor projection =
          favor_projection(favor->features, head.query.columns, static_cast<uint64_t>(favor->seed));
      PlainMatrix rows(favor->features, head.query.columns);
      std::ranges::copy(projection.values<double>(), rows.numbers.begin());
      plain.heads.push_back(plain_features(head, allowed, positive_features(rows)));
    } else if (dynamic_cast<const Linear*>(method) != nullptr) {
      plain.heads.push_back(plain_features(head, allowed, elu_features()));
    } else {
      plain.heads.push_back(plain_mean(head, allowed));
    }
  }
  return plain;
}

double square_of(const PlainMatrix& a, const PlainMatrix& b) {
  double square = 0;
  for (size_t i = 0; i < a.numbers.size(); ++i)
    square += (a.numbers[i] - b.numbers[i]) * (a.numbers[i] - b.numbers[i]);
  return square;
}

double square_of(const PlainMatrix& a) { return square_of(a, PlainMatrix(a.rows, a.columns)); }

double error_of(const PlainCall& call, const PlainCall& exact, PlainMatrix PlainResult::*of) {
  double difference = 0, square = 0;
  for (size_t h = 0; h < exact.heads.size(); ++h) {
    difference += square_of(call.heads[h].*of, exact.heads[h].*of);
    square += square_of(exact.heads[h].*of);
  }
  return std::sqrt(difference / square);
}

double row_error(const PlainMatrix& a, const PlainMatrix& b, int64_t i) {
  double difference = 0, square = 0;
  for (int64_t d = 0; d < a.columns; ++d) {
    difference += (a.at(i, d) - b.at(i, d)) * (a.at(i, d) - b.at(i, d));
    square += b.at(i, d) * b.at(i, d);
  }
  return std::sqrt(difference / square);
}

// The error that a share of the rows does not exceed.
double row_error_at(const PlainCall& call, const PlainCall& exact, int percent) {
  std::vector<double> errors;
  for (size_t h = 0; h < exact.heads.size(); ++h)
    for (int64_t i = 0; i < exact.heads[h].output.rows; ++i)
      errors.push_back(row_error(call.heads[h].output, exact.heads[h].output, i));
  std::ranges::sort(errors);
  const size_t rank = (errors.size() * static_cast<size_t>(percent) + 99) / 100;
  return errors[rank - 1];
}

// Share of the exact weights, recall of the `largest` and pairs, all as means.
struct PlainLooks {
  double share = 0, recall = 0, pairs = 0;
};

PlainLooks looks_of(const PlainCall& call, const PlainCall& exact, int64_t largest) {
  PlainLooks looks;
  double rows = 0, exact_pairs = 0;
  for (size_t h = 0; h < exact.heads.size(); ++h) {
    const PlainMatrix &counts = call.counts[h], &possible = exact.counts[h];
    const PlainMatrix& weights = exact.heads[h].weights;
    for (int64_t i = 0; i < counts.rows; ++i, ++rows) {
      std::vector<std::pair<double, bool>> keys;  // weight, looked at
      for (int64_t j = 0; j < counts.columns; ++j)
        if (possible.at(i, j) > 0) keys.emplace_back(weights.at(i, j), counts.at(i, j) > 0);
      exact_pairs += static_cast<double>(keys.size());
      std::ranges::sort(keys, std::greater());
      const size_t most = std::min(keys.size(), static_cast<size_t>(largest));
      double found = 0;
      for (size_t k = 0; k < keys.size(); ++k) {
        if (!keys[k].second) continue;
        looks.share += keys[k].first;
        looks.pairs += 1;
        if (k < most) found += 1;
      }
      looks.recall += found / static_cast<double>(most);
    }
  }
  return {looks.share / rows, looks.recall / rows, looks.pairs / exact_pairs};
}

double middle_of(std::vector<double> numbers) {  // of an odd number of them
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

void expect_same(const ReportJson& number, double plain, const std::string& what) {
  EXPECT_NEAR(number.get<double>(), plain, 1e-5 * std::abs(plain) + 1e-9) << what;
}

class ComparedColumns {
 public:
  explicit ComparedColumns(const DrawnComparison& drawn)
      : arguments_(arguments_for(drawn)),
        files_(budget_),
        problem_(arguments_, files_),
        contenders_(problem_, alternative_specs(arguments_.methods), files_, false),
        allowed_(allowed_counts(problem_.q_len(), drawn.allows)),
        heads_(heads_of(problem_.exact_call(), problem_.scale())) {
    compare_calls(problem_, contenders_, {kSeedCount, 256}, budget_);
    report_ = compare_json(problem_, contenders_, 0, 0);
  }

  void expect_all() {
    for (Contender& contender : contenders_.all()) {
      ASSERT_TRUE(contender.computed()) << contender.refused;
      SCOPED_TRACE(problem_.input_text() + " " + contender.name);
      const ReportJson& row = row_of(contender);
      const PlainCall exact = plain_exact(heads_, allowed_, contender.exactly);
      std::vector<PlainCall> calls;
      for (int s = 0; s < (contender.random() ? kSeedCount : 1); ++s) {
        if (contender.alternative) contender.alternative->move_seed(s);
        calls.push_back(plain_call(contender, contender.call, heads_, allowed_));
      }
      expect_errors(row.at("error"), contender, calls, exact);
      if (contender.random()) expect_spread(row.at("error"), calls, exact);
      expect_looks(row.at("looked_at"), calls, exact);
      if (!row.at("window").is_null()) expect_nearest_window(row, contender.exactly);
      if (!row.at("leak").is_null()) expect_leak(row.at("leak"), contender);
    }
  }

 private:
  static constexpr int kSeedCount = 3;

  const ReportJson& row_of(const Contender& contender) const {
    constexpr const char* kRoles[] = {"exact", "mean", "method", "window"};
    const char* const exact = contender.exactly == Exactly::plain ? "plain" : "shared keys";
    for (const ReportJson& row : report_.at("calls"))
      if (row.at("name") == contender.name && row.at("exact") == exact &&
          row.at("role") == kRoles[static_cast<int>(contender.role)])
        return row;
    throw std::runtime_error("no call " + contender.name);
  }

  template <class Of>
  static double over_seeds(const std::vector<PlainCall>& calls, const Of& of) {
    std::vector<double> numbers;
    for (const PlainCall& call : calls) numbers.push_back(of(call));
    return middle_of(numbers);
  }

  static void expect_errors(const ReportJson& error, const Contender& contender,
                            const std::vector<PlainCall>& calls, const PlainCall& exact) {
    const auto expect_error = [&](const char* name, PlainMatrix PlainResult::*of) {
      const double plain =
          over_seeds(calls, [&](const PlainCall& call) { return error_of(call, exact, of); });
      expect_same(error.at(name), plain, name);
    };
    expect_error("output", &PlainResult::output);
    expect_error("d_query", &PlainResult::d_query);
    expect_error("d_value", &PlainResult::d_value);
    if (contender.exactly == Exactly::plain)
      expect_error("d_key", &PlainResult::d_key);
    else
      EXPECT_TRUE(error.at("d_key").is_null());
    for (const int percent : {50, 90, 99, 100}) {
      const double plain = over_seeds(
          calls, [&](const PlainCall& call) { return row_error_at(call, exact, percent); });
      const std::string name = "rows_" + std::to_string(percent);
      expect_same(error.at(name), plain, name);
    }
  }

  static void expect_spread(const ReportJson& error, const std::vector<PlainCall>& calls,
                            const PlainCall& exact) {
    double bias = 0, spread = 0, size = 0;
    for (size_t h = 0; h < exact.heads.size(); ++h) {
      const PlainMatrix& truth = exact.heads[h].output;
      PlainMatrix mean(truth.rows, truth.columns);
      for (const PlainCall& call : calls)
        for (size_t i = 0; i < mean.numbers.size(); ++i)
          mean.numbers[i] += call.heads[h].output.numbers[i] / kSeedCount;
      bias += square_of(mean, truth);
      size += square_of(truth);
      for (const PlainCall& call : calls) spread += square_of(call.heads[h].output, mean);
    }
    expect_same(error.at("bias"), std::sqrt(bias / size), "bias");
    expect_same(error.at("spread"), std::sqrt(spread / (kSeedCount - 1) / size), "spread");
  }

  static void expect_looks(const ReportJson& looked_at, const std::vector<PlainCall>& calls,
                           const PlainCall& exact) {
    if (calls[0].counts.empty()) {
      for (const auto& [name, number] : looked_at.items()) EXPECT_TRUE(number.is_null()) << name;
      return;
    }
    const auto plain = [&](int64_t largest, double PlainLooks::*of) {
      return over_seeds(calls,
                        [&](const PlainCall& call) { return looks_of(call, exact, largest).*of; });
    };
    expect_same(looked_at.at("share"), plain(1, &PlainLooks::share), "share");
    expect_same(looked_at.at("pairs"), plain(1, &PlainLooks::pairs), "pairs");
    for (const int64_t largest : {1, 8, 64}) {
      const std::string name = "recall_" + std::to_string(largest);
      expect_same(looked_at.at(name), plain(largest, &PlainLooks::recall), name);
    }
  }

  // Windows one key narrower and wider do not have a number of pairs that is nearer to the cost of
  // the method.
  void expect_nearest_window(const ReportJson& row, Exactly exactly) const {
    const std::string name = row.at("window").get<std::string>();
    const bool to_one_side = name.ends_with(",0)");
    const double cost = row.at("cost_pairs").get<double>();
    const auto distance = [&](int64_t width) {
      double pairs = 0;
      PlainMatrix counts = allowed_;
      for (int64_t i = 0; i < counts.rows; ++i)
        for (int64_t j = 0; j < counts.columns; ++j)
          if (j < i - width || j > i + (to_one_side ? 0 : width)) counts.at(i, j) = 0;
      if (exactly == Exactly::shared_keys) leave_out_own(counts);
      for (const double count : counts.numbers) pairs += count;
      return std::abs(pairs * static_cast<double>(heads_.size()) - cost);
    };
    const int64_t width = std::stoll(name.substr(name.find('(') + 1));
    for (const int64_t other : {std::max<int64_t>(width - 1, 0), width + 1})
      EXPECT_GE(distance(other) + 1e-6 * cost, distance(width)) << name << ", not " << other;
  }

  void expect_leak(const ReportJson& leak, Contender& contender) {
    const int64_t from = problem_.q_len() / 2;
    if (contender.alternative) contender.alternative->move_seed(0);
    ComparedCall other = contender.call;
    const uint64_t seed = problem_.seed();
    const Tensor query = with_other_rows(other.query, from, seed + 2);
    const Tensor key = with_other_rows(other.key, from, seed + 3);
    const Tensor value = with_other_rows(other.value, from, seed + 4);
    const bool shared = other.key.data == other.query.data;
    other.query = query.view();
    other.key = shared ? query.view() : key.view();
    other.value = value.view();
    const PlainCall before = plain_call(contender, contender.call, heads_, allowed_);
    const PlainCall after =
        plain_call(contender, other, heads_of(other, problem_.scale()), allowed_);
    double largest = 0;
    int64_t rows = 0;
    for (size_t h = 0; h < heads_.size(); ++h)
      for (int64_t i = 0; i < from; ++i) {
        const double change = row_error(after.heads[h].output, before.heads[h].output, i);
        largest = std::max(largest, change);
        if (change > 1e-12) ++rows;
      }
    const auto number = [&](const char* name) { return leak.at(name).get<int64_t>(); };
    EXPECT_EQ(number("of"), from * std::ssize(heads_));
    expect_same(leak.at("largest"), largest, "leak");
    // A row with the same pairs can have other bits where they are added in another order.
    EXPECT_GE(number("rows"), rows);
    if (rows == 0) {
      EXPECT_EQ(number("rows"), 0);
    }
  }

  CompareArguments arguments_;
  MemoryBudget budget_{-1};
  TensorInput files_;
  CompareProblem problem_;
  Contenders contenders_;
  PlainMatrix allowed_;
  Heads heads_;
  ReportJson report_;
};

class ComparisonTest : public testing::TestWithParam<size_t> {};

TEST_P(ComparisonTest, EveryColumnIsThatOfFullMatrices) {
  ComparedColumns(drawn_comparisons()[GetParam()]).expect_all();
}

INSTANTIATE_TEST_SUITE_P(Drawn, ComparisonTest, testing::Range<size_t>(0, 5));

}  // namespace
}  // namespace rapt::cli
