#include "nn/models/decoding_call.h"

#include <cstring>
#include <string>

#include "nn/dense.h"
#include "nn/leading.h"
#include "nn/rowwise/token_rows.h"
#include "nn/training/convert.h"

namespace rapt::nn {
namespace {

int64_t* integers_in(const TensorView& view) { return static_cast<int64_t*>(view.data); }

}  // namespace

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

void check_decoding(const DecodingSizes& sizes, const TensorView& tokens,
                    const DecodingCache& cache, const TensorView& logits) {
  if (std::ssize(cache.layers) != sizes.layers)
    throw Error(ErrorCode::argument, "the cache has " + std::to_string(cache.layers.size()) +
                                         " layers; the model has " + std::to_string(sizes.layers));
  check_lengths(cache);
  const int64_t batch = cache.batch, n = tokens.rank == 2 ? tokens.shape[1] : 0;
  const int64_t token_shape[] = {batch, n};
  if (n < 1)
    throw Error(ErrorCode::shape,
                "tokens " + to_string(tokens.dims()) + "; expected [batch, 1 or more]");
  check_tokens("tokens", tokens, token_shape, sizes.vocabulary);
  const int64_t all[] = {batch, n, sizes.vocabulary}, last[] = {batch, sizes.vocabulary};
  check_output("logits", logits, logits.rank == 3 ? Shape(all) : Shape(last), sizes.dtype);
  for (int64_t b = 0; b < batch; ++b)
    if (const int64_t length = cache.length(b); length > cache.capacity - n)
      throw Error(ErrorCode::argument, "sequence " + std::to_string(b) + " has " +
                                           std::to_string(length) + " tokens and gets " +
                                           std::to_string(n) + " more; the cache has room for " +
                                           std::to_string(cache.capacity));
}

void check_weights(const DecodingSizes& sizes, const DecodingCache& cache,
                   const DecodingWeights& request, bool counts) {
  if (!request.weights.defined()) return;
  const struct {
    const char* name;
    int64_t value, count;
  } indices[] = {{"layer", request.layer, sizes.layers}, {"head", request.head, sizes.heads}};
  for (const auto& [name, value, count] : indices)
    if (value < 0 || value >= count)
      throw Error(ErrorCode::argument, std::string(name) + " " + std::to_string(value) +
                                           " of the weights; expected 0 to " +
                                           std::to_string(count - 1));
  if (counts) return;
  const int64_t shape[] = {cache.batch, cache.capacity};
  check_output("weights", request.weights, shape, computed_type(sizes.dtype));
}

DecodingPlaces::DecodingPlaces(const DecodingCache& cache, int64_t n, const Run& run)
    : lengths(run.scratch.take(DType::i64, {cache.batch})),
      positions(run.scratch.take(DType::i64, {cache.batch, n})) {
  if (run.counts()) return;
  for (int64_t b = 0; b < cache.batch; ++b) {
    const int64_t before = cache.length(b);
    integers_in(lengths)[b] = before;
    for (int64_t i = 0; i < n; ++i) integers_in(positions)[b * n + i] = before + i;
  }
}

AppendedTokens::~AppendedTokens() {
  if (kept_) return;
  // Lengths that all layers had (check_decoding): truncate() finds nothing to reject.
  for (KeyValueCache& layer : cache_.layers)
    for (int64_t b = 0; b < cache_.batch; ++b) layer.truncate(b, integers_in(lengths_)[b]);
}

CacheViews counted_views(const DecodingSizes& sizes, const DecodingCache& cache) {
  const int64_t shape[] = {cache.batch, sizes.kv_heads, cache.capacity, sizes.head_dim};
  const int64_t lengths[] = {cache.batch}, step[] = {0};
  CacheViews views;
  views.key = views.value = {nullptr, cache.dtype, shape, true};
  views.cache.lengths = {const_cast<int64_t*>(&cache.capacity), DType::i64, lengths, step, true};
  return views;
}

TensorView rounded_rows(const TensorView& rows, DType dtype, const Run& run) {
  const TensorView rounded = run.scratch.take(dtype, rows.dims());
  if (!run.counts()) convert(rows, rounded);
  return rounded;
}

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

}  // namespace rapt::nn
