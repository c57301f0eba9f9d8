#pragma once
// Objects of settings in a file: each must have a value that rapt honours.
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rapt::text {

enum class Presence : uint8_t { required, optional };

struct Setting {
  const char* name;
  Presence presence;
  std::vector<nlohmann::json> honoured;  // empty: any value
};

// Checks an object. `where` is for messages: "pre_tokenizer". Throws Error(format): no object, or a
// required setting is missing; Error(unsupported): another value, or a setting that is not known.
void check_settings(const nlohmann::json& object, const std::string& where,
                    std::initializer_list<Setting> settings, const std::string& file);

// The value of "type". Throws Error(format): no object, or no text of that name.
const std::string& type_of(const nlohmann::json& object, const std::string& where,
                           const std::string& file);

}  // namespace rapt::text
