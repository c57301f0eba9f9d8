#pragma once
// Words that may stand for an option's value, kept with the option where it is defined: for
// completions and for programs that ask (--json-usage). The command itself checks the value,
// because it can say more than that a word is not in a list.
//
// A word that ends in ':' must be continued: "window:".
#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "rapt/declaration.h"

namespace rapt::cli {

// Stores the words with the option and returns the option. Words may only have letters, digits and
// -_.: so that no shell interprets them.
CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words);

// The words that offer() stored; empty if none.
std::vector<std::string> offered(CLI::Option& option);

// From the catalogue: "causal", "causal:", "causal:top-left", "lengths:", and "file:".
std::vector<std::string> mask_words();
std::vector<std::string> score_words();
std::vector<std::string> normalizer_words();
std::vector<std::string> method_words();
// All variants with their usual arguments, for help: "softcap(30), head_scale".
std::string usual_texts(std::span<const Declaration* const> declarations);

// The types that attention computes in: f32, bf16, f16, f64; and all types.
std::vector<std::string> float_words();
std::vector<std::string> dtype_words();

}  // namespace rapt::cli
