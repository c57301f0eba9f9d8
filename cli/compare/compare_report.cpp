#include "cli/compare/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "rapt/version.h"
#include "timing/sampling.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

// The median of a number of all seeds; none without seeds.
template <class T, class Of>
std::optional<double> median_of(const std::vector<T>& all, const Of& of) {
  if (all.empty()) return std::nullopt;
  std::vector<double> numbers;
  for (const T& one : all) numbers.push_back(of(one));
  // Sorting needs numbers; a NaN is worse than all of them.
  if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); }))
    return std::nan("");
  return timing::median(numbers);
}

std::optional<double> median_of(const std::vector<double>& all) {
  return median_of(all, [](double x) { return x; });
}

struct Column {
  const char* title;
  const char* name;  // in JSON
  std::function<std::optional<double>(const Contender&)> of;
};

std::optional<double> of_output(const Contender& c, double RowErrors::*at) {
  return median_of(c.measured.output, [at](const ResultError& e) { return e.rows.*at; });
}

const std::vector<Column>& error_columns() {
  static const std::vector<Column> columns = {
      {"output", "output",
       [](const Contender& c) {
         return median_of(c.measured.output, [](const ResultError& e) { return e.relative; });
       }},
      {"d_query", "d_query", [](const Contender& c) { return median_of(c.measured.d_query); }},
      {"d_key", "d_key", [](const Contender& c) { return median_of(c.measured.d_key); }},
      {"d_value", "d_value", [](const Contender& c) { return median_of(c.measured.d_value); }},
      {"50 %", "rows_50", [](const Contender& c) { return of_output(c, &RowErrors::at_50); }},
      {"90 %", "rows_90", [](const Contender& c) { return of_output(c, &RowErrors::at_90); }},
      {"99 %", "rows_99", [](const Contender& c) { return of_output(c, &RowErrors::at_99); }},
      {"100 %", "rows_100", [](const Contender& c) { return of_output(c, &RowErrors::at_100); }},
      {"bias", "bias", [](const Contender& c) { return c.measured.bias; }},
      {"spread", "spread", [](const Contender& c) { return c.measured.spread; }}};
  return columns;
}

const std::vector<Column>& pair_columns() {
  static const std::vector<Column> columns = {
      {"weights", "share",
       [](const Contender& c) {
         return median_of(c.measured.weights, [](const TrueWeights& w) { return w.share; });
       }},
      {"top 1", "recall_1",
       [](const Contender& c) {
         return median_of(c.measured.weights, [](const TrueWeights& w) { return w.recall[0]; });
       }},
      {"top 8", "recall_8",
       [](const Contender& c) {
         return median_of(c.measured.weights, [](const TrueWeights& w) { return w.recall[1]; });
       }},
      {"top 64", "recall_64",
       [](const Contender& c) {
         return median_of(c.measured.weights, [](const TrueWeights& w) { return w.recall[2]; });
       }},
      {"pairs", "pairs", [](const Contender& c) {
         return median_of(c.measured.weights, [](const TrueWeights& w) { return w.pairs; });
       }}};
  return columns;
}

std::string shown(std::optional<double> number) {
  if (!number) return "-";
  const double size = std::abs(*number);
  if (size == 0) return "0";
  if (size >= 1e-3 && size < 1e3) return fmt::format("{:.3g}", *number);
  return fmt::format("{:.1e}", *number);
}

std::string leak_cell(const Contender& c) {
  if (!c.measured.leak) return "-";
  return c.measured.leak->rows == 0 ? "none" : shown(c.measured.leak->largest);
}

std::string time_cell(const std::vector<double>& seconds) {
  const std::optional<double> median = median_of(seconds);
  return median ? fmt::format("{:.3g}", 1e3 * *median) : "-";
}

std::string memory_cell(const Contender& c) {
  const int64_t most = std::max(c.measured.forward_growth, c.measured.backward_growth);
  return most < 0 ? "-" : bytes_text(static_cast<double>(most));
}

using Table = std::vector<std::vector<std::string>>;

std::string aligned_text(const Table& table) {
  std::vector<size_t> widths(table.front().size(), 0);
  for (const auto& row : table)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : table) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t c = 1; c < row.size(); ++c) line += fmt::format("  {:>{}}", row[c], widths[c]);
    text += line + "\n";
  }
  return text;
}

// Baselines first, then each alternative and its window, once.
std::vector<const Contender*> in_order(const Contenders& contenders) {
  std::vector<const Contender*> order;
  for (const Contender& c : contenders.all())
    if (c.role == Role::exact || c.role == Role::mean) order.push_back(&c);
  for (const Contender& c : contenders.all()) {
    if (c.role != Role::alternative || !c.computed()) continue;
    order.push_back(&c);
    const Contender* const window = c.window ? &contenders.all()[*c.window] : nullptr;
    if (window && std::find(order.begin(), order.end(), window) == order.end())
      order.push_back(window);
  }
  return order;
}

std::string name_of_row(const Contender& c) {
  return (c.role == Role::window ? "  " : "") + c.name;
}

const Contender* mean_of(Exactly exactly, const Contenders& contenders) {
  for (const Contender& c : contenders.all())
    if (c.role == Role::mean && c.exactly == exactly && c.computed()) return &c;
  return nullptr;
}

Json number_or_null(std::optional<double> number) { return number ? json_number(*number) : Json(); }

Json result_json(const Contender& c, const Contenders& contenders) {
  constexpr const char* kRoles[] = {"exact", "mean", "method", "window"};
  Json j;
  j["name"] = c.name;
  j["role"] = kRoles[static_cast<int>(c.role)];
  j["list"] = c.alternative ? Json(c.alternative->spec().list) : Json();
  j["exact"] = c.exactly == Exactly::plain ? "plain" : "shared keys";
  j["refused"] = c.computed() ? Json() : Json(c.refused);
  j["no_gradients"] = c.no_gradients.empty() ? Json() : Json(c.no_gradients);
  for (const Column& column : error_columns())
    j["error"][column.name] = number_or_null(column.of(c));
  for (const Column& column : pair_columns())
    j["looked_at"][column.name] = number_or_null(column.of(c));
  const bool alternative = c.role == Role::alternative && c.computed();
  j["cost_pairs"] = alternative ? json_number(c.measured.pairs) : Json();
  j["window"] = c.window ? Json(contenders.all()[*c.window].name) : Json();
  Json& leak = j["leak"];
  if (c.measured.leak) {
    leak["rows"] = c.measured.leak->rows;
    leak["of"] = c.measured.leak->of;
    leak["largest"] = json_number(c.measured.leak->largest);
  }
  j["time"]["forward_seconds"] = number_or_null(median_of(c.measured.forward));
  j["time"]["backward_seconds"] = number_or_null(median_of(c.measured.backward));
  const auto bytes = [](int64_t growth) { return growth < 0 ? Json() : Json(growth); };
  j["memory"]["forward_bytes"] = bytes(c.measured.forward_growth);
  j["memory"]["backward_bytes"] = bytes(c.measured.backward_growth);
  j["words"] = alternative ? Json(words_about(c, contenders)) : Json();
  return j;
}

}  // namespace

double output_error(const Contender& contender) {
  return median_of(contender.measured.output, [](const ResultError& e) { return e.relative; })
      .value_or(0);
}

std::string words_about(const Contender& a, const Contenders& contenders) {
  const double error = output_error(a);
  std::vector<std::string> words;
  // Not "error > mean", which is false for a NaN.
  if (const Contender* mean = mean_of(a.exactly, contenders);
      mean && !(error <= output_error(*mean)))
    words.push_back("worse than the mean of the values");
  const bool same_pairs = a.measured.weights.size() == 1 && a.measured.weights[0].pairs == 1;
  if (a.window) {
    const Contender& window = contenders.all()[*a.window];
    if (window.computed() && !(error <= output_error(window)))
      words.push_back("the window of the same cost is nearer");
  } else if (!same_pairs && !(a.measured.pairs < contenders.pairs_of(a.exactly))) {
    words.push_back("exact attention costs no more operations");
  }
  if (a.measured.leak && a.measured.leak->rows > 0)
    words.push_back(fmt::format("later tokens change {} of {} earlier rows", a.measured.leak->rows,
                                a.measured.leak->of));
  if (words.empty())
    return a.window ? "nearer than the mean of the values and the window of the same cost"
                    : "nearer than the mean of the values";
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string compare_text(const CompareProblem& problem, const Contenders& contenders) {
  std::string text = fmt::format("{}: {} {}", problem.input_text(), name_of(problem.dtype()),
                                 to_string(problem.output_shape()));
  for (const std::string& mask : problem.masks()) text += ", " + mask;
  text += fmt::format(", scale {:.6g}\n\n", problem.scale());
  const std::vector<const Contender*> order = in_order(contenders);
  Table errors = {{"relative error"}}, pairs = {{"looks at"}};
  std::vector<const Column*> shown_columns;
  for (const Column& column : error_columns()) {
    const bool gradient = std::string_view(column.title).starts_with("d_");
    if (gradient && !problem.gradients()) continue;
    shown_columns.push_back(&column);
    errors[0].push_back(column.title);
  }
  for (const Column& column : pair_columns()) pairs[0].push_back(column.title);
  for (const char* title : {"leak", "forward ms", "backward ms", "memory"})
    pairs[0].push_back(title);
  for (const Contender* c : order) {
    errors.push_back({name_of_row(*c)});
    for (const Column* column : shown_columns) errors.back().push_back(shown(column->of(*c)));
    pairs.push_back({name_of_row(*c)});
    for (const Column& column : pair_columns()) pairs.back().push_back(shown(column.of(*c)));
    for (const std::string& cell : {leak_cell(*c), time_cell(c->measured.forward),
                                    time_cell(c->measured.backward), memory_cell(*c)})
      pairs.back().push_back(cell);
  }
  text += aligned_text(errors) + "\n" + aligned_text(pairs) + "\n";
  for (const Contender& c : contenders.all()) {
    if (c.role != Role::alternative) continue;
    text += c.name + ": " + (c.computed() ? words_about(c, contenders) : c.refused) + "\n";
    if (!c.no_gradients.empty()) text += c.name + ": no gradients: " + c.no_gradients + "\n";
  }
  return text;
}

nlohmann::ordered_json compare_json(const CompareProblem& problem, const Contenders& contenders,
                                    double calls_seconds, double seconds) {
  Json document;
  document["schema"] = "rapt.compare/1";
  document["build"] = build_info();
  document["input"] = problem.input_text();
  document["dtype"] = name_of(problem.dtype());
  document["output_shape"] = problem.output_shape();
  document["k_len"] = problem.k_len();
  document["head_dim"] = problem.head_dim();
  document["masks"] = problem.masks();
  document["scale"] = problem.scale();
  document["seed"] = problem.seed();
  document["calls"] = Json::array();
  for (const Contender* c : in_order(contenders))
    document["calls"].push_back(result_json(*c, contenders));
  for (const Contender& c : contenders.all())
    if (!c.computed()) document["calls"].push_back(result_json(c, contenders));
  document["time"]["calls_seconds"] = calls_seconds;
  document["time"]["cpu_seconds"] = seconds;
  return document;
}

}  // namespace rapt::cli
