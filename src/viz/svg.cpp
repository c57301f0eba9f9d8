// A drawing as an SVG 1.1 document.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "rapt/viz/chart.h"
#include "rapt/viz/heatmap.h"
#include "viz/chart/chart_layout.h"
#include "viz/chart/marker_figure.h"
#include "viz/drawing.h"
#include "viz/layout.h"
#include "viz/png_file.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

std::string hex(Color c) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "#";
  for (uint8_t v : {c.red, c.green, c.blue}) text += {kDigits[v >> 4], kDigits[v & 15]};
  return text;
}

std::string escape(std::u32string_view text) {
  std::string out;
  for (char c : encode_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string base64(const std::vector<unsigned char>& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? bytes[i + j] : 0);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

// Repeats every pixel until it measures half a unit, so that viewers that smooth images blur no
// cell.
Image magnified(const Image& image) {
  const auto times = [](double length, int64_t count) {
    return std::max<int64_t>(1, std::llround(2 * length / static_cast<double>(count)));
  };
  const int64_t down = times(image.box.height, image.rows);
  const int64_t across = times(image.box.width, image.columns);
  Image large{image.box, image.rows * down, image.columns * across, {}, image.palette};
  large.pixels.reserve(static_cast<size_t>(large.rows * large.columns));
  for (int64_t row = 0; row < large.rows; ++row)
    for (int64_t column = 0; column < large.columns; ++column)
      large.pixels.push_back(
          image.pixels[static_cast<size_t>(row / down * image.columns + column / across)]);
  return large;
}

class SvgWriter {
 public:
  // `key` is the end of all identifiers.
  explicit SvgWriter(std::string key) : key_(std::move(key)) {}

  std::string write(const Drawing& drawing) {
    const std::string width = number(drawing.width), height = number(drawing.height);
    out_ =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" "
        "xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"" +
        width + "\" height=\"" + height + "\" viewBox=\"0 0 " + width + " " + height +
        "\" role=\"img\" font-family=\"sans-serif\">\n";
    if (!drawing.title.empty()) out_ += "<title>" + escape(drawing.title) + "</title>\n";
    out_ += "<rect width=\"100%\" height=\"100%\" fill=\"" + hex(kWhite) + "\"/>\n";
    for (const Shape& shape : drawing.shapes) {
      // Neighbouring rectangles share a group that keeps their edges free of seams.
      group(std::holds_alternative<Fill>(shape));
      std::visit([this](const auto& s) { add(s); }, shape);
    }
    group(false);
    return std::move(out_) + "</svg>\n";
  }

 private:
  static std::string number(double value) {
    char buffer[32];
    const auto result =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 2);
    std::string text(buffer, result.ptr);
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text;
  }
  static std::string attribute(const char* name, double value) {
    return std::string(" ") + name + "=\"" + number(value) + "\"";
  }
  static std::string place(const Box& b) {
    return attribute("x", b.x) + attribute("y", b.y) + attribute("width", b.width) +
           attribute("height", b.height);
  }

  static std::string place(const Point& p) { return number(p.x) + " " + number(p.y); }

  void group(bool fills) {
    if (fills == in_fills_) return;
    out_ += fills ? "<g shape-rendering=\"crispEdges\">\n" : "</g>\n";
    in_fills_ = fills;
  }

  void add(const Fill& s) { out_ += "<rect" + place(s.box) + " fill=\"" + hex(s.color) + "\"/>\n"; }
  void add(const Frame& s) {
    out_ += "<rect" + place(s.box) + " fill=\"none\" stroke=\"" + hex(s.color) + "\"/>\n";
  }
  void add(const Line& s) {
    out_ += "<path d=\"M" + number(s.x1) + " " + number(s.y1) + "L" + number(s.x2) + " " +
            number(s.y2) + "\" stroke=\"" + hex(s.color) + "\"/>\n";
  }
  void add(const Curve& s) {
    out_ += "<path d=\"M" + place(s.points.front()) + "L";
    // A line without length has two round ends, which are a dot.
    const size_t second = s.points.size() > 1 ? 1 : 0;
    for (size_t i = second; i < s.points.size(); ++i)
      out_ += (i > second ? " " : "") + place(s.points[i]);
    out_ += "\"" + round_stroke(s.color, s.width);
    for (size_t i = 0; i < s.dashes.size(); ++i)
      out_ += (i == 0 ? " stroke-dasharray=\"" : " ") + number(s.dashes[i]);
    out_ += s.dashes.empty() ? "/>\n" : "\"/>\n";
  }
  static std::string round_stroke(Color color, double width) {
    return " fill=\"none\" stroke=\"" + hex(color) + "\"" + attribute("stroke-width", width) +
           " stroke-linecap=\"round\" stroke-linejoin=\"round\"";
  }
  // One path for all of them; steps from point to point keep it short.
  void add(const Markers& s) {
    const MarkerFigure& figure = marker_figure(s.shape);
    out_ += "<path d=\"";
    for (const Point& center : s.centers)
      for (const std::vector<Point>& part : figure.parts) {
        out_ += "M" + place(Point{center.x + s.size * part[0].x, center.y + s.size * part[0].y});
        if (part.size() == 1) out_ += "h0";  // two round ends, which are a dot
        for (size_t i = 1; i < part.size(); ++i)
          out_ += (i == 1 ? "l" : " ") + place(Point{s.size * (part[i].x - part[i - 1].x),
                                                     s.size * (part[i].y - part[i - 1].y)});
        if (figure.filled) out_ += "z";
      }
    out_ += "\"";
    out_ += figure.filled ? " fill=\"" + hex(s.color) + "\""
                          : round_stroke(s.color, figure.width * s.size);
    out_ += "/>\n";
  }
  // The lines of Hatch, but only where they cross one of the cells.
  void add(const HatchedCells& s) {
    out_ += "<path d=\"";
    const double bottom = s.box.y + s.box.height, end = s.box.x + s.box.width + bottom;
    for (double sum = (std::floor((s.box.x + s.box.y) / kHatchPeriod) + 1) * kHatchPeriod;
         sum < end; sum += kHatchPeriod)
      add_line_over(s, sum);
    out_ += "\" fill=\"none\" stroke=\"" + hex(kCellHatchColor) + "\"" +
            attribute("stroke-width", kCellHatchWidth) + "/>\n";
  }
  // The parts of the line x + y = sum over the cells. It enters a cell at a border of a column or
  // of a row.
  void add_line_over(const HatchedCells& s, double sum) {
    const double width = s.box.width / static_cast<double>(s.columns);
    const double height = s.box.height / static_cast<double>(s.rows);
    double x = std::max(s.box.x, sum - s.box.y - s.box.height);
    const double right = std::min(s.box.x + s.box.width, sum - s.box.y);
    int64_t column = std::min(s.columns - 1, static_cast<int64_t>((x - s.box.x) / width));
    int64_t row = std::min(s.rows - 1, static_cast<int64_t>((sum - x - s.box.y) / height));
    double begin = -1;  // of the part at work; -1: none
    while (x < right && row >= 0 && column < s.columns) {
      const bool lines = s.cells[static_cast<size_t>(row * s.columns + column)];
      if (lines && begin < 0) begin = x;
      if (!lines && begin >= 0) {
        add_part(begin, x, sum);
        begin = -1;
      }
      const double next_column = s.box.x + static_cast<double>(column + 1) * width;
      const double next_row = sum - s.box.y - static_cast<double>(row) * height;
      x = std::min({next_column, next_row, right});
      if (next_column <= x) ++column;
      if (next_row <= x) --row;
    }
    if (begin >= 0) add_part(begin, x, sum);
  }
  void add_part(double from, double to, double sum) {
    out_ +=
        "M" + number(from) + " " + number(sum - from) + "L" + number(to) + " " + number(sum - to);
  }
  // Draws lines, not a pattern: several programs paint patterns black, or not at all.
  void add(const Hatch& s) {
    const double right = s.box.x + s.box.width, bottom = s.box.y + s.box.height;
    out_ += "<path d=\"";
    // Lines are where x + y is a multiple of the period, so that they continue in neighbouring
    // areas.
    for (double sum = (std::floor((s.box.x + s.box.y) / kHatchPeriod) + 1) * kHatchPeriod;
         sum < right + bottom; sum += kHatchPeriod) {
      const double x1 = std::max(s.box.x, sum - bottom), x2 = std::min(right, sum - s.box.y);
      out_ += "M" + number(x1) + " " + number(sum - x1) + "L" + number(x2) + " " + number(sum - x2);
    }
    out_ += "\" fill=\"none\" stroke=\"" + hex(kHatchColor) + "\"" +
            attribute("stroke-width", kHatchWidth) + "/>\n";
  }
  void add(const ColorBar& s) {
    const std::string id = "rapt-bar-" + key_;
    out_ += "<defs><linearGradient id=\"" + id + "\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">";
    for (size_t i = 0; i < s.colors.stops.size(); ++i)
      out_ +=
          "<stop offset=\"" +
          number(100 * static_cast<double>(i) / static_cast<double>(s.colors.stops.size() - 1)) +
          "%\" stop-color=\"" + hex(s.colors.stops[i]) + "\"/>";
    out_ += "</linearGradient></defs>\n<rect" + place(s.box) + " fill=\"url(#" + id + ")\"/>\n";
  }
  void add(const Image& s) {
    // The style is for browsers; the attribute is SVG 1.1's way to keep pixels sharp.
    out_ += "<image" + place(s.box) +
            " preserveAspectRatio=\"none\" image-rendering=\"optimizeSpeed\" "
            "style=\"image-rendering:optimizeSpeed;image-rendering:pixelated\" "
            "xlink:href=\"data:image/png;base64," +
            base64(encode_png(magnified(s))) + "\"/>\n";
  }
  void add(const Text& s) {
    constexpr const char* kAnchors[] = {"start", "middle", "end"};
    // The baseline is half a capital's height below the anchor, across the direction of the text.
    const double drop = kCapHeight / 2 * s.size;
    const bool turned = s.turn == Turn::upwards;
    const double x = turned ? s.x + drop : s.x, y = turned ? s.y : s.y + drop;
    out_ += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", s.size);
    if (s.anchor != Anchor::start)
      out_ += std::string(" text-anchor=\"") + kAnchors[static_cast<int>(s.anchor)] + "\"";
    if (s.weight == Weight::bold) out_ += " font-weight=\"bold\"";
    if (turned) out_ += " transform=\"rotate(-90 " + number(x) + " " + number(y) + ")\"";
    out_ += " fill=\"" + hex(s.color) + "\">" + escape(closed(s.text)) + "</text>\n";
  }

  const std::string key_;
  std::string out_;
  bool in_fills_ = false;
};

// 64 bits (FNV-1a) in hexadecimal.
std::string hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[16];
  return {digits, std::to_chars(digits, digits + sizeof digits, hash, 16).ptr};
}

}  // namespace

std::string to_svg(const Heatmap& map) {
  const Drawing drawing = lay_out(map, Foreign::by_viewer);
  // Pictures in one HTML page share a space of identifiers, so the identifiers are a hash of the
  // picture.
  return SvgWriter(hash_of(SvgWriter("").write(drawing))).write(drawing);
}

std::string to_svg(const LineChart& chart) { return to_svg(std::vector<LineChart>{chart}); }

std::string to_svg(const std::vector<LineChart>& charts) {
  return SvgWriter("").write(lay_out(charts, Foreign::by_viewer));  // without identifiers
}

}  // namespace rapt::viz
