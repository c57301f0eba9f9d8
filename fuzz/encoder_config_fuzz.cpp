// config.json of an encoder, and the files that say how texts become vectors, from any bytes: five
// files with a zero byte between them. What is accepted has the sizes of a model.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "largest_allocation.h"
#include "rapt/error.h"
#include "rapt/model/encoder_model.h"
#include "rapt/model/pooling.h"

using namespace rapt;

namespace {

// A value in an array has 16 bytes and at least 2 of text, in a list with up to twice the room that
// it needs; a class has 32 and at least 3 of text.
constexpr size_t kBytesPerByte = 22, kBytesBeyond = 8192;

void require(bool condition) {
  if (!condition) std::abort();
}

// Behind config.json. The last is that of any module.
constexpr std::string_view kFiles[] = {"modules.json", "sentence_bert_config.json",
                                       "config_sentence_transformers.json", "/config.json"};

void read_config(std::string_view text) {
  const model::EncoderSpec spec = model::read_encoder_spec(text, "fuzz");
  require(spec.vocabulary > 0 && spec.layers > 0 && spec.heads > 0 && spec.hidden_features > 0);
  require(spec.features % spec.heads == 0 && spec.longest() > 0 && spec.norm_epsilon >= 0);
}

void read_others(std::string_view texts) {
  const auto file = [&](const std::string& path) -> std::optional<std::string> {
    std::string_view rest = texts;
    for (const std::string_view name : kFiles) {
      const size_t end = std::min(rest.find('\0'), rest.size());
      if (path.ends_with(name) && end > 0) return std::string(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return std::nullopt;
  };
  require(model::read_pooling(file, "fuzz").longest >= 0);
}

template <class Read>
void expect_errors_alone(const Read& read) {
  try {
    read();
  } catch (const Error& e) {
    require(e.code() == ErrorCode::format || e.code() == ErrorCode::unsupported ||
            e.code() == ErrorCode::io);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  fuzz::begin_watching();
  const size_t config = std::min(given.find('\0'), size);
  expect_errors_alone([&] { read_config(given.substr(0, config)); });
  expect_errors_alone([&] { read_others(given.substr(std::min(config + 1, size))); });
  require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
  return 0;
}
