#include "viz/raster.h"

#include <algorithm>
#include <cmath>

#include "viz/chart/marker_figure.h"
#include "viz/text/stroke_font.h"

namespace rapt::viz {
namespace {

// Half the width of the pen, per font size.
constexpr double kPen = 0.043, kBoldPen = 0.066, kCodePen = 0.028;

class Painter {
 public:
  Painter(const Drawing& drawing, int scale) : scale_(scale) {
    raster_.width = std::lround(drawing.width * scale);
    raster_.height = std::lround(drawing.height * scale);
    raster_.pixels.assign(raster_.width * raster_.height, kWhite);
  }

  void add(const Fill& s) {
    for_pixels(s.box, [&](int64_t, int64_t) { return s.color; });
  }

  void add(const Frame& s) {
    const Box& b = s.box;
    const double h = 0.5, w = b.width + 1;
    add(Fill{{b.x - h, b.y - h, w, 1}, s.color});
    add(Fill{{b.x - h, b.y + b.height - h, w, 1}, s.color});
    add(Fill{{b.x - h, b.y - h, 1, b.height + 1}, s.color});
    add(Fill{{b.x + b.width - h, b.y - h, 1, b.height + 1}, s.color});
  }

  void add(const Line& s) {
    const double across = s.x1 == s.x2 ? 0.5 : 0, along = s.y1 == s.y2 ? 0.5 : 0;
    add(Fill{{s.x1 - across, s.y1 - along, s.x2 - s.x1 + 2 * across, s.y2 - s.y1 + 2 * along},
             s.color});
  }

  void add(const Curve& s) {
    std::vector<Segment> strokes;  // in pixels
    const Point* before = &s.points.front();
    for (const Point& point : s.points) {
      strokes.push_back(
          {before->x * scale_, before->y * scale_, point.x * scale_, point.y * scale_});
      before = &point;
    }
    stroke(s.dashes.empty() ? strokes : cut_to_dashes(strokes, s.dashes), s.width / 2 * scale_,
           s.color);
  }

  void add(const Markers& s) {
    const MarkerFigure& figure = marker_figure(s.shape);
    const double size = s.size * scale_;
    for (const Point& center : s.centers) {
      std::vector<Segment> edges;  // in pixels
      for (const std::vector<Point>& part : figure.parts)
        for (size_t i = 0; i < part.size(); ++i) {
          const bool last = i + 1 == part.size();
          if (last && i > 0 && !figure.filled) continue;
          const Point& next = last ? part[0] : part[i + 1];
          edges.push_back({center.x * scale_ + size * part[i].x,
                           center.y * scale_ + size * part[i].y, center.x * scale_ + size * next.x,
                           center.y * scale_ + size * next.y});
        }
      if (figure.filled)
        fill_convex(edges, s.color);
      else
        stroke(edges, figure.width / 2 * size, s.color);
    }
  }

  void add(const Hatch& s) {
    const int64_t period = std::lround(kHatchPeriod * scale_);
    // Measured along x, a line at 45 degrees is wider by the square root of two.
    const int64_t line = std::lround(kHatchWidth * scale_ * std::sqrt(2.0));
    for_pixels(s.box, [&](int64_t x, int64_t y) {
      return (x + y) % period < line ? kHatchColor : kWhite;
    });
  }

  void add(const HatchedCells& s) {
    const int64_t period = std::lround(kHatchPeriod * scale_);
    const int64_t line = std::lround(kCellHatchWidth * scale_ * std::sqrt(2.0));
    for_pixels(s.box, [&](int64_t x, int64_t y) {
      const bool lines = (x + y) % period < line && s.cells[cell_at(s, x, y)];
      return lines ? kCellHatchColor : raster_.pixels[y * raster_.width + x];
    });
  }

  void add(const ColorBar& s) {
    const double top = s.box.y * scale_, height = s.box.height * scale_;
    for_pixels(s.box, [&](int64_t, int64_t y) {
      return s.colors.at(1 - (static_cast<double>(y) + 0.5 - top) / height);
    });
  }

  void add(const Image& s) {
    for_pixels(s.box, [&](int64_t x, int64_t y) {
      const uint8_t index = s.pixels[cell_at(s, x, y)];
      return index < s.palette.size() ? s.palette[index] : raster_.pixels[y * raster_.width + x];
    });
  }

  void add(const Text& s) {
    const double width = text_width(s.text, Foreign::as_box) * s.size;
    double along = s.anchor == Anchor::start ? 0 : s.anchor == Anchor::end ? -width : -width / 2;
    const double drop = kCapHeight / 2 * s.size;
    for (const Glyph& g : glyphs_of(s.text)) {
      const double weight = g.is_code ? kCodePen : s.weight == Weight::bold ? kBoldPen : kPen;
      const double pen = std::max(0.5, weight * s.size * scale_);
      std::vector<Segment> strokes;  // in pixels
      for (const Segment& line : g.segments) {
        const auto place = [&](double x, double y, double& to_x, double& to_y) {
          const double right = along + x * s.size, down = drop - y * s.size;
          to_x = scale_ * (s.turn == Turn::none ? s.x + right : s.x + down);
          to_y = scale_ * (s.turn == Turn::none ? s.y + down : s.y - right);
        };
        Segment& to = strokes.emplace_back();
        place(line.x1, line.y1, to.x1, to.y1);
        place(line.x2, line.y2, to.x2, to.y2);
      }
      stroke(strokes, pen, s.color);
      along += g.advance * s.size;
    }
  }

  Raster finish() { return std::move(raster_); }

 private:
  // The cell of Image or HatchedCells under a pixel.
  template <class Grid>
  int64_t cell_at(const Grid& grid, int64_t x, int64_t y) const {
    const auto cell = [this](int64_t pixel, double start, double length, int64_t count) {
      const double size = length * scale_ / static_cast<double>(count);
      return std::clamp<int64_t>(
          static_cast<int64_t>((static_cast<double>(pixel) + 0.5 - start * scale_) / size), 0,
          count - 1);
    };
    return cell(y, grid.box.y, grid.box.height, grid.rows) * grid.columns +
           cell(x, grid.box.x, grid.box.width, grid.columns);
  }

  template <class ColorAt>
  void for_pixels(const Box& box, ColorAt color_at) {
    const auto edge = [this](double at, int64_t end) {
      return std::clamp<int64_t>(std::lround(at * scale_), 0, end);
    };
    const int64_t right = edge(box.x + box.width, raster_.width);
    const int64_t bottom = edge(box.y + box.height, raster_.height);
    for (int64_t y = edge(box.y, raster_.height); y < bottom; ++y)
      for (int64_t x = edge(box.x, raster_.width); x < right; ++x)
        raster_.pixels[y * raster_.width + x] = color_at(x, y);
  }

  static double squared_distance(const Segment& s, double x, double y) {
    const double dx = s.x2 - s.x1, dy = s.y2 - s.y1, length = dx * dx + dy * dy;
    const double along =
        length > 0 ? std::clamp(((x - s.x1) * dx + (y - s.y1) * dy) / length, 0.0, 1.0) : 0;
    const double right = x - s.x1 - along * dx, down = y - s.y1 - along * dy;
    return right * right + down * down;
  }

  // Pixels [x, x_end) x [y, y_end).
  struct Area {
    int64_t x, y, x_end, y_end;
    int64_t width() const { return x_end - x; }
    int64_t height() const { return y_end - y; }
  };

  // The pixels that a pen may touch between two corners.
  Area touched(double left, double top, double right, double bottom, double pen) const {
    const auto pixel = [](double at, int64_t end) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, end);
    };
    const double reach = pen + 1;
    return {pixel(left - reach, raster_.width), pixel(top - reach, raster_.height),
            pixel(right + reach + 1, raster_.width), pixel(bottom + reach + 1, raster_.height)};
  }

  Area touched(const Segment& s, double pen) const {
    return touched(std::min(s.x1, s.x2), std::min(s.y1, s.y2), std::max(s.x1, s.x2),
                   std::max(s.y1, s.y2), pen);
  }

  Area touched(const std::vector<Segment>& strokes, double pen) const {
    double left = strokes[0].x1, right = left, top = strokes[0].y1, bottom = top;
    for (const Segment& s : strokes) {
      left = std::min({left, s.x1, s.x2});
      right = std::max({right, s.x1, s.x2});
      top = std::min({top, s.y1, s.y2});
      bottom = std::max({bottom, s.y1, s.y2});
    }
    return touched(left, top, right, bottom, pen);
  }

  // The strokes of a dashed curve, which go on around its corners. Dashes are in units.
  std::vector<Segment> cut_to_dashes(const std::vector<Segment>& curve,
                                     const std::vector<double>& dashes) const {
    std::vector<Segment> strokes;
    size_t dash = 0;
    double left = dashes[0] * scale_;  // of the stroke or gap at work
    for (const Segment& s : curve) {
      const double length = std::hypot(s.x2 - s.x1, s.y2 - s.y1);
      const auto point = [&](double along) {
        return Point{s.x1 + (s.x2 - s.x1) * along / length, s.y1 + (s.y2 - s.y1) * along / length};
      };
      for (double along = 0; along < length;) {
        const double step = std::min(left, length - along);
        if (dash % 2 == 0) {
          const Point from = point(along), to = point(along + step);
          strokes.push_back({from.x, from.y, to.x, to.y});
        }
        along += step;
        left -= step;
        if (left > 0) continue;
        dash = (dash + 1) % dashes.size();
        left = dashes[dash] * scale_;
      }
    }
    return strokes;
  }

  // The distance of a pixel from the nearest edge determines its coverage.
  void fill_convex(const std::vector<Segment>& edges, Color color) {
    const Area area = touched(edges, 0);
    std::vector<double> lengths;
    for (const Segment& s : edges) lengths.push_back(std::hypot(s.x2 - s.x1, s.y2 - s.y1));
    for (int64_t y = area.y; y < area.y_end; ++y)
      for (int64_t x = area.x; x < area.x_end; ++x) {
        double inside = 1;
        for (size_t i = 0; i < edges.size(); ++i) {
          const Segment& s = edges[i];  // clockwise, y downwards: the inside is on the right
          const double dx = s.x2 - s.x1, dy = s.y2 - s.y1;
          const double depth = (dx * (static_cast<double>(y) + 0.5 - s.y1) -
                                dy * (static_cast<double>(x) + 0.5 - s.x1)) /
                               lengths[i];
          inside = std::min(inside, std::clamp(depth + 0.5, 0.0, 1.0));
        }
        if (inside > 0) blend(raster_.pixels[y * raster_.width + x], color, inside);
      }
  }

  // Draws a glyph or a curve. The depth of a pixel in its nearest stroke determines its coverage,
  // so that crossing strokes do not darken each other.
  void stroke(const std::vector<Segment>& strokes, double pen, Color color) {
    covers_.resize(raster_.pixels.size());
    const double reach = pen + 0.5;
    std::vector<int64_t> inked;  // only these pixels of covers_ are not 0
    for (const Segment& s : strokes) {
      const Area area = touched(s, pen);
      for (int64_t y = area.y; y < area.y_end; ++y) {
        for (int64_t x = area.x; x < area.x_end; ++x) {
          const double squared =
              squared_distance(s, static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
          if (squared >= reach * reach) continue;
          const double away = std::sqrt(squared);
          double& cover = covers_[y * raster_.width + x];
          if (cover == 0) inked.push_back(y * raster_.width + x);
          cover = std::max(cover, std::min(pen - away + 0.5, 1.0));
        }
      }
    }
    for (const int64_t pixel : inked) {
      blend(raster_.pixels[pixel], color, covers_[pixel]);
      covers_[pixel] = 0;
    }
  }

  static void blend(Color& pixel, Color ink, double cover) {
    const auto mix = [cover](uint8_t below, uint8_t above) {
      return static_cast<uint8_t>(std::lround(below + (above - below) * cover));
    };
    pixel = {mix(pixel.red, ink.red), mix(pixel.green, ink.green), mix(pixel.blue, ink.blue)};
  }

  const int scale_;
  Raster raster_;
  std::vector<double> covers_;  // [height, width], of the strokes at work: 0 to 1
};

}  // namespace

Raster rasterize(const Drawing& drawing, int scale) {
  Painter painter(drawing, scale);
  for (const Shape& shape : drawing.shapes)
    std::visit([&painter](const auto& s) { painter.add(s); }, shape);
  return painter.finish();
}

}  // namespace rapt::viz
