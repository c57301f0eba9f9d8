// Checks a call against the scope of its method; reads its masks.
#include "method/method_call.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "attention/call/learned_parameters.h"
#include "base/call_memory.h"
#include "base/check_argument.h"
#include "base/scratch_planner.h"
#include "mask/per_batch.h"
#include "rapt/mask/and.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"

namespace rapt {
namespace {

using Names = std::span<const char* const>;

bool contains(Names names, std::string_view name) {
  return std::ranges::find(names, name, [](const char* n) { return std::string_view(n); }) !=
         names.end();
}

std::string list_of(Names names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "none" : text;
}

[[noreturn]] void reject(const Method& method, const char* argument, const std::string& what) {
  fail(ErrorCode::unsupported, argument,
       std::string("method ") + method.declaration().name + ": " + what);
}

// Calls visit(mask) for the masks that a call combines by "and", the parts of And among them.
template <class Visit>
void for_each_combined(std::span<const Mask* const> masks, const Visit& visit) {
  for (const Mask* mask : masks) {
    if (dynamic_cast<const And*>(mask))
      for_each_combined(mask->parts(), visit);
    else
      visit(*mask);
  }
}

// The offset that a causal mask has for the head at `index`.
int64_t offset_of_causal(const Causal& causal, const Problem& p, const int64_t* index) {
  if (causal.anchor == Anchor::top_left) return causal.offset;
  const Head head{index, p.leading_rank, p.q_len, p.k_len};
  const int64_t length =
      causal.lengths.defined()
          ? static_cast<const int64_t*>(causal.lengths.data)[offset_of(causal.lengths, head)]
          : p.k_len;
  return causal.offset + length - p.q_len;
}

bool is_shifted(const Causal& causal, const Problem& p) {
  return causal.offset != 0 || causal.lengths.defined() ||
         (causal.anchor == Anchor::bottom_right && p.q_len != p.k_len);
}

// Returns whether the masks are causal.
bool check_masks(const Method& method, const CheckedCall& call) {
  const MethodScope& scope = method.scope();
  const Problem& p = call.problem;
  bool any_causal = false;
  for_each_combined(call.options.masks, [&](const Mask& mask) {
    const char* const name = mask.declaration().name;
    const auto* const causal = dynamic_cast<const Causal*>(&mask);
    if (!contains(scope.masks, name) || (!causal && !dynamic_cast<const Lengths*>(&mask)))
      reject(method, "masks",
             std::string("mask ") + name + "; accepted are: " + list_of(scope.masks));
    if (!causal) return;
    any_causal = true;
    if (!scope.shifted_causal && is_shifted(*causal, p))
      reject(method, "masks",
             "a causal mask with an offset; expected query i to attend to keys up to i");
    if (!scope.causal_lengths_differ && p.q_len != p.k_len)
      reject(method, "masks",
             "a causal mask with " + std::to_string(p.q_len) + " queries and " +
                 std::to_string(p.k_len) + " keys; expected as many queries as keys");
  });
  return any_causal;
}

void check_variants(const Method& method, const CheckedCall& call) {
  const MethodScope& scope = method.scope();
  for (const ScoreRef& score : call.options.scores)
    if (score.index < 0 || !contains(scope.scores, score.declaration->name))
      reject(method, "scores",
             std::string("score ") + score.declaration->name +
                 "; accepted are: " + list_of(scope.scores));
  const NormalizerRef& normalizer = call.options.normalizer;
  if (normalizer.index < 0 || !contains(scope.normalizers, normalizer.declaration->name))
    reject(method, "normalizer",
           std::string("normalizer ") + normalizer.declaration->name +
               "; accepted are: " + list_of(scope.normalizers));
}

void check_dtype(const Method& method, DType dtype) {
  const MethodScope& scope = method.scope();
  const bool accepted[] = {scope.f32, scope.f64, scope.bf16, scope.f16};
  const DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  std::string possible;
  for (size_t i = 0; i < std::size(dtypes); ++i) {
    if (dtypes[i] == dtype && accepted[i]) return;
    if (accepted[i]) possible += (possible.empty() ? "" : ", ") + std::string(name_of(dtypes[i]));
  }
  reject(method, "query",
         std::string("query is ") + name_of(dtype) + "; accepted are: " + possible);
}

// Throws Error(argument) if a tensor is missing that the declaration requires.
void require_tensors(const Declaration& declaration, const void* method) {
  for (const Parameter& parameter : declaration.parameters)
    if (parameter.required && parameter.type == ParameterType::tensor &&
        !parameter.get(method).tensor.defined())
      throw Error(ErrorCode::argument, std::string("method ") + declaration.name + ": " +
                                           parameter.name + " is missing; it is required");
}

// Whether several heads of the problem read the same matrix of a tensor.
bool is_shared(const TensorView& view, const Problem& p) {
  int64_t matrices = 1;
  for (int i = 0; i + 2 < view.rank; ++i) matrices *= view.shape[i];
  return matrices < p.heads;
}

void check_options(const Method& method, const CheckedCall& call) {
  const MethodScope& scope = method.scope();
  const AttentionOptions& o = call.options;
  const struct {
    bool wanted, accepted;
    const char *argument, *name;
  } options[] = {
      {call.problem.has_bias, scope.bias, "bias", "a bias"},
      {o.dropout.probability != 0, scope.dropout, "dropout", "dropout"},
      {o.packed.defined(), scope.packed, "packed", "packed sequences"},
      {o.cache.defined(), scope.cache, "cache", "a cache"},
      {o.cosine.has_value(), scope.row_transforms, "cosine", "cosine attention"},
      {o.rotary.embedding != nullptr, scope.row_transforms, "rotary", "rotary embedding"},
      {call.problem.relative.any(), scope.relative, "relative", "relative positions"},
      {o.weights.has_value(), scope.weights, "weights", "returned weights"},
      {o.map.has_value(), scope.map, "map", "a map of weights"},
      {o.top_k > 0, scope.top_k, "top_k", "top keys"},
      {o.entropy, scope.entropy, "entropy", "entropy"},
      {o.received, scope.received, "received", "received attention"},
  };
  for (const auto& option : options)
    if (option.wanted && !option.accepted)
      reject(method, option.argument,
             std::string(option.name) + " is not available; leave it out, or compute exactly");
  if (!scope.shared_keys && is_shared(call.key, call.problem))
    reject(method, "key", "heads that share keys; expected a key for each head of the query");
  if (!scope.shared_values && is_shared(call.value, call.problem))
    reject(method, "value", "heads that share values; expected a value for each head of the query");
}

}  // namespace

size_t workspace_bytes_of(const MethodPlan& plan) {
  if (plan.workspace_bytes == 0) return 0;
  const size_t bytes = add_or_max(plan.workspace_bytes, kScratchAlignment - 1);
  if (bytes == SIZE_MAX)
    throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
  return bytes;
}

TensorView matrix_of(const Operand& o, const Problem& p, int64_t head, int64_t rows, int64_t dims) {
  int64_t index[kMaxRank];
  p.index_of(head, index);
  TensorView view;
  view.data = o.data ? o.at(o.offset_of(index, p.leading_rank)) : nullptr;
  view.dtype = o.dtype, view.read_only = false, view.rank = 2;
  view.shape[0] = rows, view.shape[1] = dims;
  view.strides[0] = o.row_stride, view.strides[1] = o.dim_stride;
  return view;
}

TensorView vector_of(const Operand& o, const Problem& p, int64_t head, int64_t rows) {
  TensorView view = matrix_of(o, p, head, rows, 1);
  view.rank = 1;
  return view;
}

MethodCall::MethodCall(const CheckedCall& call)
    : checked(call), problem(call.problem), context(call.context) {
  const Method& called = method();
  check_argument("method", [&] {
    const void* const object = dynamic_cast<const void*>(checked.options.method);
    check_parameters(called.declaration(), object);
    require_tensors(called.declaration(), object);
    for_each_method_tensor(&called, [](const Parameter& parameter, const TensorView& tensor) {
      extent_of(parameter.name, tensor);
      check_alignment(parameter.name, tensor);
    });
  });
  check_dtype(called, problem.dtype);
  causal_ = check_masks(called, call);
  check_variants(called, call);
  check_options(called, call);
  check_argument("method", [&] { called.check(*this); });
}

KeyReach MethodCall::reach(int64_t head) const noexcept {
  int64_t index[kMaxRank];
  problem.index_of(head, index);
  KeyReach reach{problem.k_len};
  for_each_combined(checked.options.masks, [&](const Mask& mask) {
    if (const auto* const causal = dynamic_cast<const Causal*>(&mask)) {
      const int64_t offset = offset_of_causal(*causal, problem, index);
      reach.offset = reach.causal ? std::min(reach.offset, offset) : offset;
      reach.causal = true;
    } else if (const auto* const lengths = dynamic_cast<const Lengths*>(&mask)) {
      const Head place{index, problem.leading_rank, problem.q_len, problem.k_len};
      const auto* const counts = static_cast<const int64_t*>(lengths->lengths.data);
      reach.keys = std::min(reach.keys, counts[offset_of(lengths->lengths, place)]);
    }
  });
  return reach;
}

int64_t MethodCall::allowed_pairs() const noexcept {
  int64_t pairs = 0;
  for (int64_t head = 0; head < problem.heads; ++head) {
    const KeyReach of_head = reach(head);
    int64_t of_queries = 0;
    if (!of_head.causal) {
      if (__builtin_mul_overflow(problem.q_len, of_head.keys, &of_queries)) return INT64_MAX;
    } else {
      for (int64_t i = 0; i < problem.q_len; ++i)
        if (__builtin_add_overflow(of_queries, of_head.end(i), &of_queries)) return INT64_MAX;
    }
    if (__builtin_add_overflow(pairs, of_queries, &pairs)) return INT64_MAX;
  }
  return pairs;
}

void check_gradients(const MethodCall& call, const WantedGradients& wanted) {
  const MethodScope& scope = call.method().scope();
  const struct {
    bool wanted, accepted;
    const char* argument;
  } gradients[] = {
      {wanted.bias, scope.d_bias, "bias"},
      {wanted.scale, scope.d_scale, "scale"},
      {wanted.score_parameters, scope.d_score_parameters, "score_parameters"},
      {wanted.relative(), scope.d_relative, "relative"},
      {wanted.normalizer_parameters, false, "normalizer_parameters"},
  };
  for (const auto& gradient : gradients)
    if (gradient.wanted && !gradient.accepted)
      reject(call.method(), gradient.argument,
             std::string("no gradient of ") + gradient.argument + "; do not request it");
}

void check_gradients_of_results(const MethodCall& call, const BackwardInputs& inputs) {
  const MethodScope& scope = call.method().scope();
  if (inputs.d_statistic.defined() && (!scope.d_statistic || scope.statistic == Statistic::none))
    reject(call.method(), "d_statistic", "no gradient through the statistic; leave it out");
  if (inputs.d_weights.defined() && !scope.d_weights)
    reject(call.method(), "d_weights", "no gradient through returned weights; leave it out");
}

}  // namespace rapt
