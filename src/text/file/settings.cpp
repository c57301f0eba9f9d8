#include "text/file/settings.h"

#include <algorithm>

#include "io/quoted.h"
#include "text/file/json_text.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;

}  // namespace

void check_settings(const Json& object, const std::string& where,
                    std::initializer_list<Setting> settings, const std::string& file) {
  if (!object.is_object())
    fail_malformed(file, where + ": expected an object, got " + shown(object));
  for (const Setting& setting : settings) {
    if (setting.presence == Presence::required && !object.contains(setting.name))
      fail_malformed(file, where + ": expected a member '" + setting.name + "', got none");
  }
  for (const auto& [name, value] : object.items()) {
    const auto setting = std::ranges::find(settings, name, &Setting::name);
    if (setting == settings.end())
      fail_unsupported(file, "member " + rapt::in_quotes(name) + " of " + where);
    if (!setting->honoured.empty() &&
        std::ranges::find(setting->honoured, value) == setting->honoured.end())
      fail_unsupported(file, where + " with " + name + " " + shown(value));
  }
}

const std::string& type_of(const Json& object, const std::string& where, const std::string& file) {
  if (!object.is_object())
    fail_malformed(file, where + ": expected an object, got " + shown(object));
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    fail_malformed(file, where + ": expected a text 'type', got none");
  return type->get_ref<const std::string&>();
}

}  // namespace rapt::text
