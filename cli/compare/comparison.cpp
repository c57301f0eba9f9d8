#include "cli/compare/comparison.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/compare/cost_in_pairs.h"
#include "cli/compare/metrics/gradient_of_units.h"
#include "cli/mask/allowed_pairs.h"
#include "cli/output/progress.h"
#include "cli/process/interrupt.h"
#include "timing/sampling.h"

namespace rapt::cli {
namespace {

// Whether no query before `from` attends to a key from there on, in any head.
bool is_causal_at(const CompareProblem& problem, const ComparedCall& call, int64_t from) {
  if (problem.q_len() != problem.k_len() || from < 1) return false;
  const std::vector<int64_t>& shape = problem.output_shape();
  std::vector<int64_t> index(shape.size() - 2, 0);
  for (int64_t h = 0; h < problem.heads(); ++h) {
    int64_t rest = h;
    for (size_t d = index.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    const Head head{index.data(), static_cast<int>(index.size()), problem.q_len(), problem.k_len()};
    if (count_allowed(call.options.masks, {}, head, 2, 2)[1] > 0) return false;
  }
  return true;
}

class CallComparison {
 public:
  CallComparison(CompareProblem& problem, Contenders& contenders, const ComparisonSizes& sizes,
                 MemoryBudget& budget)
      : problem_(problem),
        contenders_(contenders),
        sizes_(sizes),
        budget_(budget),
        memory_(problem.output_shape(), problem.context()) {}

  double run() {
    look_at_pairs();
    find_leaks();
    measure_memory();
    take_memory();
    compute_references();
    time_and_compare();
    return time_.seconds();
  }

 private:
  void look_at_pairs();
  void find_leaks();
  void measure_memory();
  void take_memory();
  void compute_references();
  void time_and_compare();
  void time(Contender& contender);
  void compare(Contender& contender);
  Tensor output_of(const ComparedCall& call);

  CompareProblem& problem_;
  Contenders& contenders_;
  const ComparisonSizes& sizes_;
  MemoryBudget& budget_;
  CallMemory memory_;
  CallTime time_;
  std::map<Contender*, SeedSpread> spreads_;
  std::map<const Contender*, std::pair<int, int>> calls_;  // of a sample, forward and backward
};

void CallComparison::look_at_pairs() {
  PairsLookedAt pairs(problem_, sizes_.rows, time_);
  budget_.take(pairs.bytes(), "the weights of drawn queries");
  const auto measure = [&](Role role) {
    std::vector<Contender*> some;
    for (Contender& contender : contenders_.all())
      if (contender.role == role) some.push_back(&contender);
    for (const Reference& reference : contenders_.references())
      pairs.measure(reference, some, sizes_.seeds);
  };
  measure(Role::exact);
  measure(Role::alternative);
  const size_t count = contenders_.all().size();
  for (size_t i = 0; i < count; ++i) {
    Contender& contender = contenders_.all()[i];
    if (contender.role != Role::alternative || !contender.computed()) continue;
    const double all = contenders_.pairs_of(contender.exactly);
    contender.measured.pairs = cost_in_pairs(contender, problem_, all);
    contender.window = contenders_.window_of(contender.exactly, contender.measured.pairs);
  }
  measure(Role::window);
}

Tensor CallComparison::output_of(const ComparedCall& call) {
  stop_if_interrupted();
  Tensor output;
  time_.of([&] {
    output = scaled_dot_product_attention(call.query, call.key, call.value, call.options,
                                          problem_.context())
                 .output;
  });
  return output;
}

void CallComparison::find_leaks() {
  const int64_t from = problem_.q_len() / 2;
  int64_t taken = 0;  // calls follow one another, so the largest counts
  for (Contender& contender : contenders_.all()) {
    if (!contender.computed() || contender.role != Role::alternative) continue;
    if (!is_causal_at(problem_, contender.call, from)) continue;
    ComparedCall other = contender.call;
    const bool shared = other.query.data == other.key.data;
    const int64_t bytes = size_of(other.query.dtype) *
                          (other.query.count() + (shared ? 0 : other.key.count()) +
                           other.value.count() + 2 * element_count(problem_.output_shape()));
    if (bytes > taken) budget_.take(bytes - taken, "other inputs and results that show leaks");
    taken = std::max(taken, bytes);
    const uint64_t seed = problem_.seed();
    const Tensor query = with_other_rows(other.query, from, seed + 2);
    Tensor key;
    if (!shared) key = with_other_rows(other.key, from, seed + 3);
    const Tensor value = with_other_rows(other.value, from, seed + 4);
    other.query = query.view();
    other.key = shared ? other.query : key.view();
    other.value = value.view();
    if (contender.alternative) contender.alternative->move_seed(0);
    contender.measured.leak =
        leak_between(output_of(contender.call).view(), output_of(other).view(), from);
  }
}

void CallComparison::measure_memory() {
  for (Contender& contender : contenders_.all()) {
    if (!contender.computed()) continue;
    stop_if_interrupted();
    if (contender.alternative) contender.alternative->move_seed(0);
    const ComparedCall& call = contender.call;
    AttentionResult result;
    const auto forward = [&] {
      result = scaled_dot_product_attention(call.query, call.key, call.value, call.options,
                                            problem_.context());
    };
    time_.of([&] { contender.measured.forward_growth = growth_by(forward); });
    if (!call.d_output.defined()) continue;
    const auto backward = [&] {
      const BackwardInputs inputs{result.state(), call.d_output, {}, {}};
      scaled_dot_product_attention_backward(call.query, call.key, call.value, call.options, inputs,
                                            call.request, problem_.context());
    };
    time_.of([&] { contender.measured.backward_growth = growth_by(backward); });
  }
}

void CallComparison::take_memory() {
  std::vector<const ComparedCall*> calls;
  for (const Reference& reference : contenders_.references()) calls.push_back(&reference.call);
  for (const Contender& contender : contenders_.all())
    if (contender.computed()) calls.push_back(&contender.call);
  budget_.take(memory_.bytes_of(calls), "the results and the work of the calls");
  for (const Reference& reference : contenders_.references()) {
    const ComparedCall& call = reference.call;
    int64_t elements = element_count(problem_.output_shape());
    if (call.d_output.defined())
      elements += call.query.count() + call.key.count() + call.value.count();
    budget_.take(elements * size_of(call.query.dtype), "the exact results");
  }
  for (const Contender& contender : contenders_.all())
    if (contender.computed() && contender.random())
      budget_.take(SeedSpread::bytes_of(problem_.output_shape()), "sums over seeds");
  for (const ComparedCall* call : calls) memory_.prepare(*call);
}

void CallComparison::compute_references() {
  for (Reference& reference : contenders_.references()) {
    const ComparedCall& call = reference.call;
    time_.of([&] { memory_.forward(call); });
    CallResults& results = memory_.results(call);
    reference.output = Tensor::copy_of(results.output.view());
    if (!call.d_output.defined()) continue;
    time_.of([&] { memory_.backward(call); });
    reference.d_query = Tensor::copy_of(results.d_query.view());
    if (call.request.key) reference.d_key = Tensor::copy_of(results.d_key.view());
    reference.d_value = Tensor::copy_of(results.d_value.view());
  }
}

void CallComparison::time(Contender& contender) {
  const ComparedCall& call = contender.call;
  const auto sample = [&](int& calls, const auto& work) {
    double seconds = 0;
    time_.of([&] {
      if (calls == 0) calls = timing::calls_per_sample(work);
      seconds = timing::seconds_per_call(calls, work);
    });
    return seconds;
  };
  auto& [forward, backward] = calls_[&contender];
  contender.measured.forward.push_back(sample(forward, [&] { memory_.forward(call); }));
  if (!call.d_output.defined()) return;
  contender.measured.backward.push_back(sample(backward, [&] { memory_.backward(call); }));
}

void CallComparison::compare(Contender& contender) {
  const Reference& reference = contenders_.reference_of(contender);
  CallResults& results = memory_.results(contender.call);
  Measured& measured = contender.measured;
  measured.output.push_back(result_error(results.output.view(), reference.output.view()));
  if (contender.random()) spreads_[&contender].add(results.output.view(), reference.output.view());
  if (!contender.call.d_output.defined() || !reference.d_query.defined()) return;
  if (contender.role == Role::window && contender.exactly == Exactly::shared_keys)
    add_gradient_of_units(contender.call.query, std::as_const(results.d_key).view(),
                          results.d_query);
  const auto error = [](const Tensor& result, const Tensor& exact) {
    return result_error(std::as_const(result).view(), exact.view()).relative;
  };
  measured.d_query.push_back(error(results.d_query, reference.d_query));
  if (reference.d_key.defined()) measured.d_key.push_back(error(results.d_key, reference.d_key));
  measured.d_value.push_back(error(results.d_value, reference.d_value));
}

void CallComparison::time_and_compare() {
  ProgressLine progress(-1);
  const auto steps =
      static_cast<double>(sizes_.seeds) * static_cast<double>(contenders_.all().size());
  double done = 0;
  for (int round = 0; round < sizes_.seeds; ++round)
    for (Contender& contender : contenders_.all()) {
      stop_if_interrupted();
      progress.report(done++ / steps);
      if (!contender.computed()) continue;
      if (contender.alternative) contender.alternative->move_seed(round);
      time(contender);
      if (round == 0 || contender.random()) compare(contender);
    }
  for (auto& [contender, spread] : spreads_) {
    Measured& measured = contender->measured;
    measured.bias = spread.bias();
    measured.spread = spread.spread();
  }
}

}  // namespace

double compare_calls(CompareProblem& problem, Contenders& contenders, const ComparisonSizes& sizes,
                     MemoryBudget& budget) {
  return CallComparison(problem, contenders, sizes, budget).run();
}

}  // namespace rapt::cli
