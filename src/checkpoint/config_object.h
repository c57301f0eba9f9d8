#pragma once
// An object of a config, by key: each value is checked when it is read.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/error.h"

namespace rapt::checkpoint {

// The text of a config in a file. Throws Error(io), Error(format) for more than kMaxConfigBytes.
std::string read_config_text(const std::string& path);

// Parses JSON within the limits of model_config.h. Throws Error(format).
nlohmann::json parse_config_value(std::string_view json, const std::string& file);

// Parses the object of a config. Throws Error(format), for other values, too.
nlohmann::json parse_config(std::string_view json, const std::string& file);

class ConfigObject {
 public:
  // Both must outlive the object. `within`: before keys in messages, "rope_parameters.".
  ConfigObject(const nlohmann::json& object, const std::string& file, std::string within = "")
      : object_(object), file_(file), within_(std::move(within)) {}

  // Is there a value other than null?
  bool has(const char* key) const;
  // Is there a null? transformers takes it as no value, even where an absent key has one.
  bool is_null(const char* key) const;
  // May a value of a switch, a factor, a count or a list mean that nothing is done: null, false, 0,
  // 1, an empty list, or none at all?
  bool is_neutral(const char* key) const;
  // All keys, in the order of their letters.
  std::vector<std::string> keys() const;

  // The value of a key, or the default if there is none. Throw Error(format) for a value of another
  // type, or below `least`.
  int64_t integer(const char* key, int64_t otherwise, int64_t least = 1) const;
  double number(const char* key, double otherwise) const;
  bool boolean(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::optional<ConfigObject> object(const char* key) const;
  // One integer or a list of them, each 0 or more; none if there is no value.
  std::vector<int64_t> integers(const char* key) const;

  // A list of texts; none if there is no value.
  std::vector<std::string> texts(const char* key) const;

  // Throws Error(unsupported) unless all elements of a list of texts, if there is one, are `only`.
  void require_texts(const char* key, const char* only) const;
  // Throws Error(unsupported) unless a truth value is this one.
  void require(const char* key, bool otherwise, bool only) const;

  // Throws Error(unsupported): the value of a key is not one that the model has.
  [[noreturn]] void reject(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json* find(const char* key) const;
  [[noreturn]] void fail(ErrorCode code, const char* key, const std::string& expected) const;

  const nlohmann::json& object_;
  const std::string& file_;
  std::string within_;
};

}  // namespace rapt::checkpoint
