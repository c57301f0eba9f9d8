// The stops of the colour maps, and the map of a name. Sources: ColorBrewer 2.0 (blues, greys),
// matplotlib's viridis sampled at ninths (CC0).
#include "rapt/viz/color_map.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "rapt/error.h"

namespace rapt::viz {
namespace {

constexpr Color rgb(uint32_t hex) {
  return {static_cast<uint8_t>(hex >> 16), static_cast<uint8_t>(hex >> 8 & 0xff),
          static_cast<uint8_t>(hex & 0xff)};
}

constexpr Color kBlues[] = {rgb(0xf7fbff), rgb(0xdeebf7), rgb(0xc6dbef),
                            rgb(0x9ecae1), rgb(0x6baed6), rgb(0x4292c6),
                            rgb(0x2171b5), rgb(0x08519c), rgb(0x08306b)};
constexpr Color kTutorial[] = {rgb(0xe9ecef), rgb(0x74c0fc), rgb(0x1c7ed6)};
constexpr Color kViridis[] = {rgb(0x440154), rgb(0x482878), rgb(0x3e4989), rgb(0x31688e),
                              rgb(0x26828e), rgb(0x1f9e89), rgb(0x35b779), rgb(0x6ece58),
                              rgb(0xb5de2b), rgb(0xfde725)};
constexpr Color kGreys[] = {rgb(0xffffff), rgb(0xf0f0f0), rgb(0xd9d9d9),
                            rgb(0xbdbdbd), rgb(0x969696), rgb(0x737373),
                            rgb(0x525252), rgb(0x252525), rgb(0x000000)};
constexpr ColorMap kMaps[] = {
    {"blues", kBlues}, {"tutorial", kTutorial}, {"viridis", kViridis}, {"greys", kGreys}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

Color ColorMap::at(double position) const {
  const double scaled = std::clamp(position, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const size_t left = std::min(static_cast<size_t>(scaled), stops.size() - 2);
  const double part = scaled - static_cast<double>(left);
  const auto mix = [part](uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(std::lround(a + (b - a) * part));
  };
  const Color& a = stops[left];
  const Color& b = stops[left + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

std::span<const ColorMap> color_maps() { return kMaps; }

const ColorMap& color_map(std::string_view name) {
  std::string known;
  for (const ColorMap& map : kMaps) {
    if (equal_ignoring_case(map.name, name)) return map;
    known.append(known.empty() ? "" : ", ").append(map.name);
  }
  throw Error(ErrorCode::unknown_name,
              "expected the name of a colour map (" + known + "), got '" + std::string(name) + "'");
}

}  // namespace rapt::viz
