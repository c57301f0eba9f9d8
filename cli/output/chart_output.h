#pragma once
// --output of charts: where they go, as SVG, PNG or lines of text.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/output/tensor_output.h"
#include "rapt/io/output_file.h"
#include "rapt/viz/chart.h"

namespace rapt::cli {

// The values of --output and --color.
struct ChartArguments {
  std::vector<std::string> targets;  // F.svg, F.png or "-"
  std::string color = "auto";        // of the terminal
};

// `what`: what --output draws, for --help.
void add_chart_options(CLI::App& command, ChartArguments& arguments, const std::string& what);

// Throws usage errors. Opens nothing.
void check_chart_options(const ChartArguments& arguments);

// The targets of --output, opened before the computation.
class ChartOutputs {
 public:
  ChartOutputs(const ChartArguments& arguments, Overwrite overwrite);

  bool to_stdout() const;
  void draw(const std::vector<viz::LineChart>& charts);  // into every target; no file appears yet
  void commit();                                         // makes the files appear

 private:
  std::vector<Output> outputs_;
  viz::TerminalStyle style_;
};

}  // namespace rapt::cli
