#pragma once
// --heatmap: where pictures go and how they are drawn.
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/output/tensor_output.h"
#include "rapt/io/output_file.h"
#include "rapt/viz/heatmap.h"

namespace rapt::cli {

// The values of the options.
struct PictureArguments {
  std::vector<std::string> targets;  // F.svg, F.png or "-"
  std::string colormap = "blues";
  std::string color = "auto";  // of the terminal
};

// `what`: what --heatmap draws, for --help.
void add_picture_options(CLI::App& command, PictureArguments& arguments,
                         const std::string& what = "the weights of one head");

// --color, for pictures in the terminal.
void add_color_option(CLI::App& command, std::string& color);

// Throws usage errors. Opens nothing.
void check_picture_options(const PictureArguments& arguments);

// The same for --color alone.
void check_color(const std::string& color);

// How standard output shows pictures, for a checked value of --color.
viz::TerminalStyle terminal_style(const std::string& color);

// Where a picture is drawn; the sizes of maps depend on it.
enum class Canvas : uint8_t { terminal, file };

// The targets of --heatmap, opened before the computation.
class Pictures {
 public:
  Pictures(const PictureArguments& arguments, Overwrite overwrite);

  bool wanted() const { return !outputs_.empty(); }
  bool to_stdout() const;
  const std::vector<Output>& outputs() const { return outputs_; }

  const viz::TerminalStyle& terminal() const { return style_; }

  void draw(const viz::Heatmap& map);  // into every target; no file appears yet
  void draw(const std::function<viz::Heatmap(Canvas)>& map_for);
  void commit();

 private:
  std::vector<Output> outputs_;
  const viz::ColorMap& colors_;
  viz::TerminalStyle style_;
};

}  // namespace rapt::cli
