// Statistics of heads from what the call captured, as a table and as JSON.
#include "cli/attend/attend_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/attend/attend_captures.h"
#include "cli/mask/allowed_pairs.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_text.h"

namespace rapt::cli {
namespace {

// "cat (5)", or "5" without words.
std::string key_text(int64_t key, const std::vector<std::string>& words) {
  const std::string number = std::to_string(key);
  return words.empty() ? number
                       : fmt::format("{} ({})", printable(words[static_cast<size_t>(key)]), number);
}

// The share of unmasked pairs per head. Without masks that read tensors it is equal for all heads
// and follows from the plan.
std::vector<double> allowed_shares_of(const Problem& problem, const Plan& plan, int64_t heads) {
  std::vector<double> shares(static_cast<size_t>(heads), 0);
  const double pairs = static_cast<double>(problem.q_len) * static_cast<double>(problem.k_len);
  if (pairs == 0) return shares;
  const bool same = problem.masks.tensors.empty() && !problem.bias.view().defined();
  for (int64_t h = 0; h < heads; ++h) {
    double count = static_cast<double>(plan.allowed_scores) / static_cast<double>(heads);
    if (!same) {
      const std::vector<int64_t> index = head_index(h, problem.leading);
      count = static_cast<double>(count_allowed(
          problem.masks.pointers, problem.options.bias,
          {index.data(), static_cast<int>(index.size()), problem.q_len, problem.k_len}, 1, 1)[0]);
    }
    shares[static_cast<size_t>(h)] = count / pairs;
  }
  return shares;
}

void add_entropy(const TensorView& entropy, const TensorView& lse, int64_t first, int64_t q_len,
                 HeadStats& stats) {
  stats.entropy_min = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int64_t i = first; i < first + q_len; ++i) {
    const double log_sum = element(lse, i);
    if (std::isinf(log_sum) && log_sum < 0) {
      ++stats.rows_without_keys;
      continue;
    }
    const double value = element(entropy, i);
    sum += value;
    // Keeps a NaN, which comparisons would drop.
    stats.entropy_min = std::isnan(value) ? value : std::min(stats.entropy_min, value);
    stats.entropy_max = std::isnan(value) ? value : std::max(stats.entropy_max, value);
  }
  const int64_t rows = q_len - stats.rows_without_keys;
  stats.entropy_mean = rows > 0 ? sum / static_cast<double>(rows) : 0;
  if (rows == 0) stats.entropy_min = 0;
}

std::vector<ReceivedByKey> most_received(const TensorView& received, int64_t first, int64_t k_len) {
  std::vector<ReceivedByKey> keys;
  keys.reserve(static_cast<size_t>(k_len));
  for (int64_t j = 0; j < k_len; ++j) keys.push_back({j, element(received, first + j)});
  const auto most = std::min(static_cast<std::ptrdiff_t>(kMostReceived), std::ssize(keys));
  // NaN comes first, so that it is visible, then the largest; of equal ones the first key.
  const auto rank = [](const ReceivedByKey& key) {
    return std::isnan(key.weight) ? std::numeric_limits<double>::infinity() : key.weight;
  };
  std::partial_sort(keys.begin(), keys.begin() + most, keys.end(),
                    [&](const ReceivedByKey& a, const ReceivedByKey& b) {
                      return rank(a) != rank(b) ? rank(a) > rank(b) : a.key < b.key;
                    });
  keys.resize(static_cast<size_t>(most));
  return keys;
}

// Words are in the last column and need not line up, because the width of text in a terminal is not
// its number of bytes.
std::string received_text(const HeadStats& head, const std::vector<std::string>& words) {
  constexpr size_t kShown = 4;  // so that a line fits a terminal
  std::string text;
  for (size_t i = 0; i < std::min(kShown, head.most_received.size()); ++i) {
    const ReceivedByKey& key = head.most_received[i];
    text += fmt::format("{}{} {:.3g}", i ? ", " : "", key_text(key.key, words), key.weight);
  }
  return text;
}

std::string index_text(const std::vector<int64_t>& index) {
  std::string text;
  for (const int64_t i : index) text += (text.empty() ? "" : ",") + std::to_string(i);
  return text.empty() ? "all" : text;
}

}  // namespace

std::vector<HeadStats> head_stats(const Problem& problem, const Plan& plan,
                                  const AttentionResult& result) {
  const int64_t heads = std::accumulate(problem.leading.begin(), problem.leading.end(), int64_t{1},
                                        std::multiplies<>());
  const std::vector<double> shares = allowed_shares_of(problem, plan, heads);
  std::vector<HeadStats> all;
  for (int64_t h = 0; h < heads; ++h) {
    HeadStats& stats = all.emplace_back();
    stats.head = head_index(h, problem.leading);
    stats.allowed_share = shares[static_cast<size_t>(h)];
    add_entropy(result.entropy.view(), result.statistic.view(), h * problem.q_len, problem.q_len,
                stats);
    stats.most_received = most_received(result.received.view(), h * problem.k_len, problem.k_len);
  }
  return all;
}

std::string stats_text(const std::vector<HeadStats>& stats, const std::vector<std::string>& words,
                       int64_t k_len) {
  constexpr size_t kShown = 64;  // heads; --json has all
  std::string text = fmt::format(
      "entropy in nats, ln {} = {:.4f} if all keys had the same weight; received: the sum of the "
      "weights that a key gets\n",
      k_len, k_len > 0 ? std::log(static_cast<double>(k_len)) : 0.0);
  text += fmt::format("{:<8} {:>12} {:>8} {:>8} {:>9}  {}\n", "head", "entropy mean", "min", "max",
                      "allowed", "received most");
  for (size_t h = 0; h < std::min(kShown, stats.size()); ++h) {
    const HeadStats& s = stats[h];
    text += fmt::format("{:<8} {:>12.4f} {:>8.4f} {:>8.4f} {:>7.2f} %  {}\n", index_text(s.head),
                        s.entropy_mean, s.entropy_min, s.entropy_max, 100 * s.allowed_share,
                        received_text(s, words));
    if (s.rows_without_keys > 0) {
      text += fmt::format("{:<8} {} queries may attend to no key and are not among these\n", "",
                          s.rows_without_keys);
    }
  }
  if (stats.size() > kShown) {
    text += fmt::format("and {} heads more; --json has all of them\n", stats.size() - kShown);
  }
  return text;
}

nlohmann::ordered_json stats_json(const std::vector<HeadStats>& stats,
                                  const std::vector<std::string>& words) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const HeadStats& s : stats) {
    Json received = Json::array();
    for (const ReceivedByKey& key : s.most_received) {
      received.push_back(
          Json{{"key", key.key},
               {"word", words.empty() ? Json() : Json(words[static_cast<size_t>(key.key)])},
               {"weight", json_number(key.weight)}});
    }
    all.push_back(Json{{"head", s.head},
                       {"entropy_mean", json_number(s.entropy_mean)},
                       {"entropy_min", json_number(s.entropy_min)},
                       {"entropy_max", json_number(s.entropy_max)},
                       {"rows_without_keys", s.rows_without_keys},
                       {"allowed_share", s.allowed_share},
                       {"most_received", std::move(received)}});
  }
  return all;
}

bool few_queries(const TensorView& top_keys) {
  constexpr int64_t kLines = 64, kNumbers = 1024;  // few enough to read without much scrolling
  const int64_t top_k = top_keys.shape[top_keys.rank - 1];
  return top_keys.count() <= kNumbers && top_keys.count() / std::max<int64_t>(top_k, 1) <= kLines;
}

std::string top_keys_text(const TensorView& keys, const TensorView& weights,
                          const std::vector<std::string>& words) {
  const int64_t top_k = keys.shape[keys.rank - 1], q_len = keys.shape[keys.rank - 2];
  const std::vector<int64_t> leading(keys.shape, keys.shape + keys.rank - 2);
  std::string text;
  for (int64_t row = 0; row < keys.count() / top_k; ++row) {
    if (row % q_len == 0 && !leading.empty()) {
      text += "  head " + head_text(row / q_len, leading) + ":\n";
    }
    std::string line;
    for (int64_t k = 0; k < top_k; ++k) {
      const auto key = static_cast<int64_t>(element(keys, row * top_k + k));
      if (key < 0) break;
      line += fmt::format("{}{} {:.4f}", k ? ", " : "", key_text(key, words),
                          element(weights, row * top_k + k));
    }
    text += fmt::format("  {}: {}\n", key_text(row % q_len, words),
                        line.empty() ? "may attend to no key" : line);
  }
  return text;
}

}  // namespace rapt::cli
