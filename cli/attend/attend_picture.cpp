// The cells and labels of the picture of a head.
#include "cli/attend/attend_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/mask/allowed_pairs.h"
#include "cli/output/tensor_text.h"
#include "rapt/method/lsh.h"

namespace rapt::cli {
namespace {

// The greatest number of positions in a cell.
int64_t largest_cell(int64_t length, int64_t cells) { return (length + cells - 1) / cells; }

// One label per cell: the word, or the first and last word of the cell. Without words, or with more
// pooled cells than kMaxVectorCells, labels are position numbers. Returns none for more than 20
// such cells: the axis then has ticks.
std::vector<std::string> cell_labels(const std::string& of, int64_t length, int64_t cells,
                                     const std::vector<std::string>& words) {
  constexpr int64_t kMostNamed = 20;  // "Query 7" fits beside this many cells
  const bool pooled = cells < length;
  const bool by_words = !words.empty() && (!pooled || cells <= viz::kMaxVectorCells);
  if (!by_words && cells > kMostNamed) return {};
  std::vector<std::string> labels;
  for (int64_t cell = 0; cell < cells; ++cell) {
    const int64_t first = cell * length / cells, last = (cell + 1) * length / cells - 1;
    const auto name = [&](int64_t i) {
      return by_words ? words[static_cast<size_t>(i)] : std::to_string(i);
    };
    std::string label = name(first);
    if (first != last) label += (by_words ? " \u2026 " : "-") + name(last);
    labels.push_back(by_words || pooled ? label : of + " " + label);
  }
  return labels;
}

std::string axis_title(const std::string& of, int64_t length, int64_t cells) {
  const int64_t each = largest_cell(length, cells);
  if (each == 1) return of;
  return fmt::format("{} ({}{} in a cell)", of, length % cells ? "up to " : "", each);
}

std::string title_of(const Problem& problem, const CapturePlan& plan) {
  const MapRequest& map = plan.picture_map;
  std::string title = "Attention weights";
  const std::string head = head_text(plan.picture_head, problem.leading);
  if (!head.empty()) title += " of head " + head;
  const std::vector<std::string>& specs = problem.masks.specs;
  for (size_t i = 0; i < specs.size(); ++i) title += (i ? " and " : ", ") + specs[i];
  if (problem.options.cosine) title += ", cosine";
  if (problem.options.rotary.embedding) title += ", rotary";
  if (problem.options.relative.any()) title += ", relative";
  if (draws_exact_weights(problem)) title += ", exact";
  for (const std::string& score : problem.scores.specs) title += ", " + score;
  if (problem.normalizer_spec != "softmax") title += ", " + problem.normalizer_spec;
  if (map.rows < problem.q_len || map.columns < problem.k_len) {
    title += fmt::format(": {} of each cell", map.pool == Pool::max   ? "maximum"
                                              : map.pool == Pool::sum ? "sum"
                                                                      : "mean");
  }
  return title;
}

// The first queries of a causal mask have weights near 1, while weights over 30,000 keys are small.
// If the largest weight would leave the rest without colour, the colour bar ends at the 99th
// percentile of the cells.
std::optional<viz::ValueRange> range_of(const viz::Heatmap& picture) {
  constexpr double kFaint = 4;  // the largest value divided by the 99th percentile
  std::vector<float> values;
  for (size_t i = 0; i < picture.values.size(); ++i) {
    if (picture.allowed[i] && std::isfinite(picture.values[i])) values.push_back(picture.values[i]);
  }
  if (values.empty()) return std::nullopt;
  const auto usual = values.begin() + std::ssize(values) * 99 / 100;
  std::nth_element(values.begin(), usual, values.end());
  const double high = *usual, greatest = *std::max_element(usual, values.end());
  if (high <= 0 || greatest < kFaint * high) return std::nullopt;
  return viz::ValueRange{0, high};
}

// Lines over the cells without a pair that LSH attention looked at.
void mark_looked_at(const Problem& problem, const TensorView& looked_at, viz::Heatmap& picture) {
  for (int64_t i = 0; i < picture.rows * picture.columns; ++i)
    picture.hatched.push_back(element(looked_at, i) == 0);
  picture.hatched_label = "not looked at by lsh";
  const auto& lsh = dynamic_cast<const Lsh&>(*problem.options.method);
  if (lsh.keys != LshKeys::shared || picture.rows < problem.q_len) return;
  // A token that has another key is no key of its own.
  for (int64_t i = 0; i < picture.rows; ++i) {
    const auto self = static_cast<size_t>(i * picture.columns + i);
    if (picture.values[self] == 0) picture.allowed[self] = 0;
  }
}

}  // namespace

std::optional<LshPicture> LshPicture::plan_of(const Problem& problem, const CapturePlan& captures) {
  const auto* const lsh = dynamic_cast<const Lsh*>(problem.options.method);
  if (!lsh) return std::nullopt;
  return LshPicture(problem, captures, *lsh);
}

LshPicture::LshPicture(const Problem& problem, const CapturePlan& captures, const Lsh& lsh)
    : problem_(problem), captures_(captures), shared_(lsh.keys == LshKeys::shared) {
  one_chunk_.chunk = std::max<int64_t>(problem.k_len, 1);
  exact_plan_ = plan(exact_options());
  looking_plan_ = plan(looking_options());
}

AttentionOptions LshPicture::exact_options() const {
  AttentionOptions options = problem_.options;
  options.method = shared_ ? &one_chunk_ : nullptr;
  options.map.emplace(captures_.picture_map).heads = std::span(&captures_.picture_head, 1);
  return options;
}

AttentionOptions LshPicture::looking_options() const {
  AttentionOptions options = problem_.options;
  options.scale = 0;
  MapRequest& map = options.map.emplace(captures_.picture_map);
  map.heads = std::span(&captures_.picture_head, 1), map.pool = Pool::max;
  return options;
}

Plan LshPicture::plan(const AttentionOptions& options) const {
  const Inputs& in = problem_.inputs;
  return rapt::plan(in.query, in.key, in.value, options, problem_.context);
}

int64_t LshPicture::bytes() const {
  const auto of = [](const Plan& call) { return call.result_bytes + call.workspace_bytes; };
  return static_cast<int64_t>(std::max(of(exact_plan_), of(looking_plan_)));
}

int64_t LshPicture::exact_scores() const {
  return shared_ ? exact_plan_.method_pairs : exact_plan_.allowed_scores;
}

Tensor LshPicture::map(const AttentionOptions& options, const Plan& plan,
                       const Progress& progress) const {
  Context context = problem_.context;
  context.memory_limit = static_cast<int64_t>(plan.result_bytes + plan.workspace_bytes);
  context.progress = progress;
  const Inputs& in = problem_.inputs;
  return scaled_dot_product_attention(in.query, in.key, in.value, options, context).map;
}

LshPicture::Maps LshPicture::compute(const Progress& progress) const {
  return {map(exact_options(), exact_plan_, progress),
          map(looking_options(), looking_plan_, progress)};
}

viz::Heatmap heatmap_of(const Problem& problem, const CapturePlan& plan, const TensorView& map,
                        const LshPicture::Maps* lsh) {
  const int64_t q_len = problem.q_len, k_len = problem.k_len;
  viz::Heatmap picture;
  picture.rows = plan.picture_map.rows;
  picture.columns = plan.picture_map.columns;
  const TensorView& from = lsh ? lsh->exact.view() : map;
  const int64_t cells = picture.rows * picture.columns;
  const int64_t first = lsh ? 0 : plan.picture_position * cells;
  picture.values.resize(static_cast<size_t>(cells));
  for (int64_t i = 0; i < cells; ++i)
    picture.values[static_cast<size_t>(i)] = static_cast<float>(element(from, first + i));
  const std::vector<int64_t> index = head_index(plan.picture_head, problem.leading);
  for (const int64_t count :
       count_allowed(problem.masks.pointers, problem.options.bias,
                     {index.data(), static_cast<int>(index.size()), q_len, k_len}, picture.rows,
                     picture.columns))
    picture.allowed.push_back(count > 0);
  if (lsh) mark_looked_at(problem, lsh->looked_at.view(), picture);
  if (picture.rows < q_len || picture.columns < k_len) picture.range = range_of(picture);
  picture.title = title_of(problem, plan);
  picture.row_labels = cell_labels("Query", q_len, picture.rows, problem.inputs.words);
  picture.column_labels = cell_labels("Key", k_len, picture.columns, problem.inputs.words);
  picture.positions_per_row = static_cast<double>(q_len) / static_cast<double>(picture.rows);
  picture.positions_per_column = static_cast<double>(k_len) / static_cast<double>(picture.columns);
  picture.y_label = axis_title("Queries", q_len, picture.rows);
  picture.x_label = axis_title("Keys", k_len, picture.columns);
  return picture;
}

}  // namespace rapt::cli
