#include "cli/compare/contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/compare/metrics/tensor_rows.h"
#include "cli/files/conversion.h"
#include "cli/process/failure.h"
#include "rapt/catalogue.h"
#include "rapt/mask/causal.h"
#include "rapt/method/mean.h"

namespace rapt::cli {
namespace {

// Whether the keys of a call are the vectors of its queries.
bool shares_keys(const Method* method) {
  const auto* const lsh = dynamic_cast<const Lsh*>(method);
  return lsh != nullptr && lsh->keys == LshKeys::shared;
}

// Finds out whether the call is rejected, and whether its gradients are.
void ask(Contender& contender, const Context& context) {
  const ComparedCall& call = contender.call;
  try {
    static_cast<void>(workspace_bytes(call.query, call.key, call.value, call.options, context));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled) throw;
    contender.refused = error.what();
    return;
  }
  if (!call.d_output.defined()) return;
  try {
    static_cast<void>(backward_workspace_bytes(call.query, call.key, call.value, call.options,
                                               call.request, context));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled) throw;
    contender.no_gradients = error.what();
    contender.call.d_output = {};
  }
}

// One chunk of all rows: exact attention with shared keys.
std::unique_ptr<Lsh> exact_with_shared_keys(int64_t k_len) {
  auto lsh = std::make_unique<Lsh>(1);
  lsh->chunk = std::max<int64_t>(k_len, 1);
  return lsh;
}

bool has_causal(const AttentionOptions& options) {
  return std::any_of(options.masks.begin(), options.masks.end(),
                     [](const Mask* mask) { return dynamic_cast<const Causal*>(mask) != nullptr; });
}

}  // namespace

Contenders::Contenders(CompareProblem& problem, const std::vector<AlternativeSpec>& specs,
                       TensorInput& files, bool reference_in_doubles)
    : problem_(problem), budget_(files.budget()) {
  for (const AlternativeSpec& spec : specs) add_alternative(spec, files);
  std::deque<Contender> alternatives;
  alternatives.swap(all_);
  for (const Exactly exactly : {Exactly::plain, Exactly::shared_keys}) {
    const bool used =
        std::any_of(alternatives.begin(), alternatives.end(),
                    [&](const Contender& a) { return a.computed() && a.exactly == exactly; });
    if (!used) continue;
    add_reference(exactly, reference_in_doubles);
    add_exact(exactly);
    add_mean(exactly);
  }
  for (Contender& alternative : alternatives) all_.push_back(std::move(alternative));
}

Reference& Contenders::reference_of(const Contender& contender) {
  return *std::find_if(references_.begin(), references_.end(), [&](const Reference& reference) {
    return reference.exactly == contender.exactly;
  });
}

void Contenders::add_reference(Exactly exactly, bool in_doubles) {
  Reference& reference = references_.emplace_back();
  reference.exactly = exactly;
  reference.call = problem_.exact_call(in_doubles ? DType::f64 : problem_.dtype());
  if (exactly == Exactly::plain) return;
  reference.method = exact_with_shared_keys(problem_.k_len());
  reference.call.options.method = reference.method.get();
  reference.call.request.key = false;
}

void Contenders::add_alternative(const AlternativeSpec& spec, TensorInput& files) {
  Contender& contender = all_.emplace_back();
  contender.role = Role::alternative;
  contender.name = spec.text;
  contender.alternative = std::make_unique<Alternative>(spec, &files);
  const Alternative& alternative = *contender.alternative;
  contender.call = problem_.exact_call(alternative.dtype().value_or(problem_.dtype()));
  try {
    alternative.apply(contender.call.options);
  } catch (const Error& error) {  // too many masks
    throw usage_error("--method " + spec.text + ": " + error.what());
  }
  if (shares_keys(alternative.method())) {
    contender.exactly = Exactly::shared_keys;
    contender.call.request.key = false;
  }
  ask(contender, problem_.context());
}

void Contenders::add_exact(Exactly exactly) {
  Contender& contender = all_.emplace_back();
  contender.role = Role::exact;
  contender.exactly = exactly;
  contender.name = exactly == Exactly::plain ? "exact" : "exact, shared keys";
  contender.call = problem_.exact_call();
  if (exactly == Exactly::shared_keys) {
    contender.method = exact_with_shared_keys(problem_.k_len());
    contender.call.options.method = contender.method.get();
    contender.call.request.key = false;
  }
  ask(contender, problem_.context());
}

void Contenders::add_mean(Exactly exactly) {
  Contender& contender = all_.emplace_back();
  contender.role = Role::mean;
  contender.exactly = exactly;
  contender.name = "mean";
  contender.call = problem_.exact_call();
  contender.call.request.key = exactly == Exactly::plain;
  contender.method = std::make_unique<Mean>();
  contender.call.options.method = contender.method.get();
  ask(contender, problem_.context());
  if (contender.computed()) return;
  // Other masks than the method accepts: equal scores have the same result.
  contender.refused.clear();
  contender.call.options.method = nullptr;
  contender.call.options.scale = 0;
  ask(contender, problem_.context());
}

double Contenders::pairs_of(Exactly exactly) const {
  CompareProblem& problem = problem_;
  const ComparedCall call = problem.exact_call();
  const Plan plan = rapt::plan(call.query, call.key, call.value, call.options, problem.context());
  const auto pairs = static_cast<double>(plan.allowed_scores);
  // No token attends to itself.
  const auto own = static_cast<double>(problem.q_len() * problem.heads());
  return exactly == Exactly::plain ? pairs : std::max(0.0, pairs - own);
}

TensorView Contenders::unit_keys() {
  if (!unit_keys_.defined()) {
    const TensorView query = problem_.exact_call().query;
    budget_.take(query.count() * size_of(query.dtype), "the keys of windows");
    Tensor units(DType::f64, query.dims());
    const Tensor dense = Tensor::copy_of(query);
    TensorRows rows(dense.view());
    for (int64_t i = 0; i < rows.rows(); ++i) {
      const double* const row = rows.row(i);
      double square = 0;
      for (int64_t d = 0; d < rows.columns(); ++d) square += row[d] * row[d];
      double* const unit = static_cast<double*>(units.data()) + i * rows.columns();
      for (int64_t d = 0; d < rows.columns(); ++d)
        unit[d] = square > 0 ? row[d] / std::sqrt(square) : 0;
    }
    unit_keys_ = converted(units.view(), query.dtype);
  }
  return std::as_const(unit_keys_).view();
}

Contender Contenders::windowed(Exactly exactly, int64_t width) {
  Contender contender;
  contender.role = Role::window;
  contender.exactly = exactly;
  contender.name = fmt::format("window({0},{0})", width);
  contender.call = problem_.exact_call();
  AttentionOptions& options = contender.call.options;
  const bool causal = has_causal(options);
  if (causal) contender.name = fmt::format("window({},0)", width);
  std::string mask = contender.name;
  if (exactly == Exactly::shared_keys) {
    contender.call.key = unit_keys();
    // No token attends to itself, but the first one, which has no other key under a causal mask.
    mask += " & !window(0,0)";
    if (causal) mask += " | window(0,0) & prefix(1)";
  }
  contender.mask = make_mask(mask);
  std::vector<const Mask*> masks(options.masks.begin(), options.masks.end());
  masks.push_back(contender.mask.get());
  options.masks = masks;
  return contender;
}

std::optional<size_t> Contenders::window_of(Exactly exactly, double pairs) {
  const auto pairs_in = [&](int64_t width) {
    const Contender window = windowed(exactly, width);
    const ComparedCall& call = window.call;
    return static_cast<double>(
        rapt::plan(call.query, call.key, call.value, call.options, problem_.context())
            .allowed_scores);
  };
  if (!(pairs < pairs_of(exactly))) return std::nullopt;
  // The window would be a mask too many.
  if (problem_.exact_call().options.masks.size() >= MaskList::kMost) return std::nullopt;
  // The least width with as many pairs, or the one before it if that is nearer.
  int64_t low = 0, high = std::max(problem_.q_len(), problem_.k_len());
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (pairs_in(middle) < pairs)
      low = middle + 1;
    else
      high = middle;
  }
  if (low > 0 && pairs - pairs_in(low - 1) < pairs_in(low) - pairs) --low;
  Contender window = windowed(exactly, low);
  for (size_t i = 0; i < all_.size(); ++i)
    if (all_[i].role == Role::window && all_[i].exactly == exactly && all_[i].name == window.name)
      return i;
  ask(window, problem_.context());
  all_.push_back(std::move(window));
  return all_.size() - 1;
}

}  // namespace rapt::cli
