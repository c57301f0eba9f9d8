#include "check/compare/comparison.h"

#include <algorithm>
#include <cmath>

namespace check {
namespace {

// Draws `count` different numbers below `below`, in ascending order.
std::vector<int64_t> drawn(Random& random, int64_t count, int64_t below) {
  std::vector<int64_t> values;
  while (static_cast<int64_t>(values.size()) < count) {
    // Draws one from each of `count` equal parts, so that the numbers are spread out and distinct.
    const auto part = static_cast<int64_t>(values.size());
    values.push_back(random.between(part * below / count, (part + 1) * below / count - 1));
  }
  return values;
}

int64_t bounded(double wanted, int64_t most) {
  return wanted >= static_cast<double>(most) ? most
                                             : std::max<int64_t>(1, static_cast<int64_t>(wanted));
}

class Comparer {
 public:
  Comparer(const Case& c, const Sample& sample)
      : c_(c), d_(c.descriptor), expected_(expectations(c.for_reference(), d_.captures, sample)) {
    statistic_ = d_.dtype == DType::f64 ? DType::f64 : DType::f32;
  }

  Comparison compare(const rapt::AttentionResult& got) {
    const Captures& wanted = d_.captures;
    const DType output = d_.output_dtype.value_or(d_.dtype);
    tensor("output", got.output, true, output, dims({d_.q_len, d_.value_dim}), expected_.output);
    tensor("lse", got.statistic, true, statistic_, dims({d_.q_len}), expected_.lse);
    tensor("weights", got.weights, wanted.weights.has_value(), statistic_, weights_dims(),
           expected_.weights);
    tensor("map", got.map, wanted.map.has_value(), statistic_, map_dims(), expected_.map);
    tensor("entropy", got.entropy, wanted.entropy, statistic_, dims({d_.q_len}), expected_.entropy);
    tensor("received", got.received, wanted.received, statistic_, dims({d_.k_len}),
           expected_.received);
    top_k(got);
    return std::move(comparison_);
  }

 private:
  Dims dims(const Dims& behind) const {
    Dims all = d_.leading;
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  }
  static Dims of_heads(const Dims& heads, const Dims& behind) {
    Dims all = {static_cast<int64_t>(heads.size())};
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  }
  Dims weights_dims() const {
    if (!d_.captures.weights) return {};
    const WeightsWanted& w = *d_.captures.weights;
    const int64_t rows = !w.rows.empty() ? static_cast<int64_t>(w.rows.size())
                                         : (w.end < 0 ? d_.q_len : w.end) - w.begin;
    return w.heads.empty() ? dims({rows, d_.k_len}) : of_heads(w.heads, {rows, d_.k_len});
  }
  Dims map_dims() const {
    if (!d_.captures.map) return {};
    const MapWanted& m = *d_.captures.map;
    return m.heads.empty() ? dims({m.rows, m.columns}) : of_heads(m.heads, {m.rows, m.columns});
  }

  // Checks that the tensor exists exactly if it is wanted, with this dtype and shape.
  bool as_declared(const char* name, const Tensor& got, bool wanted, DType dtype,
                   const Dims& shape) {
    const std::string wrong = misdeclared(got, wanted, dtype, shape);
    if (wrong.empty()) return wanted;
    comparison_.tensors.push_back({name, {false, name + wrong, {}, {}}});
    return false;
  }

  void tensor(const char* name, const Tensor& got, bool wanted, DType dtype, const Dims& shape,
              const Expectation& expected) {
    if (as_declared(name, got, wanted, dtype, shape))
      comparison_.tensors.push_back({name, expected.verdict(values_of(got), name)});
  }

  void top_k(const rapt::AttentionResult& got) {
    const int64_t k = d_.captures.top_k;
    const Dims shape = dims({d_.q_len, k});
    const bool keys = as_declared("top_keys", got.top_keys, k > 0, DType::i64, shape);
    const bool weights = as_declared("top_weights", got.top_weights, k > 0, statistic_, shape);
    if (!keys || !weights) return;
    std::vector<double> found = values_of(got.top_keys);
    for (size_t i = 0; i < found.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / k;
      if (found[i] >= 0) found[i] += static_cast<double>(c_.first_key(row % d_.q_len));
    }
    comparison_.tensors.push_back(
        {"top_k", verdict_of_top_k(expected_, found, values_of(got.top_weights), k)});
  }

  const Case& c_;
  const Descriptor& d_;
  const Expectations expected_;
  DType statistic_;
  Comparison comparison_;
};

}  // namespace

Sample sample_of(const Descriptor& d, double most) {
  Sample sample;
  const Captures& captures = d.captures;
  // A kept weight needs the memory of three numbers, and all of them must fit into memory.
  const double per_row = d.keys_of_head() * (static_cast<double>(d.head_dim + d.value_dim + 8) +
                                             (captures.weights || captures.top_k > 0 ? 400 : 0));
  const auto heads = static_cast<double>(d.heads()), rows = static_cast<double>(d.q_len);
  if (per_row * heads * rows <= most) return sample;
  Random random(d.seed + 1);
  const double rows_to_take = most / per_row;
  if (captures.map || captures.received) {
    sample.heads = drawn(random, bounded(rows_to_take / rows, d.heads()), d.heads());
  } else {
    // The keys and values of a head are read once, however many of its rows are compared.
    constexpr int64_t kMostHeads = 64;
    const int64_t chosen = std::min(d.heads(), kMostHeads);
    if (chosen < d.heads()) sample.heads = drawn(random, chosen, d.heads());
    sample.rows =
        drawn(random, bounded(rows_to_take / static_cast<double>(chosen), d.q_len), d.q_len);
  }
  return sample;
}

std::string text_of(const Sample& sample, const Descriptor& descriptor) {
  const auto listed = [](const std::optional<std::vector<int64_t>>& chosen, int64_t all,
                         const std::string& what) {
    if (!chosen) return "all " + std::to_string(all) + " " + what;
    constexpr size_t kMostNamed = 4;
    std::string text = std::to_string(chosen->size()) + " of " + std::to_string(all) + " " + what;
    for (size_t i = 0; i < std::min(chosen->size(), kMostNamed); ++i)
      text += (i == 0 ? " (" : ", ") + std::to_string((*chosen)[i]);
    return text + (chosen->size() > kMostNamed ? ", ...)" : ")");
  };
  return listed(sample.rows, descriptor.q_len, "rows") + " of " +
         listed(sample.heads, descriptor.heads(), "heads");
}

std::string misdeclared(const Tensor& got, bool wanted, DType dtype, rapt::Shape shape) {
  if (got.defined() != wanted)
    return wanted ? " is missing" : " was returned without being asked for";
  if (!wanted || (got.dtype() == dtype && std::ranges::equal(got.dims(), shape))) return "";
  return std::string(" is ") + rapt::name_of(got.dtype()) + " " + rapt::to_string(got.dims()) +
         " instead of " + rapt::name_of(dtype) + " " + rapt::to_string(shape);
}

bool Comparison::ok() const {
  return std::ranges::all_of(tensors, [](const Compared& t) { return t.verdict.ok; });
}

std::string Comparison::failures() const {
  std::string text;
  for (const Compared& t : tensors)
    if (!t.verdict.ok) text += (text.empty() ? "" : "\n") + t.verdict.message;
  return text;
}

rapt::AttentionResult run(const Case& c, const rapt::Context& context) {
  const Case::Inputs in = c.laid_out();
  return rapt::scaled_dot_product_attention(in.query, in.key, in.value, c.wanted_options(),
                                            context);
}

Comparison compare(const Case& c, const rapt::AttentionResult& got, const Sample& sample) {
  return Comparer(c, sample).compare(got);
}

}  // namespace check
