// Rows and heads: what is asked for, and where it lies in what is computed.
#include "attend_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "arguments.h"
#include "failure.h"
#include "narrate.h"

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

}  // namespace

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

WeightsPlan plan_weights(const AttendArguments& a, const std::vector<int64_t>& leading,
                         int64_t q_len) {
  WeightsPlan plan;
  plan.row_end = q_len;
  const int64_t heads =
      std::accumulate(leading.begin(), leading.end(), int64_t{1}, std::multiplies<>());
  const bool picture = !a.picture.targets.empty();
  if (!a.weights_rows.empty()) {
    const auto [begin, end] = parse_range("--weights-rows", a.weights_rows);
    if (end > q_len) {
      throw Failure(Exit::data,
                    fmt::format("--weights-rows {}: there are {} rows", a.weights_rows, q_len));
    }
    if (!picture) {  // a picture needs them all
      plan.row_begin = begin;
      plan.row_end = end;
    }
  }
  const bool all =
      std::find(a.weights_heads.begin(), a.weights_heads.end(), "all") != a.weights_heads.end();
  if (all && a.weights_heads.size() > 1) throw usage_error("--weights-heads: 'all' stands alone");
  for (const std::string& head : a.weights_heads) {
    if (!all) plan.heads.push_back(flat_head("--weights-heads", head, leading));
  }
  if (!picture) return plan;
  if (heads < 1) throw Failure(Exit::data, "--heatmap: this problem has no head to draw");
  if (!a.head.empty()) {
    plan.picture_head = flat_head("--head", a.head, leading);
  } else if (heads > 1) {
    narrate(
        fmt::format("drawing head {} of {}; --head chooses another", head_text(0, leading), heads));
  }
  if (!a.weights.empty() && plan.heads.empty()) {
    plan.picture_position = plan.picture_head;  // all heads are computed
    return plan;
  }
  const auto found = std::find(plan.heads.begin(), plan.heads.end(), plan.picture_head);
  plan.picture_position = found - plan.heads.begin();
  if (found == plan.heads.end()) plan.heads.push_back(plan.picture_head);
  return plan;
}

TensorView asked_weights(const AttendArguments& a, const Tensor& weights) {
  TensorView view = weights.view();
  if (!a.weights_rows.empty() && !a.picture.targets.empty()) {
    const auto [begin, end] = parse_range("--weights-rows", a.weights_rows);
    view = view.slice(view.rank - 2, begin, end);
  }
  if (!a.weights_heads.empty() && a.weights_heads.front() != "all") {
    view = view.slice(0, 0, static_cast<int64_t>(a.weights_heads.size()));
  }
  return view;
}

}  // namespace rapt::cli
