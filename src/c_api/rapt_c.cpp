// The C interface: translates descriptors into the C++ call. It decides nothing about attention.
#include "rapt/rapt_c.h"

#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "c_api/cancel_token.h"
#include "c_api/descriptors.h"
#include "c_api/enumerations.h"
#include "c_api/failures.h"
#include "c_api/options.h"
#include "rapt/attention.h"
#include "rapt/backward.h"
#include "rapt/version.h"

struct rapt_prepared {
  rapt::c_api::Options options;
  rapt::c_api::CallContext context;
};

namespace rapt::c_api {
namespace {

static_assert(static_cast<int>(Statistic::none) == RAPT_STATISTIC_NONE &&
              static_cast<int>(Statistic::lse) == RAPT_STATISTIC_LSE &&
              static_cast<int>(Statistic::threshold) == RAPT_STATISTIC_THRESHOLD);

struct Inputs {
  TensorView query, key, value;
};

void read_inputs(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
                 Inputs& inputs) {
  read_view("query", query, inputs.query);
  read_view("key", key, inputs.key);
  read_view("value", value, inputs.value);
}

void read_results(const rapt_results* given, AttentionOutputs& outputs) {
  const Known<rapt_results> r(given);
  read_view("output", r->output, outputs.state.output);
  read_if_given("statistic", r->statistic, outputs.state.statistic);
  read_if_given("weights", r->weights, outputs.weights);
  read_if_given("map", r->map, outputs.map);
  read_if_given("top_keys", r->top_keys, outputs.top_keys);
  read_if_given("top_weights", r->top_weights, outputs.top_weights);
  read_if_given("entropy", r->entropy, outputs.entropy);
  read_if_given("received", r->received, outputs.received);
}

// Options and context of one call. Most calls have none, which costs nothing.
class OneCall {
 public:
  OneCall(const rapt_options* options, const rapt_context* context) : context_(context) {
    if (options) options_.emplace(options, Lists::look);
  }
  const AttentionOptions& options() const { return options_ ? options_->get() : default_options(); }
  const Context& context() const { return context_.get(); }

 private:
  std::optional<Options> options_;
  CallContext context_;
};

void write_plan(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
                const AttentionOptions& options, const Context& context, rapt_plan_info* out) {
  Inputs in;
  read_inputs(query, key, value, in);
  const Plan plan = rapt::plan(in.query, in.key, in.value, options, context);
  rapt_plan_info info = {};
  info.isa = plan.isa;
  info.kernel = plan.kernel;
  info.statistic = static_cast<int32_t>(plan.statistic);
  info.threads = plan.threads;
  info.tile_queries = plan.tile_queries;
  info.block_keys = plan.block_keys;
  info.tiles_computed = plan.tiles_computed;
  info.tiles_partial = plan.tiles_partial;
  info.tiles_skipped = plan.tiles_skipped;
  info.allowed_scores = plan.allowed_scores;
  info.workspace_bytes = plan.workspace_bytes;
  info.result_bytes = plan.result_bytes;
  info.matrix_bytes = plan.matrix_bytes;
  info.group_heads = plan.group_heads;
  info.method_pairs = plan.method_pairs;
  write_struct(info, out);
}

void write_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                           const rapt_tensor* value, const AttentionOptions& options,
                           const Context& context, size_t* out) {
  Inputs in;
  read_inputs(query, key, value, in);
  *out = rapt::workspace_bytes(in.query, in.key, in.value, options, context);
}

void check_place_of_bytes(const size_t* workspace_bytes) {
  if (!workspace_bytes) bad_argument("workspace_bytes is a null pointer; expected where to write");
}

// Allocates scratch for one call, within the caller's limit. Callers with many calls pass a
// workspace instead.
Tensor allocate_workspace(size_t bytes, const Context& context) {
  if (context.memory_limit >= 0 && bytes > static_cast<size_t>(context.memory_limit))
    throw Error(ErrorCode::memory_limit, "needs " + std::to_string(bytes) +
                                             " bytes of scratch; the limit is " +
                                             std::to_string(context.memory_limit));
  return Tensor(DType::u8, {static_cast<int64_t>(bytes)});
}

// Runs `call` with the caller's workspace, or, if that is a null pointer, with one of `needed()`
// bytes.
template <class Needed, class Call>
void with_workspace(void* workspace, size_t bytes, const Context& context, const Needed& needed,
                    const Call& call) {
  if (workspace) return call(std::span(static_cast<std::byte*>(workspace), bytes));
  if (bytes > 0)
    bad_argument("workspace is a null pointer of " + std::to_string(bytes) +
                 " bytes; expected memory, or 0 bytes to have it allocated");
  Tensor own = allocate_workspace(needed(), context);
  call(std::span(static_cast<std::byte*>(own.data()), static_cast<size_t>(own.count())));
}

void forward(const Inputs& in, const AttentionOptions& options, const rapt_results* results,
             void* workspace, size_t workspace_bytes, const Context& context) {
  AttentionOutputs outputs;
  read_results(results, outputs);
  with_workspace(
      workspace, workspace_bytes, context,
      [&] { return rapt::workspace_bytes(in.query, in.key, in.value, options, context); },
      [&](std::span<std::byte> scratch) {
        scaled_dot_product_attention(in.query, in.key, in.value, options, outputs, scratch,
                                     context);
      });
}

BackwardPasses passes_of(rapt_backward_passes given) {
  constexpr Enumerator<BackwardPasses> kKnown[] = {
      {RAPT_BACKWARD_ONE_PASS, "RAPT_BACKWARD_ONE_PASS", BackwardPasses::one},
      {RAPT_BACKWARD_TWO_PASSES, "RAPT_BACKWARD_TWO_PASSES", BackwardPasses::two}};
  return value_of("passes", given, kKnown);
}

// Requests the gradients for which the caller gives tensors, with the dtypes of these tensors.
void read_gradients(const rapt_gradients* given, BackwardRequest& request,
                    GradientOutputs& outputs) {
  const Known<rapt_gradients> g(given);
  check_reserved("rapt_gradients", g->reserved);
  request.query = request.key = request.value = false;
  const auto read = [&](const char* name, const rapt_tensor* tensor, TensorView& view,
                        bool& wanted) {
    read_if_given(name, tensor, view);
    wanted |= tensor != nullptr;
  };
  read("d_query", g->d_query, outputs.d_query, request.query);
  read("d_key", g->d_key, outputs.d_key, request.key);
  read("d_value", g->d_value, outputs.d_value, request.value);
  read("d_bias", g->d_bias, outputs.d_bias, request.bias);
  read("d_scale", g->d_scale, outputs.d_scale, request.scale);
  read("d_score_parameters", g->d_score_parameters, outputs.d_score_parameters,
       request.score_parameters);
  read("d_normalizer_parameters", g->d_normalizer_parameters, outputs.d_normalizer_parameters,
       request.normalizer_parameters);
  read("d_key_rows", g->d_key_rows, outputs.d_key_rows, request.relative);
  read("d_query_rows", g->d_query_rows, outputs.d_query_rows, request.relative);
  read("d_value_rows", g->d_value_rows, outputs.d_value_rows, request.relative);
  read("d_content_bias", g->d_content_bias, outputs.d_content_bias, request.relative);
  read("d_position_bias", g->d_position_bias, outputs.d_position_bias, request.relative);
  if (request.query)
    request.dtype = outputs.d_query.dtype;
  else if (request.key)
    request.dtype = outputs.d_key.dtype;
  else if (request.value)
    request.dtype = outputs.d_value.dtype;
  request.passes = passes_of(g->passes);
}

void write_backward_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                    const rapt_tensor* value, const AttentionOptions& options,
                                    const rapt_gradients* gradients, const Context& context,
                                    size_t* out) {
  Inputs in;
  read_inputs(query, key, value, in);
  BackwardRequest request;
  GradientOutputs outputs;
  read_gradients(gradients, request, outputs);
  *out = rapt::backward_workspace_bytes(in.query, in.key, in.value, options, request, context);
}

void backward(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
              const AttentionOptions& options, const rapt_backward_inputs* given,
              const rapt_gradients* gradients, void* workspace, size_t workspace_bytes,
              const Context& context) {
  Inputs in;
  read_inputs(query, key, value, in);
  const Known<rapt_backward_inputs> i(given);
  BackwardInputs inputs;
  read_view("output", i->output, inputs.state.output);
  read_view("statistic", i->statistic, inputs.state.statistic);
  read_view("d_output", i->d_output, inputs.d_output);
  read_if_given("d_statistic", i->d_statistic, inputs.d_statistic);
  read_if_given("d_weights", i->d_weights, inputs.d_weights);
  BackwardRequest request;
  GradientOutputs outputs;
  read_gradients(gradients, request, outputs);
  with_workspace(
      workspace, workspace_bytes, context,
      [&] {
        return rapt::backward_workspace_bytes(in.query, in.key, in.value, options, request,
                                              context);
      },
      [&](std::span<std::byte> scratch) {
        scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs, request,
                                              outputs, scratch, context);
      });
}

const rapt_prepared& required(const rapt_prepared* prepared) {
  if (!prepared)
    bad_argument("prepared is a null pointer; expected what rapt_prepare() has written");
  return *prepared;
}

}  // namespace
}  // namespace rapt::c_api

using namespace rapt::c_api;

extern "C" {

const char* rapt_version(void) { return rapt::version(); }

const char* rapt_build_info(void) { return rapt::build_info(); }

rapt_cancel_token* rapt_cancel_token_create(void) { return new (std::nothrow) rapt_cancel_token; }

void rapt_cancel_token_cancel(rapt_cancel_token* token) {
  if (token) token->token.cancel();
}

void rapt_cancel_token_destroy(rapt_cancel_token* token) { delete token; }

rapt_status rapt_plan(const rapt_tensor* query, const rapt_tensor* key, const rapt_tensor* value,
                      const rapt_options* options, const rapt_context* context,
                      rapt_plan_info* plan) {
  return guarded([&] {
    check_size(plan);
    const OneCall call(options, context);
    write_plan(query, key, value, call.options(), call.context(), plan);
  });
}

rapt_status rapt_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                 const rapt_tensor* value, const rapt_options* options,
                                 const rapt_context* context, size_t* workspace_bytes) {
  return guarded([&] {
    check_place_of_bytes(workspace_bytes);
    const OneCall call(options, context);
    write_workspace_bytes(query, key, value, call.options(), call.context(), workspace_bytes);
  });
}

rapt_status rapt_attention_forward(const rapt_tensor* query, const rapt_tensor* key,
                                   const rapt_tensor* value, const rapt_options* options,
                                   const rapt_results* results, void* workspace,
                                   size_t workspace_bytes, const rapt_context* context) {
  return guarded([&] {
    Inputs in;
    read_inputs(query, key, value, in);
    const OneCall call(options, context);
    forward(in, call.options(), results, workspace, workspace_bytes, call.context());
  });
}

rapt_status rapt_dropout_mask(double dropout, uint64_t dropout_seed, const rapt_tensor* kept) {
  return guarded([&] {
    rapt::TensorView view;
    read_view("kept", kept, view);
    rapt::dropout_mask({dropout, dropout_seed}, view);
  });
}

rapt_status rapt_backward_workspace_bytes(const rapt_tensor* query, const rapt_tensor* key,
                                          const rapt_tensor* value, const rapt_options* options,
                                          const rapt_gradients* gradients,
                                          const rapt_context* context, size_t* workspace_bytes) {
  return guarded([&] {
    check_place_of_bytes(workspace_bytes);
    const OneCall call(options, context);
    write_backward_workspace_bytes(query, key, value, call.options(), gradients, call.context(),
                                   workspace_bytes);
  });
}

rapt_status rapt_attention_backward(const rapt_tensor* query, const rapt_tensor* key,
                                    const rapt_tensor* value, const rapt_options* options,
                                    const rapt_backward_inputs* inputs,
                                    const rapt_gradients* gradients, void* workspace,
                                    size_t workspace_bytes, const rapt_context* context) {
  return guarded([&] {
    const OneCall call(options, context);
    backward(query, key, value, call.options(), inputs, gradients, workspace, workspace_bytes,
             call.context());
  });
}

rapt_status rapt_prepare(const rapt_options* options, const rapt_context* context,
                         rapt_prepared** prepared) {
  return guarded([&] {
    if (!prepared) bad_argument("prepared is a null pointer; expected where to write");
    *prepared = nullptr;
    *prepared = new rapt_prepared{{options, Lists::copy}, rapt::c_api::CallContext(context)};
  });
}

void rapt_prepared_destroy(rapt_prepared* prepared) { delete prepared; }

rapt_status rapt_prepared_plan(const rapt_prepared* prepared, const rapt_tensor* query,
                               const rapt_tensor* key, const rapt_tensor* value,
                               rapt_plan_info* plan) {
  return guarded([&] {
    const rapt_prepared& p = required(prepared);
    check_size(plan);
    write_plan(query, key, value, p.options.get(), p.context.get(), plan);
  });
}

rapt_status rapt_prepared_workspace_bytes(const rapt_prepared* prepared, const rapt_tensor* query,
                                          const rapt_tensor* key, const rapt_tensor* value,
                                          size_t* workspace_bytes) {
  return guarded([&] {
    const rapt_prepared& p = required(prepared);
    check_place_of_bytes(workspace_bytes);
    write_workspace_bytes(query, key, value, p.options.get(), p.context.get(), workspace_bytes);
  });
}

rapt_status rapt_prepared_forward(const rapt_prepared* prepared, const rapt_tensor* query,
                                  const rapt_tensor* key, const rapt_tensor* value,
                                  const rapt_results* results, void* workspace,
                                  size_t workspace_bytes) {
  return guarded([&] {
    const rapt_prepared& p = required(prepared);
    Inputs in;
    read_inputs(query, key, value, in);
    forward(in, p.options.get(), results, workspace, workspace_bytes, p.context.get());
  });
}

rapt_status rapt_prepared_backward_workspace_bytes(const rapt_prepared* prepared,
                                                   const rapt_tensor* query, const rapt_tensor* key,
                                                   const rapt_tensor* value,
                                                   const rapt_gradients* gradients,
                                                   size_t* workspace_bytes) {
  return guarded([&] {
    const rapt_prepared& p = required(prepared);
    check_place_of_bytes(workspace_bytes);
    write_backward_workspace_bytes(query, key, value, p.options.get(), gradients, p.context.get(),
                                   workspace_bytes);
  });
}

rapt_status rapt_prepared_backward(const rapt_prepared* prepared, const rapt_tensor* query,
                                   const rapt_tensor* key, const rapt_tensor* value,
                                   const rapt_backward_inputs* inputs,
                                   const rapt_gradients* gradients, void* workspace,
                                   size_t workspace_bytes) {
  return guarded([&] {
    const rapt_prepared& p = required(prepared);
    backward(query, key, value, p.options.get(), inputs, gradients, workspace, workspace_bytes,
             p.context.get());
  });
}

}  // extern "C"
