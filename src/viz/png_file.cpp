#include "viz/png_file.h"

#include <png.h>

#include <string>

#include "rapt/error.h"

namespace rapt::viz {
namespace {

static_assert(sizeof(Color) == 3, "pixels are passed to libpng as bytes");

std::vector<unsigned char> encode(png_image& image, const void* pixels, const void* colormap) {
  const auto require = [&image](int ok) {
    if (ok) return;
    const std::string reason = image.message;
    png_image_free(&image);
    throw Error(ErrorCode::unsupported, "libpng cannot encode this picture: " + reason);
  };
  // A bound: measuring the size would compress the picture once more.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<unsigned char> file(size);
  require(png_image_write_to_memory(&image, file.data(), &size, 0, pixels, 0, colormap));
  file.resize(size);
  return file;
}

png_image describe(int64_t width, int64_t height, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  return image;
}

}  // namespace

std::vector<unsigned char> encode_png(const std::vector<Color>& pixels, int64_t width,
                                      int64_t height) {
  png_image image = describe(width, height, PNG_FORMAT_RGB);
  // Filters serve photographs: choosing one per row takes longer than drawing a chart.
  image.flags |= PNG_IMAGE_FLAG_FAST;
  return encode(image, pixels.data(), nullptr);
}

std::vector<unsigned char> encode_png(const Image& source) {
  png_image image = describe(source.columns, source.rows, PNG_FORMAT_RGBA_COLORMAP);
  std::vector<unsigned char> colormap;
  for (const Color& c : source.palette)
    colormap.insert(colormap.end(), {c.red, c.green, c.blue, 0xff});
  colormap.insert(colormap.end(), {0, 0, 0, 0});
  image.colormap_entries = static_cast<png_uint_32>(source.palette.size() + 1);
  return encode(image, source.pixels.data(), colormap.data());
}

}  // namespace rapt::viz
