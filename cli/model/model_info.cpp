// rapt model info: what a folder holds.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/model/encoder_folder.h"
#include "cli/model/model_actions.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "cli/tokenize/text_argument.h"
#include "rapt/model/decoder_model.h"
#include "rapt/model/pooling.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

// Of an encoder or a decoder.
struct ModelFacts {
  const char* family;
  int64_t vocabulary, positions, layers, heads, kv_heads, head_dim, features, hidden_features;
  std::vector<std::string> ignored_keys;
  int64_t parameters = 0, mapped = 0, copied = 0;  // the latter in bytes
  int64_t text_bytes = 0;  // what a text of all positions takes beside the weights
  std::optional<model::Pooling> pooling = {};  // of an encoder
};

// Sizes of a config may be too large for 64 bits.
int64_t whole_bytes(double bytes) {
  return bytes < 0x1p63 ? static_cast<int64_t>(bytes) : INT64_MAX;
}

ModelFacts encoder_facts(const std::string& folder) {
  const model::EncoderModel encoder = model::load_encoder(folder);
  const model::EncoderSpec& spec = encoder.spec;
  ModelFacts facts{.family = model::kEncoderFamilyNames[static_cast<int>(spec.family)],
                   .vocabulary = spec.vocabulary,
                   .positions = spec.longest(),
                   .layers = spec.layers,
                   .heads = spec.heads,
                   .kv_heads = spec.heads,
                   .head_dim = spec.head_dim(),
                   .features = spec.features,
                   .hidden_features = spec.hidden_features,
                   .ignored_keys = spec.ignored_keys,
                   .text_bytes = whole_bytes(4 * static_cast<double>(spec.longest()) *
                                             encoder_row_elements(spec)),
                   .pooling = model::load_pooling(folder)};
  for (const LoadedTensor& tensor : encoder.loaded) {
    const int64_t count = tensor.view().count();
    facts.parameters += count;
    (tensor.mapped() ? facts.mapped : facts.copied) += count * size_of(tensor.view().dtype);
  }
  return facts;
}

ModelFacts decoder_facts(const std::string& folder) {
  const model::DecoderInfo info = model::load_decoder_info(folder);
  const model::DecoderSpec& spec = info.spec;
  return {.family = model::kDecoderFamilyNames[static_cast<int>(spec.family)],
          .vocabulary = spec.vocabulary,
          .positions = spec.context,
          .layers = spec.layers,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .features = spec.features,
          .hidden_features = spec.hidden_features,
          .ignored_keys = spec.ignored_keys,
          .parameters = info.parameters,
          .mapped = info.mapped_bytes,
          .copied = info.copied_bytes,
          // A cache of keys and values in f32.
          .text_bytes = whole_bytes(4 * 2 * static_cast<double>(spec.context) *
                                    static_cast<double>(spec.layers) *
                                    static_cast<double>(spec.kv_heads * spec.head_dim))};
}

nlohmann::ordered_json info_document(const ModelFacts& facts, const text::Tokenizer& tokenizer) {
  nlohmann::ordered_json document = {{"schema", "rapt.model_info/1"},
                                     {"build", build_info()},
                                     {"family", facts.family},
                                     {"vocabulary", facts.vocabulary},
                                     {"tokens", tokenizer.vocabulary()}};
  document["tokenizer"] = text::kTokenizerKindNames[static_cast<int>(tokenizer.kind())];
  document["positions"] = facts.positions;
  document["layers"] = facts.layers;
  document["heads"] = facts.heads;
  document["kv_heads"] = facts.kv_heads;
  document["head_dim"] = facts.head_dim;
  document["features"] = facts.features;
  document["hidden_features"] = facts.hidden_features;
  document["parameters"] = facts.parameters;
  document["mapped_bytes"] = facts.mapped;
  document["copied_bytes"] = facts.copied;
  document["text_bytes"] = facts.text_bytes;
  document["pooling"] = nullptr;
  document["normalize"] = nullptr;
  if (facts.pooling) {
    document["pooling"] = model::kPoolingNames[static_cast<int>(facts.pooling->mode)];
    document["normalize"] = facts.pooling->normalize;
  }
  document["ignored_keys"] = facts.ignored_keys;
  return document;
}

void print_info(const ModelFacts& facts, const text::Tokenizer& tokenizer) {
  const auto line = [](const char* name, const std::string& text) {
    std::printf("%-11s %s\n", name, text.c_str());
  };
  const auto bytes = [](int64_t count) { return bytes_text(static_cast<double>(count)); };
  line("family", facts.family);
  line("sizes", fmt::format("{} layers, {} heads of {}{}, {} features, {} hidden", facts.layers,
                            facts.heads, facts.head_dim,
                            facts.kv_heads == facts.heads
                                ? ""
                                : fmt::format(" that share {} of keys", facts.kv_heads),
                            facts.features, facts.hidden_features));
  line("texts", fmt::format("up to {} tokens of {}", facts.positions, facts.vocabulary));
  line("tokenizer",
       fmt::format("{} of {} tokens", text::kTokenizerKindNames[static_cast<int>(tokenizer.kind())],
                   tokenizer.vocabulary()));
  line("parameters", std::to_string(facts.parameters));
  line("memory",
       fmt::format("{} mapped, {} copied, {} for {} {} tokens", bytes(facts.mapped),
                   bytes(facts.copied), bytes(facts.text_bytes),
                   facts.pooling ? "a text of" : "the keys and values of", facts.positions));
  if (facts.pooling)
    line("embedding",
         fmt::format("{}{}", model::kPoolingNames[static_cast<int>(facts.pooling->mode)],
                     facts.pooling->normalize ? ", of length 1" : ""));
  std::string keys;
  for (const std::string& key : facts.ignored_keys)
    keys += (keys.empty() ? "" : ", ") + printable(key);
  if (!keys.empty()) line("not read", keys + " of config.json");
}

}  // namespace

void run_model_info(const ModelArguments& a) {
  check_model_folder(a.folder);
  const text::Tokenizer tokenizer = tokenizer_at(a.folder);
  const ModelFacts facts =
      model::is_decoder_folder(a.folder) ? decoder_facts(a.folder) : encoder_facts(a.folder);
  check_token_count(a.folder, tokenizer.vocabulary(), facts.vocabulary);
  if (a.json) return print_json(info_document(facts, tokenizer));
  print_info(facts, tokenizer);
  finish_stdout();
}

}  // namespace rapt::cli
