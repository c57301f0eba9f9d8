#include "rapt/nn/decoding.h"

#include <cstring>
#include <string>

#include "nn/attention/cached_attention.h"
#include "nn/dense.h"
#include "nn/leading.h"
#include "nn/rowwise/token_rows.h"

namespace rapt::nn {
namespace {

int64_t* integers_in(const TensorView& view) { return static_cast<int64_t*>(view.data); }

// Rejects caches that were changed layer by layer: positions would be wrong in some of them.
void check_lengths(const DecodingCache& cache) {
  for (size_t i = 1; i < cache.layers.size(); ++i)
    for (int64_t b = 0; b < cache.batch; ++b)
      if (cache.layers[i].length(b) != cache.length(b))
        throw Error(ErrorCode::argument, "layer " + std::to_string(i) + " of the cache holds " +
                                             std::to_string(cache.layers[i].length(b)) +
                                             " tokens of sequence " + std::to_string(b) +
                                             ", layer 0 " + std::to_string(cache.length(b)) +
                                             "; expected as many in all layers");
}

void check_decoding(const LanguageModel& model, const TensorView& tokens,
                    const DecodingCache& cache, const TensorView& logits) {
  if (cache.layers.size() != model.layers.size())
    throw Error(ErrorCode::argument, "the cache has " + std::to_string(cache.layers.size()) +
                                         " layers; the model has " +
                                         std::to_string(model.layers.size()));
  check_lengths(cache);
  const int64_t batch = cache.batch, n = tokens.rank == 2 ? tokens.shape[1] : 0;
  const int64_t token_shape[] = {batch, n};
  if (n < 1)
    throw Error(ErrorCode::shape,
                "tokens " + to_string(tokens.dims()) + "; expected [batch, 1 or more]");
  check_tokens("tokens", tokens, token_shape, model.spec.vocabulary);
  const int64_t all[] = {batch, n, model.spec.vocabulary}, last[] = {batch, model.spec.vocabulary};
  check_output("logits", logits, logits.rank == 3 ? Shape(all) : Shape(last), model.dtype());
  for (int64_t b = 0; b < batch; ++b)
    if (const int64_t length = cache.length(b); length > cache.capacity - n)
      throw Error(ErrorCode::argument, "sequence " + std::to_string(b) + " has " +
                                           std::to_string(length) + " tokens and gets " +
                                           std::to_string(n) + " more; the cache has room for " +
                                           std::to_string(cache.capacity));
}

void check_weights(const LanguageModel& model, const DecodingCache& cache,
                   const DecodingWeights& request, bool counts) {
  if (!request.weights.defined()) return;
  const struct {
    const char* name;
    int64_t value, count;
  } indices[] = {{"layer", request.layer, std::ssize(model.layers)},
                 {"head", request.head, model.spec.heads}};
  for (const auto& [name, value, count] : indices)
    if (value < 0 || value >= count)
      throw Error(ErrorCode::argument, std::string(name) + " " + std::to_string(value) +
                                           " of the weights; expected 0 to " +
                                           std::to_string(count - 1));
  if (counts) return;
  const int64_t shape[] = {cache.batch, cache.capacity};
  check_output("weights", request.weights, shape, computed_type(model.dtype()));
}

// The lengths of sequences before a call [batch], and the positions of its tokens [batch, n].
struct DecodingPlaces {
  TensorView lengths, positions;

  DecodingPlaces(const DecodingCache& cache, int64_t n, const Run& run)
      : lengths(run.scratch.take(DType::i64, {cache.batch})),
        positions(run.scratch.take(DType::i64, {cache.batch, n})) {
    if (run.counts()) return;
    for (int64_t b = 0; b < cache.batch; ++b) {
      const int64_t before = cache.length(b);
      integers_in(lengths)[b] = before;
      for (int64_t i = 0; i < n; ++i) integers_in(positions)[b * n + i] = before + i;
    }
  }
};

// Takes back what a call has appended, unless keep() says that the call has succeeded. A call that
// counts appends nothing.
class AppendedTokens {
 public:
  AppendedTokens(DecodingCache& cache, const TensorView& lengths, const Run& run)
      : cache_(cache), lengths_(lengths), kept_(run.counts()) {}
  AppendedTokens(const AppendedTokens&) = delete;
  AppendedTokens& operator=(const AppendedTokens&) = delete;
  ~AppendedTokens() {
    if (kept_) return;
    // Lengths that all layers had (check_decoding): truncate() finds nothing to reject.
    for (KeyValueCache& layer : cache_.layers)
      for (int64_t b = 0; b < cache_.batch; ++b) layer.truncate(b, integers_in(lengths_)[b]);
  }

  void keep() noexcept { kept_ = true; }

 private:
  DecodingCache& cache_;
  TensorView lengths_;  // before the call
  bool kept_;
};

// The caches of a call that only counts its workspace: full, because a full cache needs the most
// workspace, and without memory.
CacheViews counted_views(const LanguageModel& model, const DecodingCache& cache) {
  const int64_t shape[] = {cache.batch, model.spec.kv_heads, cache.capacity, model.spec.head_dim};
  const int64_t lengths[] = {cache.batch}, step[] = {0};
  CacheViews views;
  views.key = views.value = {nullptr, model.dtype(), shape, true};
  views.cache.lengths = {const_cast<int64_t*>(&cache.capacity), DType::i64, lengths, step, true};
  return views;
}

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

// The last row of each sequence [batch, n, features], as [batch, features].
TensorView last_rows(const TensorView& x, const Run& run) {
  const int64_t batch = x.shape[0], n = x.shape[1], features = x.shape[2];
  const TensorView last = run.scratch.take(x.dtype, {batch, features});
  if (run.counts()) return last;
  const auto bytes = static_cast<size_t>(features * size_of(x.dtype));
  for (int64_t b = 0; b < batch; ++b)
    std::memcpy(
        static_cast<std::byte*>(last.data) + static_cast<size_t>(b) * bytes,
        static_cast<const std::byte*>(x.data) + static_cast<size_t>((b + 1) * n - 1) * bytes,
        bytes);
  return last;
}

}  // namespace

void DecodingCache::truncate(int64_t sequence, int64_t length) {
  for (KeyValueCache& layer : layers) layer.truncate(sequence, length);
}

void DecodingCache::clear() noexcept {
  for (KeyValueCache& layer : layers) layer.clear();
}

DecodingCache make_decoding_cache(const LanguageModel& model, int64_t batch, int64_t capacity,
                                  Arena& arena) {
  const bool learned = model.positions.weight.defined();
  if (batch < 1 || capacity < 1 || (learned && capacity > model.spec.context))
    throw Error(ErrorCode::argument,
                "a cache of " + std::to_string(batch) + " sequences of " +
                    std::to_string(capacity) + " tokens; expected 1 or more, and a capacity of 1 " +
                    (learned ? "to " + std::to_string(model.spec.context) : "or more"));
  const LanguageModelSpec& spec = model.spec;
  DecodingCache cache;
  cache.batch = batch, cache.capacity = capacity;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const int64_t shape[] = {batch, spec.kv_heads, capacity, spec.head_dim};
    const TensorView keys = arena.take(model.dtype(), shape);
    const TensorView values = arena.take(model.dtype(), shape);
    if (!arena.counts())
      cache.layers.emplace_back(KeyValueCacheOptions{.sequences = batch,
                                                     .num_kv_heads = spec.kv_heads,
                                                     .capacity = capacity,
                                                     .head_dim = spec.head_dim,
                                                     .dtype = model.dtype()},
                                keys, values);
  }
  return cache;
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
  check_weights(model, cache, weights, run.counts());
  if (!run.counts()) check_decoding(model, tokens, cache, logits);
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
                  .views = rows ? rows->views() : counted_views(model, cache),
                  .positions = places.positions},
                 wanted ? HeadWeights{weights.head, weights.weights} : HeadWeights{}, run);
  }
  const TensorView rows = logits.rank == 3 ? x : last_rows(x, run);
  forward(model.norm, rows, rows, make_state(model.norm, rows.dims(), rows.dtype, run.scratch),
          run);
  compute_logits(model, rows, logits, run);
  appended.keep();
}

}  // namespace rapt::nn
