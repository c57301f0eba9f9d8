#include "rapt/text/grammar.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/philox.h"
#include "rapt/error.h"

namespace rapt::text {
namespace {

constexpr uint64_t kMostWeights = 1 << 24;  // of a rule: a remainder of 2^64 is fair to 2^-40
constexpr size_t kMostRules = 1000;         // solve() takes rules^3 operations

constexpr std::string_view kWeightDigits = "0123456789", kRuleBlanks = " \t\r";

[[noreturn]] void reject_rules(int64_t line, const std::string& reason) {
  throw Error(ErrorCode::format, "line " + std::to_string(line) + " of the grammar: " + reason);
}

std::string_view without_outer_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(kRuleBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kRuleBlanks) + 1 - begin);
}

// The text of a rule, its continued lines joined by blanks.
struct RuleText {
  int64_t line = 0;  // the first
  std::string name, alternatives;
};

RuleText first_line(int64_t number, std::string_view line) {
  const size_t equals = line.find(" = ");
  if (equals == std::string_view::npos)
    reject_rules(number,
                 "expected `name = alternative | ...`, or a blank first to continue a rule");
  const std::string_view name = without_outer_blanks(line.substr(0, equals));
  if (name.find_first_of("<>|/ ") != std::string_view::npos)
    reject_rules(number, "the name \"" + std::string(name) + "\" has a blank or one of < > | /");
  return {number, std::string(name), std::string(line.substr(equals + 3))};
}

std::vector<RuleText> split_rules(std::string_view text) {
  std::vector<RuleText> rules;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (without_outer_blanks(line).empty() || line[0] == '#') continue;
    if (kRuleBlanks.find(line[0]) == std::string_view::npos)
      rules.push_back(first_line(number, line));
    else if (rules.empty())
      reject_rules(number, "it begins with a blank, and there is no rule above to continue");
    else
      rules.back().alternatives.append(" ").append(line);
  }
  if (rules.empty()) reject_rules(number, "expected a rule, `name = alternative | ...`");
  if (rules.size() > kMostRules)
    reject_rules(rules[kMostRules].line,
                 "expected at most " + std::to_string(kMostRules) + " rules");
  return rules;
}

using RuleIndices = std::map<std::string, int32_t, std::less<>>;

RuleIndices index_rules(const std::vector<RuleText>& texts) {
  RuleIndices indices;
  for (const RuleText& text : texts)
    if (!indices.emplace(text.name, static_cast<int32_t>(indices.size())).second)
      reject_rules(text.line, "there is another rule \"" + text.name + "\" above");
  return indices;
}

std::string with_line_breaks(std::string_view text) {
  std::string broken;
  for (size_t slash; (slash = text.find('/')) != std::string_view::npos;) {
    const std::string_view before = text.substr(0, slash);
    broken.append(before.substr(0, before.find_last_not_of(kRuleBlanks) + 1)).append("\n");
    text.remove_prefix(slash + 1);
    text.remove_prefix(std::min(text.find_first_not_of(kRuleBlanks), text.size()));
  }
  return broken.append(text);
}

uint64_t take_weight(std::string_view& text, int64_t line) {
  const size_t digits = std::min(text.find_first_not_of(kWeightDigits), text.size());
  if (digits == 0 || digits == text.size() || text[digits] != ' ') return 1;
  uint64_t weight = 0;
  for (size_t i = 0; i < digits && weight <= kMostWeights; ++i)
    weight = 10 * weight + static_cast<uint64_t>(text[i] - '0');
  if (weight == 0 || weight > kMostWeights)
    reject_rules(line, "expected weights from 1 to " + std::to_string(kMostWeights));
  text = without_outer_blanks(text.substr(digits));
  return weight;
}

Grammar::Alternative read_alternative(std::string_view text, int64_t line,
                                      const RuleIndices& indices) {
  text = without_outer_blanks(text);
  Grammar::Alternative alternative;
  alternative.weight = take_weight(text, line);
  if (text.empty()) reject_rules(line, "an alternative is empty");
  while (!text.empty()) {
    const size_t open = std::min(text.find('<'), text.size());
    if (open > 0) alternative.symbols.push_back({.text = with_line_breaks(text.substr(0, open))});
    text.remove_prefix(open);
    if (text.empty()) break;
    const size_t close = text.find('>');
    if (close == std::string_view::npos) reject_rules(line, "a < without >");
    const auto found = indices.find(text.substr(1, close - 1));
    if (found == indices.end())
      reject_rules(line, "there is no rule \"" + std::string(text.substr(1, close - 1)) + "\"");
    alternative.symbols.push_back({.rule = found->second});
    text.remove_prefix(close + 1);
  }
  return alternative;
}

Grammar::Rule read_rule(const RuleText& text, const RuleIndices& indices) {
  Grammar::Rule rule{.name = text.name};
  std::string_view rest = text.alternatives;
  for (bool more = true; more;) {
    const size_t bar = rest.find('|');
    more = bar != std::string_view::npos;
    rule.alternatives.push_back(read_alternative(rest.substr(0, bar), text.line, indices));
    rule.weights += rule.alternatives.back().weight;
    if (rule.weights > kMostWeights)
      reject_rules(text.line, "the weights sum to more than " + std::to_string(kMostWeights));
    if (more) rest.remove_prefix(bar + 1);
  }
  return rule;
}

double probability_of(const Grammar::Rule& rule, const Grammar::Alternative& alternative) {
  return static_cast<double>(alternative.weight) / static_cast<double>(rule.weights);
}

const Grammar::Alternative& choose(const Grammar::Rule& rule, uint64_t word) {
  uint64_t rest = word % rule.weights;
  for (const Grammar::Alternative& alternative : rule.alternatives) {
    if (rest < alternative.weight) return alternative;
    rest -= alternative.weight;
  }
  return rule.alternatives.back();
}

// Solves a x = b by elimination with the largest pivot of each column; `a` has rows of n numbers.
// The solution is not finite where the matrix is singular.
std::vector<double> solve_linear_system(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    if (pivot != k) std::swap_ranges(&a[k * n], &a[k * n] + n, &a[pivot * n]);
    std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      if (factor == 0) continue;
      for (size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return b;
}

}  // namespace

Grammar::Grammar(std::string_view rules) {
  const std::vector<RuleText> texts = split_rules(rules);
  const RuleIndices indices = index_rules(texts);
  for (const RuleText& text : texts) rules_.push_back(read_rule(text, indices));

  // The expected number of expansions below each rule. The matrix I - M of the system has no
  // positive number off its diagonal. So M has a spectral radius below 1, and all expectations are
  // finite, if and only if this solution is positive.
  const std::vector<double> expansions = solve([](const Rule&, const Alternative&) { return 1.0; });
  for (const double x : expansions)
    if (!(x > 0 && std::isfinite(x)))
      throw Error(
          ErrorCode::format,
          "the expected length of a text of the grammar is infinite; give higher weights to "
          "the alternatives that do not lead back to their own rule");
}

Grammar::Drawn Grammar::draw(uint64_t seed, uint64_t index) const {
  Drawn drawn;
  PhiloxWords words{};
  uint64_t choices = 0;
  const Symbol start{.rule = 0};
  for (std::vector<const Symbol*> ahead = {&start}; !ahead.empty();) {
    const Symbol& symbol = *ahead.back();
    ahead.pop_back();
    if (symbol.rule < 0) {
      drawn.text += symbol.text;
      continue;
    }
    const Rule& rule = rules_[static_cast<size_t>(symbol.rule)];
    if (choices % 2 == 0) words = philox4x32_10(seed, index, choices / 2);
    const Alternative& chosen = choose(rule, choices++ % 2 == 0 ? words.even : words.odd);
    drawn.nats -= std::log(probability_of(rule, chosen));
    for (size_t i = chosen.symbols.size(); i-- > 0;) ahead.push_back(&chosen.symbols[i]);
  }
  return drawn;
}

double Grammar::entropy() const {
  return solve([](const Rule& rule, const Alternative& alternative) {
    return -std::log(probability_of(rule, alternative));
  })[0];
}

double Grammar::expected(const std::function<double(std::string_view)>& cost) const {
  return solve([&](const Rule&, const Alternative& alternative) {
    double sum = 0;
    for (const Symbol& symbol : alternative.symbols)
      if (symbol.rule < 0) sum += cost(symbol.text);
    return sum;
  })[0];
}

// Solves the linear system of grammar.h, an unknown per rule.
std::vector<double> Grammar::solve(
    const std::function<double(const Rule&, const Alternative&)>& cost) const {
  const size_t n = rules_.size();
  std::vector<double> matrix(n * n), costs(n);
  for (size_t i = 0; i < n; ++i) {
    matrix[i * n + i] = 1;
    for (const Alternative& alternative : rules_[i].alternatives) {
      const double p = probability_of(rules_[i], alternative);
      costs[i] += p * cost(rules_[i], alternative);
      for (const Symbol& symbol : alternative.symbols)
        if (symbol.rule >= 0) matrix[i * n + static_cast<size_t>(symbol.rule)] -= p;
    }
  }
  return solve_linear_system(std::move(matrix), std::move(costs));
}

}  // namespace rapt::text
