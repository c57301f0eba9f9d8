#pragma once
// The texts of `rapt train`, read and checked.
#include <string>
#include <vector>

#include "cli/train/train_arguments.h"
#include "rapt/training/training_data.h"

namespace rapt::cli {

struct TrainingTexts {
  std::vector<std::string> names, texts;
  int64_t characters = 0;  // different ones

  int64_t bytes() const;
  // Views of `texts`, for the library.
  std::vector<training::NamedText> views() const;
};

// Throws Failure(data) with the name of the file, and the offset where there is one, for a text
// that is empty, has a zero byte or is not UTF-8, and for fewer than 200 bytes in all; Failure(io)
// for a file that cannot be read.
TrainingTexts read_training_texts(const TrainArguments& arguments);

}  // namespace rapt::cli
