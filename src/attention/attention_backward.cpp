// The public functions of the backward pass: scaled_dot_product_attention_backward() and
// backward_workspace_bytes().
#include <algorithm>
#include <string>

#include "attention/backward/backward_layout.h"
#include "attention/call/learned_parameters.h"
#include "attention/plan/route.h"
#include "attention/plan/variant_kernels.h"
#include "attention/tiles/bound_masks.h"
#include "attention/tiles/prefilter.h"
#include "attention/tiles/score_tiles.h"
#include "base/call_memory.h"

namespace rapt {
namespace {

// Work relative to the two products of the forward pass: five products in one pass, seven in two.
constexpr double kProducts = 2.5, kProductsOfTwoPasses = 3.5;

template <class E>
Kernels<E> backward_kernels(const Problem& p, const AttentionOptions& options,
                            bool wants_normalizer) {
  const KernelTable<E>& table = kernels<E>();
  // A d_output of f32 is not rounded to 16 bits; its gradients are computed by FMA.
  const RouteKernels<E>& route = route_of(p, table, options, p.output_dtype == p.dtype);
  const NormalizerKernels<E>& normalizer =
      hooks_of(options.normalizer, route.normalizers ? route.normalizers : table.normalizers);
  if (!normalizer.backward)
    throw Error(
        ErrorCode::unsupported,
        std::string("normalizer ") + options.normalizer.declaration->name + " has no backward pass",
        "normalizer");
  check_list(options.normalizer, normalizer, p.k_len);
  if (wants_normalizer && !normalizer.learned)
    throw Error(ErrorCode::unsupported,
                std::string("the parameters of normalizer ") +
                    options.normalizer.declaration->name + " have no gradients",
                "normalizer_parameters");
  if (wants_normalizer && count_parameters_of(options.normalizer) == 0)
    throw Error(ErrorCode::argument,
                std::string("gradients of the parameters of normalizer ") +
                    options.normalizer.declaration->name + ", of which none is given",
                "normalizer_parameters");
  for (const ScoreRef& score : options.scores)
    if (!hooks_of(score, table).backward)
      throw Error(ErrorCode::unsupported,
                  std::string("score ") + score.declaration->name + " has no backward pass",
                  "scores");
  Kernels<E> kernels{table, route, normalizer};
  kernels.prefilter = prefilter_of(p, options, kernels);
  // Custom normalisers, score functions, bias, dropout and returned weights need a finished tile,
  // which the pipeline never holds.
  if (route.gradient_stages && !options.normalizer.custom.template of<E>() &&
      options.scores.empty() && !p.has_bias && p.drop_below == 0 && !options.weights)
    kernels.gradient_stage = route.gradient_stages[options.normalizer.index];
  return kernels;
}

// Rejects gradients summed over heads whose rows are rotated by different angles: such a sum cannot
// be rotated back.
void check_shared_rows(const Problem& p, const BackwardPlan& plan) {
  const auto check = [&](const char* name, GradientOf o, const RowPositions& positions) {
    for (int i = 0; i < p.leading_rank; ++i)
      if (plan.sharing[o].divisor[i] > 1 && positions.vary(i))
        throw Error(ErrorCode::unsupported,
                    std::string(name) + " of rows that are shared along leading dimension " +
                        std::to_string(i) +
                        ", where their positions differ; expected the same positions, or a copy "
                        "of the rows for each",
                    name);
  };
  if (p.rows.query_turns()) check("d_query", kOfQuery, p.rows.query);
  if (p.rows.key_turns()) check("d_key", kOfKey, p.rows.key);
}

// Everything about a call that is known before its memory.
template <class E>
struct PreparedBackward {
  WantedGradients wanted;
  Kernels<E> kernels;
  BackwardPlan plan;
  BackwardLayout<E> layout;

  PreparedBackward(const Problem& p, const TensorView& query, const TensorView& key,
                   const TensorView& value, const AttentionOptions& options,
                   const BackwardRequest& request, const Context& context)
      : wanted(wanted_gradients(p, options, request)),
        kernels(backward_kernels<E>(p, options, wanted.normalizer_parameters)),
        plan(make_plan(p, query, key, value, options, context)),
        layout(
            backward_layout(p, wanted, plan, options, kernels, BoundMasks::slots(options.masks))) {
    check_shared_rows(p, plan);
  }

 private:
  BackwardPlan make_plan(const Problem& p, const TensorView& query, const TensorView& key,
                         const TensorView& value, const AttentionOptions& options,
                         const Context& context) const {
    const double work = work_of(p) * (wanted.two_passes ? kProductsOfTwoPasses : kProducts);
    return backward_plan(p, wanted, kernels, query, key, value, options, work,
                         workers_of(work, context));
  }
};

// Calls visit(prepared call) with the element type in which the problem is computed.
template <class Visit>
auto with_prepared(const Problem& p, const TensorView& query, const TensorView& key,
                   const TensorView& value, const AttentionOptions& options,
                   const BackwardRequest& request, const Context& context, const Visit& visit) {
  return p.result_dtype == DType::f64
             ? visit(PreparedBackward<double>(p, query, key, value, options, request, context))
             : visit(PreparedBackward<float>(p, query, key, value, options, request, context));
}

void clear_dim(const TensorView& view, int dim, std::byte* at) {
  const int64_t size = size_of(view.dtype);
  if (dim == view.rank) {
    std::fill_n(at, size, std::byte{0});
    return;
  }
  for (int64_t i = 0; i < view.shape[dim]; ++i, at += view.strides[dim] * size)
    clear_dim(view, dim + 1, at);
}

template <class E>
void backward(Problem& p, const PreparedBackward<E>& prepared,
              const GradientSpec (&specs)[kGradients], const AttentionOptions& options,
              const BackwardInputs& inputs, const GradientOutputs& outputs,
              std::span<std::byte> workspace, const Context& context) {
  const GradientInputs in = check_gradient_inputs(p, options, inputs);
  const GradientTargets targets =
      check_gradient_outputs(p, specs, options, inputs, outputs, workspace);
  std::byte* const scratch = checked_workspace(workspace, prepared.layout.bytes);
  if (p.heads == 0) {  // no head reads what is broadcast along an empty dimension
    for (const GradientSpec& spec : specs)
      if (const TensorView& view = outputs.*spec.view; spec.wanted && !view.empty())
        clear_dim(view, 0, static_cast<std::byte*>(view.data));
    return;
  }
  const TilePlaces<E>& places = prepared.layout.score_tiles;
  if (p.rows.transforms_key) p.key.data = places.row_transform.transformed_key.in(scratch);
  const Captures no_captures = {};
  const Outputs no_outputs = {};
  const ForwardCall<E> forward{.problem = p,
                               .kernels = prepared.kernels,
                               .normalizer_object = options.normalizer.object,
                               .score_functions = options.scores,
                               .masks = options.masks,
                               .captures = no_captures,
                               .outputs = no_outputs,
                               .tiling = prepared.plan.tiling,
                               .layout = places,
                               .workspace = scratch};
  const BackwardCall<E> call{.forward = forward,
                             .options = options,
                             .wanted = prepared.wanted,
                             .plan = prepared.plan,
                             .layout = prepared.layout,
                             .inputs = in,
                             .targets = targets};
  run_backward(call, context);
}

}  // namespace

size_t backward_workspace_bytes(const TensorView& query, const TensorView& key,
                                const TensorView& value, const AttentionOptions& options,
                                const BackwardRequest& request, const Context& context) {
  const Problem p = make_problem(query, key, value, options);
  return with_prepared(p, query, key, value, options, request, context,
                       [](const auto& call) { return call.layout.bytes; });
}

void scaled_dot_product_attention_backward(const TensorView& query, const TensorView& key,
                                           const TensorView& value, const AttentionOptions& options,
                                           const BackwardInputs& inputs,
                                           const BackwardRequest& request,
                                           const GradientOutputs& outputs,
                                           std::span<std::byte> workspace, const Context& context) {
  Problem p = make_problem(query, key, value, options);
  require_data(query, key, value, options);
  with_prepared(p, query, key, value, options, request, context, [&](const auto& call) {
    GradientSpec specs[kGradients];
    describe_gradients(p, call.wanted, query, key, value, options, specs);
    backward(p, call, specs, options, inputs, outputs, workspace, context);
  });
}

Gradients scaled_dot_product_attention_backward(const TensorView& query, const TensorView& key,
                                                const TensorView& value,
                                                const AttentionOptions& options,
                                                const BackwardInputs& inputs,
                                                const BackwardRequest& request,
                                                const Context& context) {
  Problem p = make_problem(query, key, value, options);
  require_data(query, key, value, options);
  return with_prepared(p, query, key, value, options, request, context, [&](const auto& call) {
    check_gradient_inputs(p, options, inputs);  // before memory is allocated
    GradientSpec specs[kGradients];
    describe_gradients(p, call.wanted, query, key, value, options, specs);
    size_t needed = call.layout.bytes;
    for (const GradientSpec& spec : specs)
      if (spec.wanted) needed = add_or_max(needed, bytes_of(spec.dims(), spec.dtype));
    check_memory_limit(needed, context,
                       call.wanted.two_passes ? "" : "; two passes take less workspace");
    Gradients result;
    GradientOutputs outputs;
    for (const GradientSpec& spec : specs) {
      if (!spec.wanted) continue;
      result.*spec.tensor = Tensor(spec.dtype, spec.dims());
      outputs.*spec.view = result.*spec.tensor;
    }
    Tensor workspace(DType::u8, {static_cast<int64_t>(call.layout.bytes)});
    backward(p, call, specs, options, inputs, outputs,
             std::as_writable_bytes(workspace.values<uint8_t>()), context);
    return result;
  });
}

}  // namespace rapt
