#pragma once
// PNG files in memory, by libpng.
#include <cstdint>
#include <vector>

#include "viz/drawing.h"

namespace rapt::viz {

// Pixels [height, width] of 8-bit red, green and blue.
std::vector<unsigned char> encode_png(const std::vector<Color>& pixels, int64_t width,
                                      int64_t height);

// The image's pixels, one per cell, with its palette and a transparent colour.
std::vector<unsigned char> encode_png(const Image& image);

}  // namespace rapt::viz
