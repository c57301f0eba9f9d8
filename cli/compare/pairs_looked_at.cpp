#include "cli/compare/pairs_looked_at.h"

#include <algorithm>

#include "check/tensors/random.h"
#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

// Bytes of one of the three tensors that are compared, in f32. Each batch of rows computes the
// calls as a whole, so long inputs, which take more memory anyway, have larger batches: later parts
// of a comparison hold about 20 numbers for each element of the output.
int64_t bytes_at_once(const CompareProblem& problem) {
  constexpr int64_t kLeast = int64_t{8} << 20, kMost = int64_t{24} << 20;
  const int64_t later = 20 * element_count(problem.output_shape()) * size_of(DType::f32);
  return std::min(kLeast + later / 3, kMost);
}

// How a contender looks at pairs.
enum class Looks : uint8_t { at_all, at_some, at_none };

Looks how_it_looks(const Contender& contender) {
  if (contender.role == Role::mean) return Looks::at_none;
  if (contender.role == Role::exact) return Looks::at_all;
  if (contender.role == Role::window) return Looks::at_some;
  const Alternative& alternative = *contender.alternative;
  if (alternative.spec().changed == Changed::mask) return Looks::at_some;
  if (alternative.method() == nullptr) return Looks::at_all;
  return alternative.method()->scope().weights ? Looks::at_some : Looks::at_none;
}

}  // namespace

PairsLookedAt::PairsLookedAt(const CompareProblem& problem, int64_t rows, CallTime& time)
    : problem_(problem), time_(time) {
  rows_ = check::Random(problem.seed() + 1).permutation(problem.q_len());
  if (rows < std::ssize(rows_)) rows_.resize(static_cast<size_t>(rows));
  std::sort(rows_.begin(), rows_.end());
  const int64_t bytes_of_row = problem.heads() * problem.k_len() * size_of(DType::f32);
  rows_at_once_ = static_cast<size_t>(
      std::clamp<int64_t>(bytes_at_once(problem) / bytes_of_row, 1, std::ssize(rows_)));
}

int64_t PairsLookedAt::bytes() const {
  return 3 * static_cast<int64_t>(rows_at_once_) * problem_.heads() * problem_.k_len() *
         size_of(DType::f64);
}

Tensor PairsLookedAt::weights(const ComparedCall& call, std::span<const int64_t> rows,
                              bool of_pairs) {
  stop_if_interrupted();
  AttentionOptions options = call.options;
  options.weights.emplace().rows = rows;
  if (of_pairs) options.scale = 0;
  // Weights need no values, so one column of them will do.
  const TensorView value = call.value.slice(-1, 0, 1);
  Tensor weights;
  time_.of([&] {
    weights = scaled_dot_product_attention(call.query, call.key, value, options, problem_.context())
                  .weights;
  });
  return weights;
}

void PairsLookedAt::measure(const Reference& reference, std::span<Contender* const> contenders,
                            int seeds) {
  std::vector<Contender*> some;
  for (Contender* contender : contenders) {
    if (!contender->computed() || contender->exactly != reference.exactly) continue;
    const Looks looks = how_it_looks(*contender);
    if (looks == Looks::at_all) contender->measured.weights = {{1, {1, 1, 1}, 1}};
    if (looks == Looks::at_some) some.push_back(contender);
  }
  if (some.empty()) return;
  std::vector<std::vector<TrueWeightsSum>> sums;
  for (const Contender* contender : some)
    sums.emplace_back(contender->random() ? static_cast<size_t>(seeds) : 1);
  for (size_t begin = 0; begin < rows_.size(); begin += rows_at_once_) {
    const std::span<const int64_t> rows =
        std::span(rows_).subspan(begin, std::min(rows_at_once_, rows_.size() - begin));
    const Tensor exact = weights(reference.call, rows, false);
    const Tensor exact_pairs = weights(reference.call, rows, true);
    for (size_t c = 0; c < some.size(); ++c)
      for (size_t s = 0; s < sums[c].size(); ++s) {
        if (some[c]->alternative) some[c]->alternative->move_seed(static_cast<int64_t>(s));
        sums[c][s].add(exact.view(), exact_pairs.view(), weights(some[c]->call, rows, true).view());
      }
  }
  for (size_t c = 0; c < some.size(); ++c)
    for (const TrueWeightsSum& sum : sums[c]) some[c]->measured.weights.push_back(sum.mean());
}

}  // namespace rapt::cli
