#pragma once
// The attention of a layer whose weights somebody looks at.
#include "rapt/model/encoder_model.h"

namespace rapt::model {

// Does the caller look at this layer?
bool is_captured(const EncoderCaptures& captures, int64_t layer);

// All [heads, tokens, head_dim].
struct HeadViews {
  TensorView query, key, value, output;
};

// Computes the output with captures, which on_layer() is given. Allocates what is captured.
void attend_captured(const HeadViews& heads, int64_t layer, AttentionOptions options,
                     const EncoderCaptures& captures, const Context& context);

}  // namespace rapt::model
