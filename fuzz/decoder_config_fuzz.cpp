// config.json of a decoder from any bytes. What is accepted has the sizes of a model.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "largest_allocation.h"
#include "rapt/error.h"
#include "rapt/model/decoder_model.h"

using namespace rapt;

namespace {

// A value in an array has 16 bytes and at least 2 of text, in a list with up to twice the room that
// it needs; a type of a layer has 32 and at least 3 of text. Each layer has a window of 8 bytes.
constexpr size_t kBytesPerByte = 22, kBytesBeyond = 8 * model::kMostDecoderLayers + 8192;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_spec(const model::DecoderSpec& spec) {
  for (const int64_t size : {spec.vocabulary, spec.context, spec.layers, spec.heads, spec.features,
                             spec.kv_heads, spec.head_dim, spec.hidden_features})
    require(size > 0 && size <= model::kMostDecoderSize);
  require(spec.layers <= model::kMostDecoderLayers && spec.heads % spec.kv_heads == 0);
  require(std::ssize(spec.windows) == spec.layers);
  require(std::ranges::all_of(spec.windows, [](int64_t window) { return window >= 0; }));
  require(spec.norm_epsilon >= 0 && spec.score_cap >= 0 && spec.logit_cap >= 0);
  require(std::isfinite(model::decoder_sizes(spec).row_elements));
  if (!spec.is_gpt2()) rotary_frequencies(spec.rotary, 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  fuzz::begin_watching();
  try {
    check_spec(model::read_decoder_spec(given, "fuzz"));
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported);
  }
  require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
  return 0;
}
