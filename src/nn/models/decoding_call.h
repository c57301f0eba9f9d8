#pragma once
// What calls that continue texts do beside their layers: the checks, the places of new tokens, and
// what a call that fails takes back.
#include "rapt/nn/decoding.h"

namespace rapt::nn {

// Rejects caches that were changed layer by layer: positions would be wrong in some of them. Throws
// Error(argument).
void check_lengths(const DecodingCache& cache);

// Throws Error(argument, shape, dtype) for tokens, logits or a cache that do not fit the model or
// each other.
void check_decoding(const DecodingSizes& sizes, const TensorView& tokens,
                    const DecodingCache& cache, const TensorView& logits);

// Throws Error(argument, shape, dtype) for weights that the model does not have.
void check_weights(const DecodingSizes& sizes, const DecodingCache& cache,
                   const DecodingWeights& request, bool counts);

// The lengths of sequences before a call [batch], and the positions of its tokens [batch, n].
struct DecodingPlaces {
  TensorView lengths, positions;

  // Takes both from the scratch of the call.
  DecodingPlaces(const DecodingCache& cache, int64_t n, const Run& run);
};

// Takes back what a call has appended, unless keep() says that the call has succeeded. A call that
// counts appends nothing.
class AppendedTokens {
 public:
  // `lengths`: those before the call, which must outlive the object.
  AppendedTokens(DecodingCache& cache, const TensorView& lengths, const Run& run)
      : cache_(cache), lengths_(lengths), kept_(run.counts()) {}
  AppendedTokens(const AppendedTokens&) = delete;
  AppendedTokens& operator=(const AppendedTokens&) = delete;
  ~AppendedTokens();

  void keep() noexcept { kept_ = true; }

 private:
  DecodingCache& cache_;
  TensorView lengths_;
  bool kept_;
};

// The caches of a call that only counts its workspace: full, because a full cache needs the most
// workspace, and without memory.
CacheViews counted_views(const DecodingSizes& sizes, const DecodingCache& cache);

// Rows of f32 rounded to a 16-bit type.
TensorView rounded_rows(const TensorView& rows, DType dtype, const Run& run);

// The last row of each sequence [batch, n, features], as [batch, features].
TensorView last_rows(const TensorView& x, const Run& run);

}  // namespace rapt::nn
