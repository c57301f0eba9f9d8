#pragma once
// What is common to the options of all commands: unknown and unbuilt ones, numbers, lists, sizes.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt::cli {

// An option that the contract names and this build lacks.
struct UnbuiltOption {
  const char* name;   // "--stats"
  const char* means;  // for the message: what it will be
};

// Registers them out of sight of --help, so that they are refused by name in refuse_unbuilt().
void add_unbuilt(CLI::App& command, std::span<const UnbuiltOption> options);
void refuse_unbuilt(const CLI::App& command, std::span<const UnbuiltOption> options);

// Refuses what the command did not understand, with the option that was perhaps meant.
void refuse_unknown(const CLI::App& command);

// Refuses options whose value is empty, as a shell variable that is not set leaves it.
void refuse_empty(const CLI::App& command);

// "did you mean 'x'?" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

// All of these throw usage errors that name the option.
double parse_real(const std::string& option, const std::string& text);  // any finite number
int64_t parse_integer(const std::string& option, std::string_view text);
std::vector<int64_t> parse_integers(const std::string& option, std::string_view text);      // "0,3"
std::pair<int64_t, int64_t> parse_range(const std::string& option, std::string_view text);  // "a:b"
int64_t parse_bytes(const std::string& option, const std::string& text);  // "512M", "8GiB", "1e9"
int64_t parse_memory_limit(const std::string& text);  // of --memory-limit; -1 where it is not given

}  // namespace rapt::cli
