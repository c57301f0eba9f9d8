#include "rapt/training/training_log.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace rapt::training {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kStepKey = "\"step\":";

OrderedJson begin_record(const char* record, int64_t step) {
  return {{"schema", "rapt.train/1"}, {"record", record}, {"step", step}};
}

// The step of a line; false: it is no record.
bool read_step(std::string_view line, int64_t& step) {
  const size_t key = line.find(kStepKey);
  if (key == std::string_view::npos) return false;
  const char* const begin = line.data() + key + kStepKey.size();
  return std::from_chars(begin, line.data() + line.size(), step).ec == std::errc();
}

}  // namespace

std::string log_line(const StepRecord& record) {
  OrderedJson json = begin_record("step", record.step);
  json["loss"] = record.loss;
  json["learning_rate"] = record.learning_rate;
  json["gradient_norm"] = record.gradient_norm;
  return json.dump() + "\n";
}

std::string log_line(const EvaluationRecord& record) {
  OrderedJson json = begin_record("evaluation", record.step);
  json["loss"] = record.loss;
  json["loss_per_byte"] = record.loss_per_byte;
  json["tokens"] = record.tokens;
  json["best"] = record.best;
  return json.dump() + "\n";
}

std::string_view log_through(std::string_view log, int64_t step) {
  size_t end = 0;
  while (true) {
    const size_t line_end = log.find('\n', end);
    int64_t of_line = 0;
    if (line_end == std::string_view::npos ||
        !read_step(log.substr(end, line_end - end), of_line) || of_line > step)
      return log.substr(0, end);
    end = line_end + 1;
  }
}

}  // namespace rapt::training
