#include "rapt/training/training_settings.h"

#include <cmath>
#include <string>

namespace rapt::training {
namespace {

template <class T>
void require_setting(bool holds, const char* name, T value, const std::string& expected) {
  if (holds) return;
  throw Error(ErrorCode::argument,
              std::string(name) + " is " + std::to_string(value) + "; expected " + expected, name);
}

void require_count(const char* name, int64_t value, int64_t least, int64_t most = INT64_MAX) {
  require_setting(value >= least && value <= most, name, value,
                  most == INT64_MAX ? std::to_string(least) + " or more"
                                    : std::to_string(least) + " to " + std::to_string(most));
}

void require_average(const char* name, double value) {
  require_setting(value >= 0 && value < 1, name, value, "at least 0, below 1");
}

void require_size(const char* name, double value) {
  require_setting(value >= 0 && std::isfinite(value), name, value, "a finite number, 0 or more");
}

}  // namespace

void check_settings(const TrainingSettings& settings) {
  require_count("batch", settings.batch, 1);
  require_count("block", settings.block, 1);
  // The number of a window is step * batch + row.
  require_count("steps", settings.steps, 1, INT64_MAX / settings.batch);
  require_setting(settings.learning_rate > 0 && std::isfinite(settings.learning_rate),
                  "learning_rate", settings.learning_rate, "a finite number above 0");
  require_setting(
      settings.min_learning_rate >= 0 && settings.min_learning_rate <= settings.learning_rate,
      "min_learning_rate", settings.min_learning_rate, "0 to the learning rate");
  require_count("warmup_steps", settings.warmup_steps, 0, settings.steps);
  require_average("beta1", settings.beta1);
  require_average("beta2", settings.beta2);
  require_size("weight_decay", settings.weight_decay);
  require_size("clip_norm", settings.clip_norm);
  require_count("seed", settings.seed, 0);
  if (settings.dtype != DType::f32 && settings.dtype != DType::bf16)
    throw Error(ErrorCode::argument,
                std::string("dtype is ") + name_of(settings.dtype) + "; expected f32 or bf16",
                "dtype");
  require_count("evaluation_interval", settings.evaluation_interval, 1);
  if (settings.evaluation > EvaluationWindows::consecutive)
    throw Error(ErrorCode::argument, "evaluation is no value of EvaluationWindows", "evaluation");
  require_count("evaluation_windows", settings.evaluation_windows, 1);
}

}  // namespace rapt::training
