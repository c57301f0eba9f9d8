// Parses requested rows, heads and map cells, and finds their places in the results.
#include "cli/attend/attend_captures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/input/arguments.h"
#include "cli/input/rows_argument.h"
#include "cli/output/narrate.h"
#include "cli/process/failure.h"
#include "rapt/method/lsh.h"
#include "rapt/viz/heatmap.h"

namespace rapt::cli {
namespace {

// "B,H" as a flat index. Dimensions that the tensors lack count as 1.
int64_t flat_head(const std::string& option, const std::string& text,
                  const std::vector<int64_t>& leading) {
  std::vector<int64_t> index = parse_integers(option, text);
  std::string wanted;
  for (const int64_t length : leading)
    wanted += fmt::format("{}0..{}", wanted.empty() ? "" : ",", length - 1);
  const auto refuse = [&] {
    throw Failure(Exit::data, fmt::format("{} {}: the heads of this problem are {}", option, text,
                                          leading.empty() ? "0,0 alone" : wanted));
  };
  while (index.size() > leading.size() && index.front() == 0) index.erase(index.begin());
  if (index.size() != leading.size()) refuse();
  int64_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= leading[d]) refuse();
    flat = flat * leading[d] + index[d];
  }
  return flat;
}

constexpr const char* kRows = "--weights-rows";

void choose_rows(const std::string& text, int64_t q_len, CapturePlan& plan,
                 WeightsRequest& request) {
  RowsArgument rows = rows_within(kRows, text, q_len);
  if (rows.list.empty()) {
    request.row_begin = rows.begin;
    request.row_end = rows.end;
    return;
  }
  plan.weights_rows = std::move(rows.list);
  request.rows = plan.weights_rows;
}

// "RxC" or "RxC:POOL".
MapRequest parse_pool(const std::string& text, Pool pool) {
  const std::string option = "--weights-pool";
  const auto refuse = [&] {
    throw usage_error(option + ": expected cells such as 64x64 or 64x64:max, got '" + text + "'");
  };
  const size_t times = text.find('x'), colon = std::min(text.find(':'), text.size());
  if (times == std::string::npos || times > colon) refuse();
  MapRequest map;
  map.pool = pool;
  map.rows = parse_integer(option, std::string_view(text).substr(0, times));
  map.columns = parse_integer(option, std::string_view(text).substr(times + 1, colon - times - 1));
  if (map.rows < 1 || map.columns < 1) refuse();
  if (colon == text.size()) return map;
  const std::string_view name = std::string_view(text).substr(colon + 1);
  const auto* const known = std::find(std::begin(kPoolNames), std::end(kPoolNames), name);
  if (known == std::end(kPoolNames)) {
    throw usage_error(fmt::format("{}: expected mean, max or sum, got '{}'", option, name),
                      did_you_mean(name, std::vector<std::string_view>(std::begin(kPoolNames),
                                                                       std::end(kPoolNames))));
  }
  map.pool = static_cast<Pool>(known - std::begin(kPoolNames));
  return map;
}

// The number of cells along one side of a picture: one per position if the picture has room, else
// cells of equal size where possible, so that labels can name them.
int64_t cells_of_picture(int64_t length) {
  constexpr int64_t kMost = 512;  // cells per side: half of kMaxImageCells
  const int64_t each = length <= viz::kMaxImageCells ? 1 : (length + kMost - 1) / kMost;
  return (length + each - 1) / each;
}

void choose_weights(const AttendArguments& a, const Problem& problem, CapturePlan& plan) {
  if (a.weights.empty() || !a.weights_pool.empty()) return;
  WeightsRequest& request = plan.options.weights.emplace();
  if (!a.weights_rows.empty()) choose_rows(a.weights_rows, problem.q_len, plan, request);
  request.heads = plan.weights_heads;
}

// Requests the map for --weights-pool, or the one that a picture shows.
void choose_map(const AttendArguments& a, const Problem& problem, CapturePlan& plan) {
  const bool picture = !a.picture.targets.empty();
  const bool pooled_file = !a.weights.empty() && !a.weights_pool.empty();
  if (!picture && !pooled_file) return;
  const int64_t heads = element_count(problem.leading);
  if (picture) {
    if (heads < 1 || problem.q_len < 1 || problem.k_len < 1) {
      throw Failure(Exit::data, "--heatmap: this problem has no head, query or key to draw");
    }
    if (!a.head.empty()) {
      plan.picture_head = flat_head("--head", a.head, problem.leading);
    } else if (heads > 1) {
      narrate(fmt::format("drawing head {} of {}; --head chooses another",
                          head_text(0, problem.leading), heads));
    }
  }
  if (pooled_file) {
    plan.map_heads = plan.weights_heads;
    plan.asked_map_heads = plan.map_heads.empty() ? heads : std::ssize(plan.map_heads);
  }
  // With LSH attention the picture has maps of its own (attend_picture.h).
  const bool main_call_draws = picture && !draws_exact_weights(problem);
  if (main_call_draws) {
    const auto found = std::find(plan.map_heads.begin(), plan.map_heads.end(), plan.picture_head);
    const bool all = pooled_file && plan.map_heads.empty();
    plan.picture_position = all ? plan.picture_head : found - plan.map_heads.begin();
    if (!all && found == plan.map_heads.end()) plan.map_heads.push_back(plan.picture_head);
  }
  MapRequest& map = plan.picture_map;
  if (!a.weights_pool.empty()) {
    map = parse_pool(a.weights_pool, Pool::mean);
  } else {
    // The largest weight of a cell, so that a single large weight stays visible, and a cell of one
    // pair shows that pair.
    map = {cells_of_picture(problem.q_len), cells_of_picture(problem.k_len), Pool::max};
  }
  if (!pooled_file && !main_call_draws) return;
  plan.options.map.emplace(map).heads = plan.map_heads;
}

int64_t parse_top_k(const std::string& text) {
  const int64_t top_k = parse_integer("--top-k", text);
  if (top_k < 1) throw usage_error("--top-k: expected at least 1, got " + text);
  return top_k;
}

bool wants_all_heads(const AttendArguments& a) {
  const std::vector<std::string>& heads = a.weights_heads;
  const bool all = std::find(heads.begin(), heads.end(), "all") != heads.end();
  if (all && heads.size() > 1) throw usage_error("--weights-heads: 'all' stands alone");
  return all;
}

void choose_top_keys(const AttendArguments& a, const Problem& problem, CapturePlan& plan) {
  int64_t& top_k = plan.options.top_k;
  if (a.top_k.empty()) {
    const bool files = !a.top_keys.empty() || !a.top_weights.empty();
    if (files || !a.stats_file.empty()) {
      top_k = std::min(kDefaultTopKeys, problem.k_len);
      if (top_k == 0)
        throw Failure(Exit::data,
                      std::string(files ? "--top-keys" : "--stats") + ": this problem has no key");
    }
    return;
  }
  top_k = parse_top_k(a.top_k);
  if (top_k > problem.k_len) {
    throw Failure(Exit::data, fmt::format("--top-k {}: there are {} keys", a.top_k, problem.k_len));
  }
}

}  // namespace

bool draws_exact_weights(const Problem& problem) {
  return dynamic_cast<const Lsh*>(problem.options.method) != nullptr;
}

std::vector<int64_t> head_index(int64_t flat, const std::vector<int64_t>& leading) {
  std::vector<int64_t> index(leading.size());
  for (size_t d = leading.size(); d-- > 0;) {
    index[d] = flat % leading[d];
    flat /= leading[d];
  }
  return index;
}

std::string head_text(int64_t flat, const std::vector<int64_t>& leading) {
  std::string text;
  for (const int64_t i : head_index(flat, leading)) {
    text += (text.empty() ? "" : ",") + std::to_string(i);
  }
  return text;
}

void check_capture_options(const AttendArguments& a) {
  if (!a.weights_rows.empty()) parse_rows(kRows, a.weights_rows);
  if (!wants_all_heads(a))
    for (const std::string& head : a.weights_heads) parse_integers("--weights-heads", head);
  if (!a.head.empty()) parse_integers("--head", a.head);
  if (!a.weights_pool.empty()) parse_pool(a.weights_pool, Pool::mean);
  if (!a.top_k.empty()) parse_top_k(a.top_k);
}

void plan_captures(const AttendArguments& a, const Problem& problem, CapturePlan& plan) {
  plan.options = problem.options;
  const bool all = wants_all_heads(a);
  for (const std::string& head : a.weights_heads) {
    if (!all) plan.weights_heads.push_back(flat_head("--weights-heads", head, problem.leading));
  }
  choose_weights(a, problem, plan);
  choose_map(a, problem, plan);
  choose_top_keys(a, problem, plan);
  plan.options.entropy = a.stats || !a.entropy.empty();
  plan.options.received = a.stats || !a.received.empty();
}

TensorView asked_weights(const AttendArguments& a, const CapturePlan& plan,
                         const AttentionResult& result) {
  if (a.weights.empty()) return {};
  if (a.weights_pool.empty()) return result.weights.view();
  // The map may have one more head, for the picture.
  const TensorView map = result.map.view();
  return plan.map_heads.empty() ? map : map.slice(0, 0, plan.asked_map_heads);
}

}  // namespace rapt::cli
