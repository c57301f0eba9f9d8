// rapt model info: what a folder holds.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/model/encoder_folder.h"
#include "cli/model/model_actions.h"
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

}  // namespace

void run_model_info(const ModelArguments& a) {
  const EncoderFolder folder = open_encoder(a.folder);
  const model::EncoderSpec& spec = folder.encoder.spec;
  const WeightTotals totals = totals_of(folder.encoder);
  const model::Pooling pooling = model::load_pooling(a.folder);
  const char* const family = model::kEncoderFamilyNames[static_cast<int>(spec.family)];
  const char* const mode = model::kPoolingNames[static_cast<int>(pooling.mode)];
  if (a.json)
    return print_json({{"schema", "rapt.model_info/1"},
                       {"build", build_info()},
                       {"family", family},
                       {"vocabulary", spec.vocabulary},
                       {"tokens", folder.tokenizer.vocabulary()},
                       {"positions", spec.longest()},
                       {"layers", spec.layers},
                       {"heads", spec.heads},
                       {"features", spec.features},
                       {"hidden_features", spec.hidden_features},
                       {"parameters", totals.parameters},
                       {"mapped_bytes", totals.mapped},
                       {"copied_bytes", totals.copied},
                       {"pooling", mode},
                       {"normalize", pooling.normalize}});
  std::printf("family      %s\n", family);
  std::printf("sizes       %lld layers, %lld heads of %lld, %lld features, %lld hidden\n",
              static_cast<long long>(spec.layers), static_cast<long long>(spec.heads),
              static_cast<long long>(spec.head_dim()), static_cast<long long>(spec.features),
              static_cast<long long>(spec.hidden_features));
  std::printf("texts       up to %lld tokens of %lld\n", static_cast<long long>(spec.longest()),
              static_cast<long long>(spec.vocabulary));
  std::printf("parameters  %lld\n", static_cast<long long>(totals.parameters));
  std::printf("memory      %s mapped, %s copied\n",
              bytes_text(static_cast<double>(totals.mapped)).c_str(),
              bytes_text(static_cast<double>(totals.copied)).c_str());
  std::printf("embedding   %s%s\n", mode, pooling.normalize ? ", of length 1" : "");
  finish_stdout();
}

}  // namespace rapt::cli
