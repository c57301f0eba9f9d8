// Heatmaps into files and into the terminal.
#include "cli/output/picture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/output/narrate.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

const viz::ColorMap& known_color_map(const std::string& name) {
  std::vector<std::string_view> names;
  for (const viz::ColorMap& map : viz::color_maps()) names.push_back(map.name);
  try {
    return viz::color_map(name);
  } catch (const Error& error) {
    throw usage_error(std::string("--colormap: ") + error.what(), did_you_mean(name, names));
  }
}

}  // namespace

viz::TerminalStyle terminal_style(const std::string& color) {
  viz::TerminalStyle style = viz::detect_terminal(STDOUT_FILENO);
  if (color == "never") style.color = viz::TerminalColor::ascii;
  if (color == "always" && style.color == viz::TerminalColor::ascii) {
    style.color = viz::promised_color();
  }
  style.width = std::max(style.width, viz::kMinTerminalWidth);
  return style;
}

void add_picture_options(CLI::App& command, PictureArguments& arguments, const std::string& what) {
  command
      .add_option("--heatmap", arguments.targets,
                  "draw " + what + ": F.svg, F.png, or - for the terminal (repeatable)")
      ->type_name("F")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Picture");
  std::vector<std::string> maps;
  for (const viz::ColorMap& map : viz::color_maps()) maps.emplace_back(map.name);
  offer(
      command
          .add_option("--colormap", arguments.colormap, "blues (default), tutorial, viridis, greys")
          ->type_name("NAME")
          ->group("Picture"),
      maps);
  add_color_option(command, arguments.color);
}

void add_color_option(CLI::App& command, std::string& color) {
  offer(command
            .add_option("--color", color,
                        "colour in the terminal: auto (default; NO_COLOR is heeded), always, never")
            ->type_name("WHEN")
            ->group("Picture"),
        {"auto", "always", "never"});
}

void check_picture_options(const PictureArguments& arguments) {
  known_color_map(arguments.colormap);
  check_color(arguments.color);
  for (const std::string& target : arguments.targets) {
    if (target != "-" && !target.ends_with(".svg") && !target.ends_with(".png"))
      throw usage_error(
          "--heatmap: the format follows the ending; expected .svg, .png or -, got '" + target +
          "'");
  }
}

void check_color(const std::string& color) {
  if (color != "never" && color != "always" && color != "auto")
    throw usage_error("--color: expected auto, always or never, got '" + color + "'");
}

Pictures::Pictures(const PictureArguments& arguments, Overwrite overwrite)
    : colors_(known_color_map(arguments.colormap)), style_(terminal_style(arguments.color)) {
  for (const std::string& target : arguments.targets) {
    outputs_.emplace_back("--heatmap", target, overwrite);
  }
}

bool Pictures::to_stdout() const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [](const Output& output) { return output.to_stdout(); });
}

void Pictures::draw(const viz::Heatmap& map) {
  draw([&map](Canvas) { return map; });
}

void Pictures::draw(const std::function<viz::Heatmap(Canvas)>& map_for) {
  for (Output& output : outputs_) {
    viz::Heatmap map = map_for(output.to_stdout() ? Canvas::terminal : Canvas::file);
    map.colors = colors_;
    if (output.path().ends_with(".png")) {
      const std::vector<unsigned char> png = viz::to_png(map);
      if (const int64_t boxes = viz::boxed_characters(map); boxes > 0) {
        const std::string& path = output.path();
        narrate(
            fmt::format("{}: the font of PNG pictures lacks {} of the characters, which are "
                        "boxes with code points; --heatmap {}.svg shows them",
                        path, boxes, path.substr(0, path.size() - 4)));
      }
      output.write(png.data(), static_cast<int64_t>(png.size()));
    } else {
      const std::string text =
          output.to_stdout() ? viz::to_terminal(map, style_) : viz::to_svg(map);
      output.write(text.data(), static_cast<int64_t>(text.size()));
    }
    if (output.to_stdout()) finish_stdout();  // if this fails, no file appears
  }
}

void Pictures::commit() {
  for (Output& output : outputs_) output.commit("heatmap");
}

}  // namespace rapt::cli
