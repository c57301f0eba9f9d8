#include "cli/output/chart_output.h"

#include <algorithm>

#include "cli/output/picture.h"
#include "cli/process/failure.h"

namespace rapt::cli {

void add_chart_options(CLI::App& command, ChartArguments& arguments, const std::string& what) {
  command
      .add_option("--output", arguments.targets,
                  "draw " + what + ": F.svg, F.png, or - for the terminal (repeatable)")
      ->type_name("F")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Picture");
  add_color_option(command, arguments.color);
}

void check_chart_options(const ChartArguments& arguments) {
  check_color(arguments.color);
  for (const std::string& target : arguments.targets)
    if (target != "-" && !target.ends_with(".svg") && !target.ends_with(".png"))
      throw usage_error("--output: the format follows the ending; expected .svg, .png or -, got '" +
                        target + "'");
}

ChartOutputs::ChartOutputs(const ChartArguments& arguments, Overwrite overwrite)
    : style_(terminal_style(arguments.color)) {
  for (const std::string& target : arguments.targets)
    outputs_.emplace_back("--output", target, overwrite);
}

bool ChartOutputs::to_stdout() const {
  return std::ranges::any_of(outputs_, [](const Output& output) { return output.to_stdout(); });
}

void ChartOutputs::draw(const std::vector<viz::LineChart>& charts) {
  for (Output& output : outputs_) {
    if (output.path().ends_with(".png")) {
      const std::vector<unsigned char> png = viz::to_png(charts);
      output.write(png.data(), std::ssize(png));
      continue;
    }
    std::string text;
    if (!output.to_stdout()) text = viz::to_svg(charts);
    for (const viz::LineChart& chart : charts)
      if (output.to_stdout()) text += viz::to_terminal(chart, style_);
    output.write(text.data(), std::ssize(text));
    if (output.to_stdout()) finish_stdout();  // if this fails, no file appears
  }
}

void ChartOutputs::commit() {
  for (Output& output : outputs_) output.commit("chart");
}

}  // namespace rapt::cli
