#pragma once
// What `rapt compare` prints.
#include <nlohmann/json.hpp>
#include <string>

#include "cli/compare/contender.h"

namespace rapt::cli {

// What a call is worth beside the baselines: "worse than the mean of the values; ...".
std::string words_about(const Contender& alternative, const Contenders& contenders);

std::string compare_text(const CompareProblem& problem, const Contenders& contenders);

// `calls_seconds`: the CPU time of all attention calls; `seconds`: that of the whole comparison.
nlohmann::ordered_json compare_json(const CompareProblem& problem, const Contenders& contenders,
                                    double calls_seconds, double seconds);

// The median over seeds of the relative error of the output.
double output_error(const Contender& contender);

}  // namespace rapt::cli
