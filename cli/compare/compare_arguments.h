#pragma once
// The options of `rapt compare`.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/attend/attend_arguments.h"
#include "cli/compare/made_input.h"
#include "cli/output/chart_output.h"

namespace rapt::cli {

struct CompareArguments {
  std::string query, key, value, text, dim, input, q_len, head_dim, heads;
  std::string dtype, scale, seed, seeds, rows, reference, max_error, memory_limit, npy_v2;
  std::vector<std::string> masks, methods;
  ChartArguments chart;
  bool gradients = false, json = false, force = false;
};

void add_compare_options(CLI::App& app, CompareArguments& arguments);

// Throws usage errors that follow from the options alone; opens no file.
void check_compare_usage(const CompareArguments& arguments);

// The options that the inputs of `rapt attend` have in common.
AttendArguments inputs_as_of_attend(const CompareArguments& arguments);

// The values of the options, checked. Throw usage errors.
std::optional<MadeInput> made_input(const CompareArguments& arguments);  // none: files or a text
MadeSizes made_sizes(const CompareArguments& arguments);
int compare_seeds(const CompareArguments& arguments);
int64_t compare_rows(const CompareArguments& arguments);
std::optional<double> most_error(const CompareArguments& arguments);
bool in_doubles(const CompareArguments& arguments);  // --reference f64

}  // namespace rapt::cli
