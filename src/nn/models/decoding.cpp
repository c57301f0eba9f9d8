#include "rapt/nn/decoding.h"

#include <algorithm>
#include <string>

#include "nn/attention/cached_attention.h"
#include "nn/models/decoding_call.h"

namespace rapt::nn {
namespace {

// x = block(x).
void decode_layer(const EncoderLayer& layer, const TensorView& x, const CachedRows& rows,
                  const HeadWeights& weights, const Run& run) {
  const Arena::Frame frame(run.scratch);
  const TensorView normed = run.scratch.take(x.dtype, x.dims());
  forward(layer.norm1, x, normed, make_state(layer.norm1, x.dims(), x.dtype, run.scratch), run);
  forward_cached(layer.self_attn, normed, x, rows, run, true, weights);
  forward(layer.norm2, x, normed, make_state(layer.norm2, x.dims(), x.dtype, run.scratch), run);
  forward(layer.network, normed, x, make_state(layer.network, x.dims(), run.scratch), run, true);
}

DType cache_dtype_of(const DecodingSizes& sizes) {
  const DType dtype = sizes.cache_dtype.value_or(sizes.dtype);
  const bool rounds = sizes.rounds_cache;
  if (dtype == sizes.dtype || (rounds && (dtype == DType::bf16 || dtype == DType::f16)))
    return dtype;
  throw Error(ErrorCode::dtype, std::string("a cache in ") + name_of(dtype) +
                                    "; this model keeps keys and values in " +
                                    name_of(sizes.dtype) + (rounds ? ", bf16 or f16" : ""));
}

}  // namespace

void DecodingCache::truncate(int64_t sequence, int64_t length) {
  for (KeyValueCache& layer : layers) layer.truncate(sequence, length);
}

void DecodingCache::clear() noexcept {
  for (KeyValueCache& layer : layers) layer.clear();
}

DecodingSizes decoding_sizes(const LanguageModelSpec& spec, DType dtype) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const bool gpt2 = spec.layout == LanguageModelLayout::gpt2;
  const bool qwen3 = spec.layout == LanguageModelLayout::qwen3;
  // x and a norm of it, and the wider of attention and network (decode_layer).
  const double inner = number(spec.heads) * number(spec.head_dim);
  const double kv = number(spec.kv_heads) * number(spec.head_dim);
  const double attention = 2 * (inner + kv) + (qwen3 ? inner + kv : 0);
  const double network = (gpt2 ? 2 : 3) * number(spec.hidden_features);
  return {.layers = spec.layers,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .vocabulary = spec.vocabulary,
          .context = spec.context,
          .limits_capacity = gpt2,
          .dtype = dtype,
          .row_elements = 2 * number(spec.features) + std::max(attention, network)};
}

DecodingCache make_decoding_cache(const DecodingSizes& sizes, int64_t batch, int64_t capacity,
                                  Arena& arena) {
  const bool limited = sizes.limits_capacity;
  if (batch < 1 || capacity < 1 || (limited && capacity > sizes.context))
    throw Error(ErrorCode::argument,
                "a cache of " + std::to_string(batch) + " sequences of " +
                    std::to_string(capacity) + " tokens; expected 1 or more, and a capacity of 1 " +
                    (limited ? "to " + std::to_string(sizes.context) : "or more"));
  DecodingCache cache;
  cache.batch = batch, cache.capacity = capacity, cache.dtype = cache_dtype_of(sizes);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const int64_t shape[] = {batch, sizes.kv_heads, capacity, sizes.head_dim};
    const TensorView keys = arena.take(cache.dtype, shape);
    const TensorView values = arena.take(cache.dtype, shape);
    if (!arena.counts())
      cache.layers.emplace_back(KeyValueCacheOptions{.sequences = batch,
                                                     .num_kv_heads = sizes.kv_heads,
                                                     .capacity = capacity,
                                                     .head_dim = sizes.head_dim,
                                                     .dtype = cache.dtype},
                                keys, values);
  }
  return cache;
}

DecodingCache make_decoding_cache(const LanguageModel& model, int64_t batch, int64_t capacity,
                                  Arena& arena) {
  return make_decoding_cache(decoding_sizes(model.spec, model.dtype()), batch, capacity, arena);
}

void append_prompt(DecodingCache& cache, const DecodingCache& prompt) {
  if (prompt.batch != 1 || prompt.layers.size() != cache.layers.size() || prompt.layers.empty() ||
      prompt.length(0) != prompt.capacity)
    throw Error(ErrorCode::argument, "expected the full cache of one prompt, of the same model");
  check_lengths(cache);
  for (size_t i = 0; i < cache.layers.size(); ++i) {
    CacheViews rows = prompt.layers[i].views();
    for (TensorView* const view : {&rows.key, &rows.value})
      view->shape[0] = cache.batch, view->strides[0] = 0;
    cache.layers[i].append(rows.key, rows.value);
  }
}

void decode(const LanguageModel& model, const TensorView& tokens, DecodingCache& cache,
            const TensorView& logits, const Run& given, const DecodingWeights& weights) {
  const Run run{.scratch = given.scratch, .context = given.context};  // without dropout
  const DecodingSizes sizes = decoding_sizes(model.spec, model.dtype());
  check_weights(sizes, cache, weights, run.counts());
  if (!run.counts()) check_decoding(sizes, tokens, cache, logits);
  const Arena::Frame frame(run.scratch);
  const int64_t batch = tokens.shape[0], n = tokens.shape[1];
  const DecodingPlaces places(cache, n, run);
  AppendedTokens appended(cache, places.lengths, run);
  const TensorView x = run.scratch.take(model.dtype(), {batch, n, model.features()});
  forward(model.embedding, tokens, x, run);
  if (model.positions.weight.defined()) forward(model.positions, places.positions, x, run, true);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const bool wanted = weights.weights.defined() && weights.layer == static_cast<int64_t>(i);
    KeyValueCache* const rows = run.counts() ? nullptr : &cache.layers[i];
    decode_layer(model.layers[i], x,
                 {.cache = rows,
                  .views = rows ? rows->views() : counted_views(sizes, cache),
                  .positions = places.positions,
                  .invariant = cache.invariant},
                 wanted ? HeadWeights{weights.head, weights.weights} : HeadWeights{}, run);
  }
  const TensorView rows = logits.rank == 3 ? x : last_rows(x, run);
  forward(model.norm, rows, rows, make_state(model.norm, rows.dims(), rows.dtype, run.scratch),
          run);
  compute_logits(model, rows, logits, run);
  appended.keep();
}

}  // namespace rapt::nn
