// rapt model info: what a folder holds.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/model/encoder_folder.h"
#include "cli/model/model_actions.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/memory.h"
#include "rapt/model/pooling.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

struct WeightTotals {
  int64_t parameters = 0, mapped = 0, copied = 0;  // the latter in bytes
};

WeightTotals totals_of(const model::EncoderModel& encoder) {
  WeightTotals totals;
  for (const LoadedTensor& tensor : encoder.loaded) {
    const int64_t count = tensor.view().count();
    totals.parameters += count;
    (tensor.mapped() ? totals.mapped : totals.copied) += count * size_of(tensor.view().dtype);
  }
  return totals;
}

// What a call takes beside the weights for one text of the greatest length: rows of all parts of a
// block, and the result.
int64_t text_bytes(const model::EncoderSpec& spec) {
  return 4 * spec.longest() * (5 * spec.features + spec.hidden_features);
}

std::string joined(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + printable(key);
  return text;
}

}  // namespace

void run_model_info(const ModelArguments& a) {
  const EncoderFolder folder = open_encoder(a.folder);
  const model::EncoderSpec& spec = folder.encoder.spec;
  const WeightTotals totals = totals_of(folder.encoder);
  const model::Pooling pooling = model::load_pooling(a.folder);
  const char* const family = model::kEncoderFamilyNames[static_cast<int>(spec.family)];
  const char* const mode = model::kPoolingNames[static_cast<int>(pooling.mode)];
  const char* const tokenizer =
      text::kTokenizerKindNames[static_cast<int>(folder.tokenizer.kind())];
  if (a.json)
    return print_json({{"schema", "rapt.model_info/1"},
                       {"build", build_info()},
                       {"family", family},
                       {"vocabulary", spec.vocabulary},
                       {"tokens", folder.tokenizer.vocabulary()},
                       {"tokenizer", tokenizer},
                       {"positions", spec.longest()},
                       {"layers", spec.layers},
                       {"heads", spec.heads},
                       {"features", spec.features},
                       {"hidden_features", spec.hidden_features},
                       {"parameters", totals.parameters},
                       {"mapped_bytes", totals.mapped},
                       {"copied_bytes", totals.copied},
                       {"text_bytes", text_bytes(spec)},
                       {"pooling", mode},
                       {"normalize", pooling.normalize},
                       {"ignored_keys", spec.ignored_keys}});
  std::printf("family      %s\n", family);
  std::printf("sizes       %lld layers, %lld heads of %lld, %lld features, %lld hidden\n",
              static_cast<long long>(spec.layers), static_cast<long long>(spec.heads),
              static_cast<long long>(spec.head_dim()), static_cast<long long>(spec.features),
              static_cast<long long>(spec.hidden_features));
  std::printf("texts       up to %lld tokens of %lld\n", static_cast<long long>(spec.longest()),
              static_cast<long long>(spec.vocabulary));
  std::printf("tokenizer   %s of %lld tokens\n", tokenizer,
              static_cast<long long>(folder.tokenizer.vocabulary()));
  std::printf("parameters  %lld\n", static_cast<long long>(totals.parameters));
  std::printf("memory      %s mapped, %s copied, %s for a text of %lld tokens\n",
              bytes_text(static_cast<double>(totals.mapped)).c_str(),
              bytes_text(static_cast<double>(totals.copied)).c_str(),
              bytes_text(static_cast<double>(text_bytes(spec))).c_str(),
              static_cast<long long>(spec.longest()));
  std::printf("embedding   %s%s\n", mode, pooling.normalize ? ", of length 1" : "");
  if (!spec.ignored_keys.empty())
    std::printf("not read    %s of config.json\n", joined(spec.ignored_keys).c_str());
  finish_stdout();
}

}  // namespace rapt::cli
