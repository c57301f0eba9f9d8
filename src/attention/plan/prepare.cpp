// Chooses the kernels of a call, and rejects calls whose variants lack what a pass needs.
#include "attention/plan/prepare.h"

#include <string>

#include "attention/call/learned_parameters.h"
#include "attention/plan/key_matrices.h"
#include "attention/plan/route.h"
#include "attention/plan/tiling.h"
#include "base/check_argument.h"

namespace rapt {
namespace {

// The fewest queries per key matrix with a prefilter. By instruction count, rounding a key costs
// about as much as ten products with it.
constexpr int64_t kLeastQueries = 64;
// The fewest keys. With fewer, little is left beside the first block, which is always computed.
constexpr int64_t kLeastKeys = 128;

std::string named(const NormalizerRef& normalizer) {
  return std::string("normalizer ") + normalizer.declaration->name;
}

template <class E, class Hook>
void require_hook(std::span<const ScoreRef> scores, const KernelTable<E>& table,
                  Hook ScoreKernels<E>::*hook, const char* missing) {
  for (const ScoreRef& score : scores)
    if (!(hooks_of(score, table).*hook))
      fail(ErrorCode::unsupported, "scores",
           std::string("score ") + score.declaration->name + " has no " + missing);
}

template <class E>
void check_for_backward(const AttentionOptions& options, const Kernels<E>& kernels,
                        bool normalizer_parameters) {
  const NormalizerRef& normalizer = options.normalizer;
  if (!kernels.normalizer.backward)
    fail(ErrorCode::unsupported, "normalizer", named(normalizer) + " has no backward pass");
  if (normalizer_parameters && !kernels.normalizer.learned)
    fail(ErrorCode::unsupported, "normalizer_parameters",
         "the parameters of " + named(normalizer) + " have no gradients");
  if (normalizer_parameters && count_parameters_of(normalizer) == 0)
    fail(ErrorCode::argument, "normalizer_parameters",
         "gradients of the parameters of " + named(normalizer) + ", of which none is given");
  require_hook(options.scores, kernels.table, &ScoreKernels<E>::backward, "backward pass");
}

template <class E>
void check_for_tangents(const Problem& p, const AttentionOptions& options,
                        const Kernels<E>& kernels) {
  if (p.relative.any()) fail(ErrorCode::unsupported, "relative", "tangents of options.relative");
  if (p.rows.any())
    fail(ErrorCode::unsupported, p.rows.rotary ? "rotary" : "cosine",
         "tangents of options.rotary and options.cosine; rotate query, key and their tangents by "
         "rotary_embedding() before");
  if (!kernels.normalizer.tangent)
    fail(ErrorCode::unsupported, "normalizer", named(options.normalizer) + " has no tangents");
  require_hook(options.scores, kernels.table, &ScoreKernels<E>::tangent, "tangents");
}

template <class E>
void check_variants(const CheckedCall& call, const Kernels<E>& kernels, const PassNeeds& needs) {
  const AttentionOptions& options = call.options;
  if (needs.kind != PassKind::forward && call.problem.pages.used())
    fail(ErrorCode::unsupported, "cache",
         std::string(needs.kind == PassKind::backward ? "gradients" : "tangents") +
             " of keys in a cache; gather the keys of each sequence");
  switch (needs.kind) {
    case PassKind::forward:
      if (options.entropy && !kernels.normalizer.entropy)
        fail(ErrorCode::unsupported, "entropy",
             named(options.normalizer) + " does not find the entropy of its weights");
      break;
    case PassKind::backward:
      check_for_backward(options, kernels, needs.normalizer_parameters);
      break;
    case PassKind::tangents:
      check_for_tangents(call.problem, options, kernels);
      break;
  }
  const int64_t k_len = call.problem.k_len;
  constexpr int64_t kMostKeys = (int64_t{1} << 31) - 1;  // a sparse normaliser's list has 32 bits
  if (kernels.normalizer.settle && k_len > kMostKeys)
    fail(ErrorCode::unsupported, "normalizer",
         named(options.normalizer) + " with " + std::to_string(k_len) + " keys; at most 2^31 - 1");
}

// Tangents are multiplied by FMA. A d_output of f32 is not rounded to 16 bits; its gradients are
// computed by FMA.
template <class E>
const RouteKernels<E>& route_of_pass(const CheckedCall& call, PassKind pass,
                                     const KernelTable<E>& table) {
  const Problem& p = call.problem;
  if (pass == PassKind::tangents) return *table.fma[static_cast<int>(p.dtype)];
  return route_of(p, table, call.options, pass == PassKind::forward || p.output_dtype == p.dtype);
}

// The prefilter of a call (tiles/prefilter.h); null: none. A list of the top scores can hold scores
// without a weight, which a prefilter would skip.
template <class E>
const PrefilterKernels* prefilter_of(const CheckedCall& call, const Kernels<E>& kernels,
                                     PassKind pass) {
  const Problem& p = call.problem;
  if (sizeof(E) != sizeof(float) || pass == PassKind::tangents) return nullptr;
  if (pass == PassKind::forward && call.options.top_k > 0) return nullptr;
  if (!kernels.normalizer.bounds || kernels.route.rounds() || p.has_bias ||
      !call.options.scores.empty() || p.relative.any() || p.head_dim > kMostPrefilterDims ||
      p.heads == 0 || p.pages.used())
    return nullptr;
  if (p.k_len / p.sequences < kLeastKeys ||
      p.heads / KeyMatrices(p, p.key).count * (p.q_len / p.sequences) < kLeastQueries)
    return nullptr;
  return score_prefilter();
}

// Sets the stage of the pipeline. The pipeline never holds a finished tile, on which custom
// normalisers and dropout work; entropy, top-k and kept scores of the forward pass; score
// functions, bias and returned weights of the backward pass. The forward pipeline finds the maximum
// before it applies the scale, so the scale must be positive.
template <class E>
void choose_stage(const CheckedCall& call, PassKind pass, Kernels<E>& kernels) {
  const Problem& p = call.problem;
  const AttentionOptions& options = call.options;
  if (options.normalizer.custom.template of<E>() || p.drop_below != 0) return;
  const auto nth = options.normalizer.index;
  if (pass == PassKind::forward && kernels.route.stages && !options.entropy && options.top_k == 0 &&
      !wants_weights_of_few(call) && static_cast<E>(p.scale) > 0)
    kernels.stage = kernels.route.stages[nth];
  if (pass == PassKind::backward && kernels.route.gradient_stages && options.scores.empty() &&
      !p.has_bias && !options.weights)
    kernels.gradient_stage = kernels.route.gradient_stages[nth];
}

template <class E>
Kernels<E> kernels_of(const CheckedCall& call, const PassNeeds& needs) {
  const KernelTable<E>& table = kernels<E>();
  const RouteKernels<E>* route = &route_of_pass(call, needs.kind, table);
  const NormalizerKernels<E>& normalizer = hooks_of(
      call.options.normalizer, route->normalizers ? route->normalizers : table.normalizers);
  if (needs.kind == PassKind::forward && route == table.fma[static_cast<int>(call.problem.dtype)])
    if (const RouteKernels<E>* const few = few_queries_route(call.problem, table, normalizer))
      route = few;
  Kernels<E> kernels{table, *route, normalizer};
  check_variants(call, kernels, needs);
  kernels.natural_units = needs.kind == PassKind::tangents || !kernels.normalizer.takes_log2;
  kernels.prefilter = prefilter_of(call, kernels, needs.kind);
  choose_stage(call, needs.kind, kernels);
  return kernels;
}

}  // namespace

template <class E>
PreparedCall<E>::PreparedCall(const CheckedCall& call, const PassNeeds& needs)
    : kernels(kernels_of<E>(call, needs)),
      workers(work_of(call.problem) * needs.products, call.context) {}

template PreparedCall<float>::PreparedCall(const CheckedCall&, const PassNeeds&);
template PreparedCall<double>::PreparedCall(const CheckedCall&, const PassNeeds&);

}  // namespace rapt
