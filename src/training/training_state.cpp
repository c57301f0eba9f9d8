#include "rapt/training/training_state.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/config_object.h"
#include "io/quoted.h"

namespace rapt::training {
namespace {

using checkpoint::ConfigObject;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kStateSchema = "rapt.training/1";
constexpr size_t kHashDigits = 16;

[[noreturn]] void fail_state(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::format, path_text(file) + ": " + what);
}

std::string hash_text(uint64_t hash) {
  char digits[kHashDigits];
  const auto [end, failure] = std::to_chars(digits, digits + kHashDigits, hash, 16);
  const std::string text(digits, end);
  return std::string(kHashDigits - text.size(), '0') + text;
}

uint64_t read_hash(const std::string& text, const std::string& file) {
  uint64_t hash = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, hash, 16);
  if (text.size() != kHashDigits || stopped != end || failure != std::errc())
    fail_state(file, "text_hash is " + rapt::in_quotes(text) + "; expected 16 hexadecimal digits");
  return hash;
}

// The values of an object whose keys must all be there.
class RequiredKeys {
 public:
  RequiredKeys(const ConfigObject& object, const std::string& file, std::string within)
      : object_(object), file_(file), within_(std::move(within)) {}

  void read(const char* key, int64_t& to) const { to = present(key).integer(key, 0, 0); }
  void read(const char* key, double& to) const { to = present(key).number(key, 0); }
  std::string text(const char* key) const { return present(key).text(key, ""); }
  // The index of a text in a list of names.
  template <size_t kNames>
  size_t name(const char* key, const char* const (&names)[kNames]) const {
    const std::string given = text(key);
    std::string expected;
    for (size_t i = 0; i < kNames; ++i) {
      if (given == names[i]) return i;
      expected += (i == 0 ? "" : " or ") + std::string(names[i]);
    }
    fail_state(file_, within_ + key + " is " + rapt::in_quotes(given) + "; expected " + expected);
  }

 private:
  const ConfigObject& present(const char* key) const {
    if (!object_.has(key)) fail_state(file_, within_ + key + " is absent");
    return object_;
  }

  const ConfigObject& object_;
  const std::string& file_;
  std::string within_;
};

constexpr const char* kDTypeNames[] = {"f32", "bf16"};
constexpr DType kDTypes[] = {DType::f32, DType::bf16};

// Calls f(key, member) for each number of the settings, which may be const.
template <class Settings, class Function>
void for_numbers(Settings& settings, const Function& f) {
  f("batch", settings.batch);
  f("block", settings.block);
  f("steps", settings.steps);
  f("learning_rate", settings.learning_rate);
  f("min_learning_rate", settings.min_learning_rate);
  f("warmup_steps", settings.warmup_steps);
  f("beta1", settings.beta1);
  f("beta2", settings.beta2);
  f("weight_decay", settings.weight_decay);
  f("clip_norm", settings.clip_norm);
  f("seed", settings.seed);
  f("evaluation_interval", settings.evaluation_interval);
  f("evaluation_windows", settings.evaluation_windows);
}

OrderedJson write_settings(const TrainingSettings& settings) {
  OrderedJson json;
  for_numbers(settings, [&](const char* key, const auto& value) { json[key] = value; });
  json["dtype"] = name_of(settings.dtype);
  json["evaluation"] = kEvaluationWindowsNames[static_cast<size_t>(settings.evaluation)];
  return json;
}

TrainingSettings read_settings(const ConfigObject& object, const std::string& file) {
  const RequiredKeys keys(object, file, "settings.");
  TrainingSettings settings;
  for_numbers(settings, [&](const char* key, auto& value) { keys.read(key, value); });
  settings.dtype = kDTypes[keys.name("dtype", kDTypeNames)];
  settings.evaluation =
      static_cast<EvaluationWindows>(keys.name("evaluation", kEvaluationWindowsNames));
  try {
    check_settings(settings);
  } catch (const Error& e) {
    fail_state(file, std::string("settings.") + e.what());
  }
  return settings;
}

// Steps go from `least` to the present one.
void check_step(const char* name, int64_t step, int64_t least, int64_t most,
                const std::string& file) {
  if (step < least || step > most)
    fail_state(file, std::string(name) + " is " + std::to_string(step) + "; expected " +
                         std::to_string(least) + " to " + std::to_string(most));
}

std::optional<BestEvaluation> read_best(const ConfigObject& object, int64_t most,
                                        const std::string& file) {
  const std::optional<ConfigObject> best = object.object("best");
  if (!best) return std::nullopt;
  const RequiredKeys keys(*best, file, "best.");
  BestEvaluation evaluation;
  keys.read("step", evaluation.step);
  keys.read("loss", evaluation.loss);
  check_step("best.step", evaluation.step, 0, most, file);
  return evaluation;
}

}  // namespace

std::string write_training_state(const TrainingState& state) {
  OrderedJson json;
  json["schema"] = kStateSchema;
  json["step"] = state.step;
  json["evaluated_step"] = state.evaluated_step;
  json["text_hash"] = hash_text(state.text_hash);
  json["best"] = nullptr;
  if (state.best) json["best"] = {{"step", state.best->step}, {"loss", state.best->loss}};
  json["settings"] = write_settings(state.settings);
  return json.dump(2) + "\n";
}

TrainingState read_training_state(std::string_view json, const std::string& file) {
  const nlohmann::json parsed = checkpoint::parse_config(json, file);
  const ConfigObject object(parsed, file);
  const RequiredKeys keys(object, file, "");
  if (keys.text("schema") != kStateSchema)
    object.reject("schema", "\"" + std::string(kStateSchema) + "\"");
  const std::optional<ConfigObject> settings = object.object("settings");
  if (!settings) fail_state(file, "settings is absent");
  TrainingState state;
  state.settings = read_settings(*settings, file);
  keys.read("step", state.step);
  keys.read("evaluated_step", state.evaluated_step);
  check_step("step", state.step, 0, state.settings.steps, file);
  check_step("evaluated_step", state.evaluated_step, 0, state.step, file);
  state.text_hash = read_hash(keys.text("text_hash"), file);
  state.best = read_best(object, state.evaluated_step, file);
  return state;
}

}  // namespace rapt::training
