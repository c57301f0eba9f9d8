// A decoder beside a cache of keys and values.
#include <algorithm>

#include "model/decoder_call.h"
#include "nn/models/decoding_call.h"

namespace rapt::model {
namespace {

// Heads that attend to the keys of a cache, to which their own are appended. A cache of 16-bit
// numbers takes rounded rows, with which rounded queries are multiplied; sums and outputs are f32.
class CachedHeads final : public HeadAttention {
 public:
  CachedHeads(const nn::DecodingSizes& sizes, nn::DecodingCache& cache,
              const nn::DecodingWeights& weights, const nn::Run& run)
      : sizes_(sizes), cache_(cache), weights_(weights), run_(run) {}

  void attend(int64_t layer, const HeadRows& computed, const AttentionOptions& given) override {
    const nn::Arena::Frame frame(run_.scratch);
    const HeadRows rows = as_kept(computed);
    AttentionOptions options = given;
    options.output_dtype = DType::f32;
    KeyValueCache* const kept =
        run_.counts() ? nullptr : &cache_.layers[static_cast<size_t>(layer)];
    const CacheViews views = kept ? kept->views() : counted_views(sizes_, cache_);
    options.cache = views.cache;
    options.invariant = cache_.invariant;
    if (kept) {
      kept->append(rows.key, rows.value);
      scaled_dot_product_attention(rows.query, views.key, views.value, options,
                                   {.state = {rows.output, {}}}, run_.scratch.rest(), run_.context);
    } else {
      run_.scratch.need(workspace_bytes(rows.query, views.key, views.value, options, run_.context));
    }
    if (weights_.weights.defined() && weights_.layer == layer)
      write_weights(rows.query, views, options);
  }

 private:
  HeadRows as_kept(const HeadRows& rows) const {
    if (cache_.dtype == DType::f32) return rows;
    return {rounded(rows.query), rounded(rows.key), rounded(rows.value), rows.output};
  }

  TensorView rounded(const TensorView& rows) const {
    return rounded_rows(rows, cache_.dtype, run_);
  }

  // Of the last new token of each sequence: a call of its own, over the keys of the sequence.
  void write_weights(const TensorView& query, const CacheViews& views, AttentionOptions options) {
    const nn::Arena::Frame frame(run_.scratch);
    const int64_t n = query.shape[2];
    const TensorView output = run_.scratch.take(DType::f32, {1, sizes_.heads, 1, sizes_.head_dim});
    const int64_t heads[] = {weights_.head};
    options.weights = WeightsRequest{.heads = heads};
    for (int64_t s = 0; s < query.shape[0]; ++s) {
      options.cache = {.lengths = views.cache.lengths.slice(0, s, s + 1)};
      const TensorView last = query.slice(0, s, s + 1).slice(2, n - 1, n);
      const TensorView key = views.key.slice(0, s, s + 1), value = views.value.slice(0, s, s + 1);
      if (run_.counts())  // all sequences need the same
        return run_.scratch.need(workspace_bytes(last, key, value, options, run_.context));
      const int64_t shape[] = {1, 1, weights_.weights.shape[1]};
      const TensorView row(weights_.weights.slice(0, s, s + 1).data, DType::f32, shape, false);
      scaled_dot_product_attention(last, key, value, options,
                                   {.state = {output, {}}, .weights = row}, run_.scratch.rest(),
                                   run_.context);
    }
  }

  const nn::DecodingSizes& sizes_;
  nn::DecodingCache& cache_;
  const nn::DecodingWeights& weights_;
  const nn::Run& run_;
};

}  // namespace

nn::DecodingSizes DecoderModel::sizes() const { return decoder_sizes(spec, computed); }

nn::DecodingSizes decoder_sizes(const DecoderSpec& spec, DType computed) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  // x and a norm of it, and the wider of attention and network (DecoderCall).
  const double features = number(spec.features), hidden = number(spec.hidden_features);
  const double attention = 2 * number(spec.head_dim) * number(spec.heads + spec.kv_heads);
  const double network = (spec.is_gpt2() ? 1 : 2) * hidden;
  // Rows in bf16: two norms, and the widest of a product.
  const double rounded = computed == DType::bf16 ? features + std::max(attention, hidden) / 2 : 0;
  return {.layers = spec.layers,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .vocabulary = spec.vocabulary,
          .context = spec.context,
          .limits_capacity = true,
          .rounds_cache = true,
          .row_elements =
              (spec.norms_behind ? 3 : 2) * features + std::max(attention, network) + rounded};
}

void DecoderModel::decode(const TensorView& new_tokens, nn::DecodingCache& cache,
                          const TensorView& logits, const nn::Run& given,
                          const nn::DecodingWeights& weights) const {
  const nn::Run run{.scratch = given.scratch, .context = given.context};  // without dropout
  const nn::DecodingSizes own = sizes();
  check_weights(own, cache, weights, run.counts());
  if (!run.counts()) check_decoding(own, new_tokens, cache, logits);
  const nn::Arena::Frame frame(run.scratch);
  const int64_t batch = new_tokens.shape[0], n = new_tokens.shape[1];
  const nn::DecodingPlaces new_places(cache, n, run);
  nn::AppendedTokens appended(cache, new_places.lengths, run);
  const DecoderCall call(*this, new_places.positions, run);
  CachedHeads attention(own, cache, weights, run);
  const TensorView x = run.scratch.take(DType::f32, {batch, n, spec.features});
  call.embed(new_tokens, x);
  call.run_blocks(x, attention);
  const TensorView rows = logits.rank == 3 ? x : last_rows(x, run);
  call.finish(rows);
  call.compute_logits(rows, logits);
  appended.keep();
}

}  // namespace rapt::model
