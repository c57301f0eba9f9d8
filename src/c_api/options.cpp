// Reads the descriptors of options and context.
#include "c_api/options.h"

#include <string>
#include <string_view>

#include "c_api/cancel_token.h"
#include "c_api/descriptors.h"
#include "c_api/enumerations.h"
#include "c_api/failures.h"

namespace rapt::c_api {
namespace {

// `role`: "mask", "score", "normaliser" and so on, for messages.
rapt_variant variant_of(const char* role, const char* example, const rapt_variant* given) {
  const Known<rapt_variant> v(given);
  if (!v->spec)
    bad_argument(std::string("a ") + role + " without spec; expected its name, like \"" + example +
                 "\"");
  if (v->tensor_count > 0 && !v->tensors)
    bad_argument(std::string(role) + " " + v->spec + " has tensors but a null pointer to them");
  return *v;
}

// Maps the names of tensors in the text of `variant` to the caller's tensors; `variant` must
// outlive the result.
TensorSource tensors_of(const char* role, const rapt_variant& variant) {
  return [role, &variant](std::string_view name) {
    for (size_t i = 0; i < variant.tensor_count; ++i) {
      const rapt_named_tensor& candidate = variant.tensors[i];
      if (candidate.name && name == candidate.name) {
        TensorView view;
        read_view(candidate.name, candidate.tensor, view);
        if (view.count() > 0 && !view.data)
          bad_argument(std::string(name) + " has elements but a null data pointer");
        return view;
      }
    }
    throw Error(ErrorCode::unknown_name, std::string(role) + " " + variant.spec +
                                             " names no tensor of its `tensors`: \"" +
                                             std::string(name) + "\"");
  };
}

std::unique_ptr<Mask> mask_of(const rapt_variant* given) {
  const rapt_variant mask = variant_of("mask", "causal", given);
  return make_mask(mask.spec, tensors_of("mask", mask));
}

MadeScore score_of(const rapt_variant* given) {
  const rapt_variant score = variant_of("score", "softcap(30)", given);
  return make_score(score.spec, tensors_of("score", score));
}

// Makes the normaliser. The default, also if it is named, allocates no memory.
std::optional<MadeNormalizer> normalizer_of(const rapt_variant* given) {
  const rapt_variant normalizer = variant_of("normaliser", "softmax", given);
  if (normalizer.spec == std::string_view(Softmax::kDeclaration.name)) return {};
  return make_normalizer(normalizer.spec, tensors_of("normaliser", normalizer));
}

std::unique_ptr<Method> method_of(const rapt_variant* given) {
  const rapt_variant method = variant_of("method", "mean", given);
  return make_method(method.spec, tensors_of("method", method));
}

Rotary rotary_of(const rapt_variant* given) {
  const rapt_variant rotary = variant_of("rotary embedding", "rotary(theta=500000)", given);
  return make_rotary(rotary.spec, tensors_of("rotary embedding", rotary));
}

RelativePositions relative_of(const rapt_variant* given) {
  const rapt_variant relative = variant_of("relative positions", "relative(key_rows=k)", given);
  return make_relative(relative.spec, tensors_of("relative positions", relative));
}

// `of`: "weights: `heads`", for messages.
std::span<const int64_t> list_of(const char* of, const int64_t* first, size_t count, Lists lists,
                                 std::vector<int64_t>& kept) {
  if (count == 0) return {};
  if (!first)
    bad_argument(std::string(of) + " is a null pointer of " + std::to_string(count) + " numbers");
  if (lists == Lists::look) return {first, count};
  kept.assign(first, first + count);
  return kept;
}

Precision precision_of(rapt_precision given) {
  constexpr Enumerator<Precision> kKnown[] = {
      {RAPT_PRECISION_AUTOMATIC, "RAPT_PRECISION_AUTOMATIC", Precision::automatic},
      {RAPT_PRECISION_FMA, "RAPT_PRECISION_FMA", Precision::fma},
      {RAPT_PRECISION_FAST, "RAPT_PRECISION_FAST", Precision::fast}};
  return value_of("precision", given, kKnown);
}

Memory memory_of(rapt_memory given) {
  constexpr Enumerator<Memory> kKnown[] = {
      {RAPT_MEMORY_AUTOMATIC, "RAPT_MEMORY_AUTOMATIC", Memory::automatic},
      {RAPT_MEMORY_LOW, "RAPT_MEMORY_LOW", Memory::low}};
  return value_of("memory", given, kKnown);
}

BiasOrder bias_order_of(rapt_bias_order given) {
  constexpr Enumerator<BiasOrder> kKnown[] = {
      {RAPT_BIAS_AFTER_SCORES, "RAPT_BIAS_AFTER_SCORES", BiasOrder::after_scores},
      {RAPT_BIAS_BEFORE_SCORES, "RAPT_BIAS_BEFORE_SCORES", BiasOrder::before_scores}};
  return value_of("bias_order", given, kKnown);
}

Pool pool_of(rapt_pool given) {
  constexpr Enumerator<Pool> kKnown[] = {{RAPT_POOL_MEAN, "RAPT_POOL_MEAN", Pool::mean},
                                         {RAPT_POOL_MAX, "RAPT_POOL_MAX", Pool::max},
                                         {RAPT_POOL_SUM, "RAPT_POOL_SUM", Pool::sum}};
  return value_of("the pool of a map", given, kKnown);
}

WeightsStage stage_of(rapt_weights_stage given) {
  constexpr Enumerator<WeightsStage> kKnown[] = {
      {RAPT_STAGE_WEIGHTS, "RAPT_STAGE_WEIGHTS", WeightsStage::weights},
      {RAPT_STAGE_SCORES, "RAPT_STAGE_SCORES", WeightsStage::scores}};
  return value_of("the stage of weights", given, kKnown);
}

}  // namespace

Options::Options(const rapt_options* given, Lists lists) {
  if (!given) return;
  const Known<rapt_options> o(given);
  check_reserved("rapt_options", o->reserved);
  check_reserved("rapt_options", o->reserved_at_end);
  if (o->scale) options_.scale = *o->scale;

  if (o->mask_count > 0 && !o->masks) bad_argument("options have masks but a null pointer to them");
  std::vector<const Mask*> pointers;
  for (size_t i = 0; i < o->mask_count; ++i)
    pointers.push_back(masks_.emplace_back(mask_of(o->masks[i])).get());
  options_.masks = pointers;

  if (o->score_count > 0 && !o->scores)
    bad_argument("options have scores but a null pointer to them");
  std::vector<ScoreRef> refs;
  for (size_t i = 0; i < o->score_count; ++i)
    refs.push_back(scores_.emplace_back(score_of(o->scores[i])).ref);
  options_.scores = ScoreList(refs);

  read_if_given("bias", o->bias, options_.bias);
  options_.bias_order = bias_order_of(o->bias_order);
  if (o->normalizer && (normalizer_ = normalizer_of(o->normalizer)))
    options_.normalizer = *normalizer_;
  if (o->output_dtype != 0) options_.output_dtype = dtype_of("output_dtype", o->output_dtype);
  options_.precision = precision_of(o->precision);
  options_.invariant = o->invariant != 0;
  options_.dropout = {o->dropout, o->dropout_seed};

  if (o->key_starts && !o->query_starts)
    bad_argument("key_starts without query_starts; packed sequences need both, or query_starts");
  read_if_given("query_starts", o->query_starts, options_.packed.query_starts);
  read_if_given("key_starts", o->key_starts, options_.packed.key_starts);
  read_if_given("cache_lengths", o->cache_lengths, options_.cache.lengths);
  read_if_given("cache_block_table", o->cache_block_table, options_.cache.block_table);
  read_if_given("cache_starts", o->cache_starts, options_.cache.starts);

  if (o->cosine_epsilon != 0) options_.cosine = Cosine{o->cosine_epsilon};
  if (o->rotary) options_.rotary.embedding = &rotary_.emplace(rotary_of(o->rotary));
  FusedRotary& rotary = options_.rotary;
  rotary.query.start = o->rotary_query_start, rotary.key.start = o->rotary_key_start;
  if (o->rotary_query_step != 0) rotary.query.step = o->rotary_query_step;
  if (o->rotary_key_step != 0) rotary.key.step = o->rotary_key_step;
  rotary.rotate_key = o->rotary_keys_are_rotated == 0;
  read_if_given("rotary_query_positions", o->rotary_query_positions, rotary.query.values);
  read_if_given("rotary_key_positions", o->rotary_key_positions, rotary.key.values);
  if (o->relative) options_.relative = relative_of(o->relative);

  if (o->weights) options_.weights = weights_of(o->weights, lists);
  if (o->map) options_.map = map_of(o->map, lists);
  options_.top_k = o->top_k;
  options_.entropy = o->entropy != 0;
  options_.received = o->received != 0;
  options_.add_received = o->add_received != 0;
  if (o->method) method_ = method_of(o->method);
  options_.method = method_.get();
}

WeightsRequest Options::weights_of(const rapt_weights_request* given, Lists lists) {
  const Known<rapt_weights_request> w(given);
  check_reserved("rapt_weights_request", w->reserved);
  if (w->row_end < 0)
    bad_argument("weights: row_end is " + std::to_string(w->row_end) +
                 "; expected a row, or 0 for all up to the last");
  return {w->row_begin, w->row_end == 0 ? kToEnd : w->row_end,
          list_of("weights: `heads`", w->heads, w->head_count, lists, weights_heads_),
          list_of("weights: `rows`", w->rows, w->row_count, lists, weights_rows_),
          stage_of(w->stage)};
}

MapRequest Options::map_of(const rapt_map_request* given, Lists lists) {
  const Known<rapt_map_request> m(given);
  check_reserved("rapt_map_request", m->reserved);
  return {m->rows, m->columns, pool_of(m->pool),
          list_of("map: `heads`", m->heads, m->head_count, lists, map_heads_)};
}

const AttentionOptions& default_options() {
  static const AttentionOptions options;
  return options;
}

CallersExecutor::CallersExecutor(const rapt_executor& table) : table_(table) {
  if (!table.concurrency || !table.run)
    bad_argument("an executor needs both functions: concurrency and run");
}

void CallersExecutor::run(int64_t tasks, Task task, void* argument) {
  if (const int answer = table_.run(table_.user, tasks, task, argument); answer != 0)
    throw ExecutorFailed(answer);
}

CallContext::CallContext(const rapt_context* given) {
  if (!given) return;
  const Known<rapt_context> c(given);
  if (c->executor) {
    executor_.emplace(*Known<rapt_executor>(c->executor));
    context_.executor = &*executor_;
  }
  if (c->cancel) context_.cancel = &c->cancel->token;
  context_.progress = {c->progress, c->progress_user};
  if (c->memory_limit < 0)
    bad_argument("memory_limit is " + std::to_string(c->memory_limit) +
                 "; expected bytes, or 0 for no limit");
  if (c->memory_limit > 0) context_.memory_limit = c->memory_limit;
  context_.threads = c->threads;
  context_.memory = memory_of(c->memory);
}

}  // namespace rapt::c_api
