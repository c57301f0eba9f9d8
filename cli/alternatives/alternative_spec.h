#pragma once
// The texts of --method where several ways to compute a call are compared with the exact one. An
// alternative is a method, or one option that differs from the exact call:
//
//   lsh(rounds=4), favor:64          a method of the catalogue, as in `rapt attend --method`
//   mask=window(256,0)               exact attention under one more mask
//   precision=fast, dtype=bf16       exact attention in other arithmetic
//   norm=entmax15                    exact attention with another normaliser
//
// Values in braces stand for one alternative each: favor(features={64,256}) is two of them, and
// mask={window(16,0),window({32,64},0)} is three.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace rapt::cli {

// What an alternative changes in the exact call.
enum class Changed : uint8_t { method, mask, precision, dtype, normalizer };

struct AlternativeSpec {
  std::string text;  // with one value of each list: "favor(features=64)", "mask=window(16,0)"
  std::string list;  // as given, "favor(features={64,256})": the same for all of one --method
  Changed changed = Changed::method;
  std::string value;  // of the option, "window(16,0)"; of a method its text

  bool operator==(const AlternativeSpec&) const = default;
};

// The most alternatives of a command, so that lists multiplied by lists stay small.
inline constexpr size_t kMostAlternatives = 64;

// The alternatives of all texts, in their order. Only braces and the words before '=' are checked
// here; Alternative checks the rest. Throws usage errors.
std::vector<AlternativeSpec> alternative_specs(const std::vector<std::string>& texts);

// --method SPEC, repeatable.
void add_alternatives_option(CLI::App& command, std::vector<std::string>& texts);

}  // namespace rapt::cli
