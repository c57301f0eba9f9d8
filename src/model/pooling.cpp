#include "rapt/model/pooling.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/config_object.h"
#include "io/quoted.h"

namespace rapt::model {
namespace {

using Json = nlohmann::json;

// The files of a folder, and its name for messages.
struct PoolingFolder {
  const FolderFiles& files;
  const std::string& name;

  // Nothing if the file is not there.
  std::optional<Json> value(const std::string& path) const {
    const std::optional<std::string> text = files(path);
    if (!text) return std::nullopt;
    return checkpoint::parse_config_value(*text, path_of(path));
  }
  // The same of an object.
  std::optional<Json> object(const std::string& path) const {
    const std::optional<std::string> text = files(path);
    if (!text) return std::nullopt;
    return checkpoint::parse_config(*text, path_of(path));
  }
  std::string path_of(const std::string& path) const { return name + "/" + path; }
};

// "a.b.Pooling" -> "Pooling"
std::string last_word(const std::string& type) { return type.substr(type.rfind('.') + 1); }

PoolingMode read_mode(const PoolingFolder& folder, const std::string& path) {
  const std::string file = folder.path_of(path);
  const std::optional<Json> json = folder.object(path);
  if (!json) throw Error(ErrorCode::io, path_text(file) + ": no such file; modules.json names it");
  std::optional<PoolingMode> mode;
  for (const auto& [key, value] : json->items()) {
    constexpr std::string_view kPrefix = "pooling_mode_";
    if (!key.starts_with(kPrefix)) continue;
    if (!value.is_boolean())
      throw Error(ErrorCode::format, path_text(file) + ": " + key + ": expected true or false");
    if (value == false) continue;
    const auto known = std::ranges::find(kPoolingNames, key.substr(kPrefix.size()),
                                         [](const char* name) { return std::string(name); });
    if (known == std::end(kPoolingNames) || mode)
      throw Error(ErrorCode::unsupported,
                  path_text(file) + ": " + key + " is " + (mode ? "one of several" : "true") +
                      "; expected one of mean_tokens, cls_token, max_tokens, mean_sqrt_len_tokens");
    mode = static_cast<PoolingMode>(known - std::begin(kPoolingNames));
  }
  if (!mode)
    throw Error(ErrorCode::unsupported,
                path_text(file) + ": expected one pooling_mode_... that is true, got none");
  return *mode;
}

// A module's folder is a name within the model's folder, never a path.
std::string module_path(const Json& module, const std::string& file) {
  const Json path = module.value("path", Json());
  if (!path.is_string() || path.get<std::string>().find("..") != std::string::npos ||
      path.get<std::string>().starts_with('/'))
    throw Error(ErrorCode::format,
                path_text(file) + ": path: expected the name of a folder beside the file, got " +
                    rapt::in_quotes(path.dump(-1, ' ', true)));
  return path.get<std::string>();
}

// Returns whether the module is the pooling.
bool read_module(const Json& module, const PoolingFolder& folder, const std::string& file,
                 Pooling& pooling) {
  if (!module.is_object() || !module.value("type", Json()).is_string())
    throw Error(ErrorCode::format, path_text(file) + ": expected objects with a text 'type'");
  const std::string type = last_word(module["type"].get<std::string>());
  if (type == "Pooling")
    pooling.mode = read_mode(folder, module_path(module, file) + "/config.json");
  else if (type == "Normalize")
    pooling.normalize = true;
  else if (type != "Transformer")
    throw Error(ErrorCode::unsupported,
                path_text(file) + ": module " + rapt::in_quotes(type) +
                    " is not supported; rapt computes Transformer, Pooling and Normalize");
  return type == "Pooling";
}

void read_modules(const PoolingFolder& folder, Pooling& pooling) {
  const std::string file = folder.path_of("modules.json");
  const std::optional<Json> modules = folder.value("modules.json");
  if (!modules) return;
  if (!modules->is_array()) throw Error(ErrorCode::format, path_text(file) + ": expected an array");
  int poolings = 0;
  for (const Json& module : *modules)
    poolings += read_module(module, folder, file, pooling) ? 1 : 0;
  if (poolings != 1)
    throw Error(ErrorCode::unsupported,
                path_text(file) + ": expected one module Pooling, got " + std::to_string(poolings));
}

// The length, and what would change texts.
void read_text_settings(const PoolingFolder& folder, Pooling& pooling) {
  // Each class of the package has had its own name.
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                           "sentence_distilbert_config.json"}) {
    const std::optional<Json> json = folder.object(name);
    if (!json) continue;
    const std::string file = folder.path_of(name);
    const checkpoint::ConfigObject config(*json, file);
    config.require("do_lower_case", false, false);
    pooling.longest = config.integer("max_seq_length", 0);
    break;
  }
  const std::string name = "config_sentence_transformers.json", file = folder.path_of(name);
  const std::optional<Json> json = folder.object(name);
  if (!json) return;
  const checkpoint::ConfigObject config(*json, file);
  if (config.has("default_prompt_name"))
    config.reject("default_prompt_name", "null: no text is put before others");
}

void pool_text(PoolingMode mode, const float* rows, int64_t count, int64_t features, float* to) {
  if (mode == PoolingMode::cls_token) {
    std::copy_n(rows, features, to);
    return;
  }
  for (int64_t f = 0; f < features; ++f) {
    double sum = 0, greatest = rows[f];
    for (int64_t i = 0; i < count; ++i) {
      const double value = rows[i * features + f];
      sum += value;
      if (value > greatest || std::isnan(value)) greatest = value;
    }
    const auto n = static_cast<double>(count);
    to[f] = static_cast<float>(mode == PoolingMode::max_tokens    ? greatest
                               : mode == PoolingMode::mean_tokens ? sum / n
                                                                  : sum / std::sqrt(n));
  }
}

// torch.nn.functional.normalize: a length below 1e-12 counts as that.
void make_unit(float* row, int64_t features) {
  double squares = 0;
  for (int64_t f = 0; f < features; ++f) squares += static_cast<double>(row[f]) * row[f];
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (int64_t f = 0; f < features; ++f) row[f] = static_cast<float>(row[f] / length);
}

}  // namespace

Pooling read_pooling(const FolderFiles& files, const std::string& name) {
  Pooling pooling;
  const PoolingFolder folder{files, name};
  read_modules(folder, pooling);
  read_text_settings(folder, pooling);
  return pooling;
}

Pooling load_pooling(const std::string& folder) {
  const auto files = [&](const std::string& name) -> std::optional<std::string> {
    std::error_code ignored;
    const std::string path = folder + "/" + name;
    if (!std::filesystem::exists(path, ignored)) return std::nullopt;
    return checkpoint::read_config_text(path);
  };
  return read_pooling(files, folder);
}

Tensor pool(const Pooling& pooling, const TensorView& rows, std::span<const int64_t> starts) {
  if (rows.rank != 2 || rows.dtype != DType::f32 || !rows.contiguous())
    throw Error(ErrorCode::shape, "rows: expected f32 [tokens, features] without gaps", "rows");
  if (starts.empty() || starts.front() != 0 || starts.back() != rows.shape[0] ||
      !std::ranges::is_sorted(starts))
    throw Error(ErrorCode::shape,
                "starts: expected numbers from 0 to " + std::to_string(rows.shape[0]) +
                    " that do not decrease",
                "starts");
  const int64_t features = rows.shape[1];
  Tensor pooled(DType::f32, {std::ssize(starts) - 1, features});
  float* to = pooled.values<float>().data();
  for (size_t text = 0; text + 1 < starts.size(); ++text, to += features) {
    const int64_t count = starts[text + 1] - starts[text];
    std::fill_n(to, features, 0.0f);
    if (count <= 0) continue;
    const float* const from = static_cast<const float*>(rows.data) + starts[text] * features;
    pool_text(pooling.mode, from, count, features, to);
    if (pooling.normalize) make_unit(to, features);
  }
  return pooled;
}

}  // namespace rapt::model
