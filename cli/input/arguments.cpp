// Parses option values, and reports errors with what came and a suggestion.
#include "cli/input/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "cli/input/bracketed_words.h"
#include "cli/process/failure.h"
#include "rapt/catalogue.h"
#include "rapt/thread_pool.h"

namespace rapt::cli {
namespace {

[[noreturn]] void fail(const std::string& option, std::string_view text,
                       const std::string& wanted) {
  throw usage_error(option + ": expected " + wanted + ", got '" + std::string(text) + "'");
}

template <class T>
std::optional<T> number(std::string_view text) {
  if (text.size() > 1 && text.front() == '+') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Powers of 1024, with or without the "i" and the "B": memory sizes are never powers of 1000.
std::optional<int> exponent_of(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (unit.size() == 2 && unit.back() == 'i') unit.pop_back();
  if (unit.empty()) return 0;
  const size_t at = std::string_view("kmgt").find(unit);
  if (unit.size() != 1 || at == std::string_view::npos) return std::nullopt;
  return static_cast<int>(at) + 1;
}

}  // namespace

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "" : "did you mean '" + near + "'?";
}

void refuse_unknown(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  std::string name = unmarked_word(extras.front());
  if (name.size() < 2 || name[0] != '-') {
    throw usage_error("'" + name + "' is not expected here; every value follows its option");
  }
  name = name.substr(0, name.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw usage_error("unknown option '" + name + "'", did_you_mean(name, known));
}

void refuse_empty(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_expected_min() == 0) continue;  // flags, and options that may stand alone
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end()) {
      throw usage_error(option->get_name() + ": expected a value, got an empty one");
    }
  }
}

double parse_real(const std::string& option, const std::string& text) {
  const std::optional<double> value = number<double>(text);
  if (!value || !std::isfinite(*value)) fail(option, text, "a finite number");
  return *value;
}

int64_t parse_integer(const std::string& option, std::string_view text) {
  const std::optional<int64_t> value = number<int64_t>(text);
  if (!value) fail(option, text, "a whole number");
  return *value;
}

int64_t integer_within(const std::string& option, const std::string& text, int64_t otherwise,
                       int64_t least, int64_t most) {
  if (text.empty()) return otherwise;
  const int64_t value = parse_integer(option, text);
  if (value < least || value > most)
    throw usage_error(fmt::format("{}: expected {} to {}, got {}", option, least, most, text));
  return value;
}

int64_t integer_from(const std::string& option, const std::string& text, int64_t otherwise,
                     int64_t least) {
  if (text.empty()) return otherwise;
  const int64_t value = parse_integer(option, text);
  if (value < least)
    throw usage_error(fmt::format("{}: expected {} or more, got {}", option, least, text));
  return value;
}

std::vector<int64_t> parse_integers(const std::string& option, std::string_view text) {
  std::vector<int64_t> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::optional<int64_t> value = number<int64_t>(text.substr(begin, comma - begin));
    if (!value) fail(option, text, "whole numbers with commas between them");
    values.push_back(*value);
    begin = comma + 1;
  }
  return values;
}

std::pair<int64_t, int64_t> parse_range(const std::string& option, std::string_view text) {
  const size_t colon = text.find(':');
  const std::string wanted = "a range a:b of rows, from a to before b";
  if (colon == std::string_view::npos) fail(option, text, wanted);
  const auto begin = number<int64_t>(text.substr(0, colon));
  const auto end = number<int64_t>(text.substr(colon + 1));
  if (!begin || !end || *begin < 0 || *end < *begin) fail(option, text, wanted);
  return {*begin, *end};
}

int64_t parse_bytes(const std::string& option, const std::string& text) {
  const char* const begin = text.data();
  double value = 0;
  const auto [end, error] = std::from_chars(begin, begin + text.size(), value);
  const std::optional<int> exponent = exponent_of(text.substr(static_cast<size_t>(end - begin)));
  const std::string wanted = "a size such as 512M, 8GiB or 1000000";
  if (error != std::errc{} || !exponent) fail(option, text, wanted);
  const double bytes = std::ldexp(value, 10 * *exponent);
  // 2^63 is the first double beyond the range of int64_t.
  if (!(bytes >= 0) || bytes >= 9223372036854775808.0) fail(option, text, wanted);
  return static_cast<int64_t>(bytes);
}

int64_t parse_memory_limit(const std::string& text) {
  return text.empty() ? -1 : parse_bytes("--memory-limit", text);
}

int parse_threads(const std::string& text) {
  if (text.empty()) return 0;
  const int64_t threads = parse_integer("--threads", text);
  if (threads < 1 || threads > ThreadPool::kMostThreads) {
    throw usage_error("--threads: expected 1 to " + std::to_string(ThreadPool::kMostThreads) +
                      ", got " + text);
  }
  return static_cast<int>(threads);
}

}  // namespace rapt::cli
