#include "cli/model/attention_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/process/failure.h"
#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

// The given numbers, or all below `count`.
std::vector<int64_t> chosen_of(const char* option, const std::vector<int64_t>& given,
                               int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  for (const int64_t one : given)
    if (one < 0 || one >= count)
      throw usage_error(fmt::format("{}: the model has 0 to {}, got {}", option, count - 1, one));
  // A mean would count it twice.
  std::vector<int64_t> sorted = given;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw usage_error(fmt::format("{}: {} is given twice", option, *twice));
  return given.empty() ? all : given;
}

}  // namespace

AttentionSummary::AttentionSummary(const AttendedSizes& sizes, const ModelSettings& settings,
                                   std::vector<int64_t> shown, std::vector<int64_t> rows,
                                   int64_t tokens, FoundPair pair, SummaryParts parts)
    : layers_(chosen_of("--layers", settings.layers, sizes.layers)),
      heads_(chosen_of("--heads", settings.heads, sizes.heads)),
      shown_(std::move(shown)),
      rows_(std::move(rows)),
      map_(settings.map),
      top_k_(std::min(settings.top_k, tokens)),
      tokens_(tokens),
      pair_(pair),
      parts_(parts) {
  if (map_ && (map_->rows > tokens || map_->columns > tokens))
    throw usage_error(
        fmt::format("--map: the text has {} tokens; expected at most so many rows "
                    "and columns",
                    tokens));
  const auto count = rows_.empty() ? static_cast<size_t>(tokens) : rows_.size();
  for (size_t i = 0; i < count; ++i) {
    const int64_t token = rows_.empty() ? static_cast<int64_t>(i) : rows_[i];
    const auto at = std::ranges::find(shown_, token);
    if (at == shown_.end()) continue;
    mean_rows_.push_back(static_cast<size_t>(at - shown_.begin()));
    weight_rows_.push_back(i);
  }
  if (mean_rows_.empty() && rows_.empty())
    throw Failure(Exit::data, "--hide-special hides all tokens of the text");
  if (mean_rows_.empty()) throw usage_error("--rows: --hide-special hides all of them");
  if (parts_.weights == WholeWeights::all) sum_.resize(mean_rows_.size() * shown_.size());
  if (parts_.weights == WholeWeights::found_row) rows_ = {pair_.from};
}

model::EncoderCaptures AttentionSummary::captures() {
  model::EncoderCaptures captures;
  captures.layers = layers_;
  if (parts_.weights != WholeWeights::none) captures.weights = WeightsRequest{.heads = heads_};
  if (captures.weights) captures.weights->rows = rows_;
  if (parts_.kept) {
    captures.map = map_;
    captures.top_k = top_k_;
    captures.entropy = true;
    captures.received = true;
  }
  captures.on_layer = [this](int64_t layer, AttentionResult& result) {
    stop_if_interrupted();
    add(layer, result);
  };
  return captures;
}

void AttentionSummary::add(int64_t layer, const AttentionResult& result) {
  const bool all = parts_.weights == WholeWeights::all;
  for (size_t h = 0; h < heads_.size() && parts_.weights != WholeWeights::none; ++h) {
    const auto n = static_cast<size_t>(tokens_), rows = rows_.empty() ? n : rows_.size();
    const float* const weights = result.weights.values<float>().data() + h * rows * n;
    if (all) add_rows(weights);
    if (pair_.from >= 0)
      add_found({layer, heads_[h], 0}, all ? weights + pair_.from * tokens_ : weights);
  }
  if (!parts_.kept) return;
  const auto at = static_cast<size_t>(std::ranges::find(layers_, layer) - layers_.begin());
  if (map_)
    keep("map", result.map, at);
  else
    keep("weights", result.weights, at, true);
  if (top_k_ > 0) {
    keep("top_keys", result.top_keys, at);
    keep("top_weights", result.top_weights, at);
  }
  keep("entropy", result.entropy, at);
  keep("received", result.received, at);
}

double AttentionSummary::scale_of(const float* row) const {
  if (std::ssize(shown_) == tokens_) return 1;
  double total = 0;
  for (const int64_t j : shown_) total += row[j];
  return total <= 0 ? 1 : 1 / total;
}

void AttentionSummary::add_rows(const float* weights) {
  for (size_t i = 0; i < weight_rows_.size(); ++i) {
    const float* const row = weights + static_cast<int64_t>(weight_rows_[i]) * tokens_;
    const double scale = scale_of(row);
    for (size_t j = 0; j < shown_.size(); ++j)
      sum_[i * shown_.size() + j] += row[shown_[j]] * scale;
  }
}

void AttentionSummary::add_found(HeadWeight head, const float* row) {
  const auto greatest =
      std::ranges::max_element(shown_, {}, [&](int64_t token) { return row[token]; });
  if (*greatest != pair_.to) return;
  head.weight = row[pair_.to] * scale_of(row);
  found_.push_back(head);
}

void AttentionSummary::keep(const char* name, const Tensor& result, size_t layer_at,
                            bool chosen_alone) {
  auto kept = std::ranges::find(kept_, std::string_view(name), &Kept::name);
  if (kept == kept_.end()) {
    kept_.push_back({name, {}, {}, {result.dims().begin() + 1, result.dims().end()}});
    kept = std::prev(kept_.end());
  }
  const int64_t size = result.count() / result.dim(0);
  const auto copy = [&](const auto& from, auto& to) {
    const size_t layer_size = heads_.size() * static_cast<size_t>(size);
    to.resize(layers_.size() * layer_size);
    auto* at = to.data() + layer_at * layer_size;
    for (size_t h = 0; h < heads_.size(); ++h)
      at = std::copy_n(from.data() + (chosen_alone ? static_cast<int64_t>(h) : heads_[h]) * size,
                       size, at);
  };
  if (result.dtype() == DType::i64)
    copy(result.values<int64_t>(), kept->integers);
  else
    copy(result.values<float>(), kept->values);
}

std::vector<float> AttentionSummary::mean() const {
  const auto heads = static_cast<double>(head_count());
  std::vector<float> mean;
  for (const double sum : sum_) mean.push_back(static_cast<float>(sum / heads));
  return mean;
}

std::vector<HeadWeight> AttentionSummary::found() const {
  std::vector<HeadWeight> sorted = found_;
  std::ranges::stable_sort(sorted, std::ranges::greater(), &HeadWeight::weight);
  return sorted;
}

std::vector<std::pair<std::string, Tensor>> AttentionSummary::tensors() const {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Kept& kept : kept_) {
    std::vector<int64_t> shape = {std::ssize(layers_), std::ssize(heads_)};
    shape.insert(shape.end(), kept.shape.begin(), kept.shape.end());
    const Shape dims(shape.data(), shape.size());
    const bool integers = !kept.integers.empty();
    Tensor tensor(integers ? DType::i64 : DType::f32, dims);
    if (integers)
      std::ranges::copy(kept.integers, tensor.values<int64_t>().begin());
    else
      std::ranges::copy(kept.values, tensor.values<float>().begin());
    tensors.emplace_back(kept.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace rapt::cli
