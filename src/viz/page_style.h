#pragma once
// Sizes and colours that heatmaps and line charts share. Units are those of the picture, which a
// browser shows as pixels.
#include "viz/drawing.h"

namespace rapt::viz {

inline constexpr double kMargin = 14;
inline constexpr double kLabelFont = 12, kTitleFont = 15, kCaptionFont = 11;
inline constexpr double kTickLength = 4, kTickGap = 3;
inline constexpr double kLongestLabel = 150;
inline constexpr double kAxisTitleGap = 8, kTitleGap = 12, kLegendGap = 6;
inline constexpr int kMaxTitleLines = 3, kMaxCaptionLines = 4;
inline constexpr double kBold = 1.2;  // bold letters are wider by up to this

inline constexpr Color kFaintInk{0x49, 0x50, 0x57};
inline constexpr Color kAxisColor{0x86, 0x8e, 0x96};

inline constexpr const char* kBoxedCaption =
    "Boxes hold the code points of characters that this font lacks; an SVG shows them.";

constexpr double text_height(double font) { return kCapHeight * font; }

}  // namespace rapt::viz
