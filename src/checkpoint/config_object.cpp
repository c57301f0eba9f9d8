#include "checkpoint/config_object.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/quoted.h"
#include "rapt/checkpoint/model_config.h"
#include "rapt/io/input_file.h"

namespace rapt::checkpoint {
namespace {

// rapt::in_quotes has its full name below, because the JSON library includes std::quoted.

using Json = nlohmann::json;

[[noreturn]] void fail_format(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::format, path_text(file) + ": " + what);
}

bool is_int64(const Json& value) {
  return value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                    : value.is_number_integer();
}

}  // namespace

std::string read_config_text(const std::string& path) {
  const InputFile file(path);
  if (file.bytes() > kMaxConfigBytes)
    fail_format(path, "expected at most " + std::to_string(kMaxConfigBytes) + " bytes, got " +
                          std::to_string(file.bytes()));
  std::string text(static_cast<size_t>(file.bytes()), '\0');
  file.read(0, reinterpret_cast<std::byte*>(text.data()), std::ssize(text));
  return text;
}

Json parse_config_value(std::string_view text, const std::string& file) {
  if (std::ssize(text) > kMaxConfigBytes)
    fail_format(file, "expected at most " + std::to_string(kMaxConfigBytes) + " bytes, got " +
                          std::to_string(text.size()));
  // The parser treats a zero byte as the end, whatever follows it.
  if (text.find('\0') != std::string_view::npos)
    fail_format(file, "expected JSON, got a zero byte");
  const auto limit_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxConfigDepth)
      fail_format(file, "expected objects and arrays at most " + std::to_string(kMaxConfigDepth) +
                            " deep, got more");
    return true;
  };
  Json json;
  try {
    json = Json::parse(text.begin(), text.end(), limit_depth);
  } catch (const Json::parse_error& e) {
    fail_format(file, "expected JSON; it is malformed at its byte " + std::to_string(e.byte));
  } catch (const Json::out_of_range&) {
    fail_format(file, "it has a number that is too large");
  }
  return json;
}

Json parse_config(std::string_view text, const std::string& file) {
  Json json = parse_config_value(text, file);
  if (!json.is_object()) fail_format(file, "expected an object {\"key\": value, ...}");
  return json;
}

const Json* ConfigObject::find(const char* key) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

bool ConfigObject::has(const char* key) const { return find(key) != nullptr; }

bool ConfigObject::is_null(const char* key) const {
  const auto at = object_.find(key);
  return at != object_.end() && at->is_null();
}

bool ConfigObject::is_neutral(const char* key) const {
  const Json* const value = find(key);
  if (!value) return true;
  if (value->is_boolean()) return !value->get<bool>();
  if (value->is_number()) return *value == 0 || *value == 1;
  return value->is_array() && value->empty();
}

std::vector<std::string> ConfigObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : object_.items()) keys.push_back(item.key());
  return keys;
}

int64_t ConfigObject::integer(const char* key, int64_t otherwise, int64_t least) const {
  const Json* const value = find(key);
  if (!value) return otherwise;
  const std::string expected = "an integer, " + std::to_string(least) + " or more";
  if (!is_int64(*value) || value->get<int64_t>() < least) fail(ErrorCode::format, key, expected);
  return value->get<int64_t>();
}

double ConfigObject::number(const char* key, double otherwise) const {
  const Json* const value = find(key);
  if (!value) return otherwise;
  if (!value->is_number()) fail(ErrorCode::format, key, "a number");
  return value->get<double>();
}

bool ConfigObject::boolean(const char* key, bool otherwise) const {
  const Json* const value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) fail(ErrorCode::format, key, "true or false");
  return value->get<bool>();
}

std::string ConfigObject::text(const char* key, const std::string& otherwise) const {
  const Json* const value = find(key);
  if (!value) return otherwise;
  if (!value->is_string()) fail(ErrorCode::format, key, "a text");
  return value->get<std::string>();
}

std::optional<ConfigObject> ConfigObject::object(const char* key) const {
  const Json* const value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) fail(ErrorCode::format, key, "an object");
  return ConfigObject(*value, file_, within_ + key + ".");
}

std::vector<int64_t> ConfigObject::integers(const char* key) const {
  const Json* const value = find(key);
  if (!value) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<int64_t> integers;
  for (const Json& one : list) {
    if (!is_int64(one) || one.get<int64_t>() < 0)
      fail(ErrorCode::format, key, "an integer, 0 or more, or a list of them");
    integers.push_back(one.get<int64_t>());
  }
  return integers;
}

std::vector<std::string> ConfigObject::texts(const char* key) const {
  const Json* const value = find(key);
  if (!value) return {};
  std::vector<std::string> texts;
  if (!value->is_array()) fail(ErrorCode::format, key, "a list of texts");
  for (const Json& one : *value) {
    if (!one.is_string()) fail(ErrorCode::format, key, "a list of texts");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

void ConfigObject::require_texts(const char* key, const char* only) const {
  const Json* const value = find(key);
  if (!value) return;
  if (!value->is_array()) fail(ErrorCode::format, key, "a list");
  for (const Json& one : *value)
    if (one != only) reject(key, "\"" + std::string(only) + "\" alone");
}

void ConfigObject::require(const char* key, bool otherwise, bool only) const {
  if (boolean(key, otherwise) != only) reject(key, only ? "true" : "false");
}

void ConfigObject::reject(const char* key, const std::string& expected) const {
  fail(ErrorCode::unsupported, key, expected);
}

void ConfigObject::fail(ErrorCode code, const char* key, const std::string& expected) const {
  const Json* const value = find(key);
  const std::string got =
      value ? rapt::in_quotes(value->dump(-1, ' ', true, Json::error_handler_t::replace))
            : "absent";
  throw Error(code,
              path_text(file_) + ": " + within_ + key + " is " + got + "; expected " + expected);
}

}  // namespace rapt::checkpoint
