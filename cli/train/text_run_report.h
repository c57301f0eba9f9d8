#pragma once
// The document of `rapt train FILE --json`; schema: docs/json.md.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/train/training_texts.h"
#include "rapt/training/trainer.h"

namespace rapt::cli {

struct TextRunReport {
  std::string folder;
  std::optional<int64_t> resumed_step;
  std::vector<training::EvaluationRecord> evaluations;  // of this process
  double seconds = 0;                                   // of training, without reading and probing
  double tokens_per_second = 0, share_of_peak = 0;
};

nlohmann::ordered_json text_run_document(const TextRunReport& report, const TrainingTexts& texts,
                                         const training::Trainer& trainer);

}  // namespace rapt::cli
