#pragma once
// JSON from outside, and the errors about it.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rapt::text {

// Parses a file of any bytes. `name` stands for the path. Throws Error(format): not JSON, or nested
// deeper than a tokenizer is.
nlohmann::json parse_json(std::string_view json, const std::string& name);

// Errors of a file: `what` says what was expected and what came.
[[noreturn]] void fail_malformed(const std::string& name, const std::string& what);
[[noreturn]] void fail_unsupported(const std::string& name, const std::string& what);

// A value for a message: cut, on one line.
std::string shown(const nlohmann::json& value);

}  // namespace rapt::text
