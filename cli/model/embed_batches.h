#pragma once
// Vectors of texts, in batches of texts of similar lengths. Threads compute batches of their own.
#include <cstdint>
#include <vector>

#include "cli/model/encoder_folder.h"
#include "rapt/context.h"
#include "rapt/model/pooling.h"

namespace rapt::cli {

// [texts, features]. The bits do not depend on the batches. Throws Error as model::encode().
Tensor embed_texts(const EncoderFolder& folder, const model::Pooling& pooling,
                   const std::vector<text::Encoding>& encodings, const Context& context);

// The bytes of the temporaries of embed_texts(), for texts of at most `longest` tokens and `tokens`
// in all.
double batch_bytes(const model::EncoderSpec& spec, double tokens, int64_t longest,
                   const Context& context);

}  // namespace rapt::cli
