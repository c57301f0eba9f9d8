#pragma once
// Colour maps: a value between 0 and 1 becomes a colour.
//
// A map is a row of stops at equal distances; between two stops sRGB components are interpolated
// linearly. Known: blues and greys (ColorBrewer, 9 stops), tutorial (three stops), viridis.
#include <cstdint>
#include <span>
#include <string_view>

namespace rapt::viz {

struct Color {  // in sRGB
  uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Color&) const = default;
};

struct ColorMap {  // a map by name
  std::string_view name;
  std::span<const Color> stops;  // at least two, in static storage

  Color at(double position) const;  // below 0 and above 1: the end colours
};

// All of them, in the order in which messages list them.
std::span<const ColorMap> color_maps();

// The map of that name, upper or lower case. Throws Error(unknown_name) that lists the known ones.
const ColorMap& color_map(std::string_view name);

}  // namespace rapt::viz
