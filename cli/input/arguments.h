#pragma once
// Shared by the options of all commands: unknown options, numbers, lists, sizes.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt::cli {

// Rejects unknown options, with a suggestion.
void refuse_unknown(const CLI::App& command);

// Rejects options with an empty value, as an unset shell variable leaves it.
void refuse_empty(const CLI::App& command);

// "did you mean 'x'?" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

// All of these throw usage errors that name the option.
double parse_real(const std::string& option, const std::string& text);  // any finite number
int64_t parse_integer(const std::string& option, std::string_view text);
// `otherwise` for an empty text; else at least `least` and at most `most`.
int64_t integer_within(const std::string& option, const std::string& text, int64_t otherwise,
                       int64_t least, int64_t most);
// The same without a limit above.
int64_t integer_from(const std::string& option, const std::string& text, int64_t otherwise,
                     int64_t least);
std::vector<int64_t> parse_integers(const std::string& option, std::string_view text);      // "0,3"
std::pair<int64_t, int64_t> parse_range(const std::string& option, std::string_view text);  // "a:b"
int64_t parse_bytes(const std::string& option, const std::string& text);  // "512M", "8GiB", "1e9"
int64_t parse_memory_limit(const std::string& text);  // of --memory-limit; -1 where it is not given
int parse_threads(const std::string& text);           // of --threads; 0 where it is not given

}  // namespace rapt::cli
