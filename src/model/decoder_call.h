#pragma once
// The layers of a decoder over rows of new tokens. How heads attend, to a cache or to each other,
// is the caller's.
#include "rapt/model/decoder_model.h"
#include "rapt/nn/run.h"

namespace rapt::model {

// Queries and outputs [batch, heads, n, head_dim], keys and values [batch, kv_heads, n, head_dim]
// of one layer, rotated.
struct HeadRows {
  TensorView query, key, value, output;
};

// Computes `output` of the rows of a layer. `options`: masks, scores and scale.
class HeadAttention {
 public:
  virtual ~HeadAttention() = default;
  virtual void attend(int64_t layer, const HeadRows& rows, const AttentionOptions& options) = 0;
};

class DecoderCall {
 public:
  // `positions` [batch, n] i64: of the new tokens. All must outlive the call.
  DecoderCall(const DecoderModel& model, const TensorView& positions, const nn::Run& run)
      : model_(model), positions_(positions), run_(run) {}

  // x [batch, n, features]: the rows of checked tokens [batch, n].
  void embed(const TensorView& tokens, const TensorView& x) const;
  // x = block(x), for all blocks.
  void run_blocks(const TensorView& x, HeadAttention& attention) const;
  // The last norm, in place.
  void finish(const TensorView& x) const { normalize(model_.norm, x, x); }
  // logits [..., vocabulary] of finished rows [..., features].
  void compute_logits(const TensorView& rows, const TensorView& logits) const;

 private:
  void attend(int64_t layer, const TensorView& normed, const TensorView& x,
              HeadAttention& attention) const;
  void run_network(const DecoderBlock& block, const TensorView& normed, const TensorView& x) const;
  void normalize(const nn::Norm& norm, const TensorView& x, const TensorView& y) const;
  void normalize_heads(const std::optional<nn::Norm>& norm, const TensorView& rows) const;
  void rotate(const TensorView& heads) const;
  // Rows as products take them: themselves, or rounded to DecoderModel::computed.
  TensorView as_multiplied(const TensorView& x) const;
  void multiply_by(const StoredLinear& linear, const TensorView& x, const TensorView& y,
                   ProductOptions options = {}) const;
  // x += norm(rows weight^T + bias), without a norm where there is none.
  void add_result(const StoredLinear& linear, const std::optional<nn::Norm>& norm,
                  const TensorView& rows, const TensorView& x) const;

  const DecoderModel& model_;
  const TensorView& positions_;
  const nn::Run& run_;
};

}  // namespace rapt::model
