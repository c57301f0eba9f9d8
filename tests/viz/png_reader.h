#pragma once
// Reads a PNG file back with libpng.
#include <gtest/gtest.h>
#include <png.h>

#include <vector>

#include "rapt/viz/color_map.h"

namespace rapt::viz::test {

struct PngPixels {
  int64_t width = 0, height = 0;
  std::vector<unsigned char> rgba;  // [height, width, 4]

  explicit PngPixels(const std::vector<unsigned char>& file) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    EXPECT_TRUE(png_image_begin_read_from_memory(&image, file.data(), file.size()))
        << image.message;
    image.format = PNG_FORMAT_RGBA;
    rgba.resize(PNG_IMAGE_SIZE(image));
    EXPECT_TRUE(png_image_finish_read(&image, nullptr, rgba.data(), 0, nullptr)) << image.message;
    width = image.width;
    height = image.height;
  }

  Color at(int64_t x, int64_t y) const {
    const unsigned char* p = &rgba.at(static_cast<size_t>((y * width + x) * 4));
    return {p[0], p[1], p[2]};
  }
  bool opaque(int64_t x, int64_t y) const {
    return rgba.at(static_cast<size_t>((y * width + x) * 4 + 3)) == 0xff;
  }
};

}  // namespace rapt::viz::test
