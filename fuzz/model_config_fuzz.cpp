// config.json of language models from any bytes. A config that is accepted has the sizes of a
// model.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rapt/checkpoint/model_config.h"

using namespace rapt;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const nn::LanguageModelSpec spec =
        checkpoint::read_model_config({reinterpret_cast<const char*>(data), size}, "fuzz");
    require(spec.vocabulary > 0 && spec.context > 0 && spec.layers > 0 && spec.heads > 0);
    require(spec.features > 0 && spec.activation.has_value());
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported);
  }
  return 0;
}
