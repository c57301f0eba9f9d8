#include "rapt/nn/patches.h"

#include <gtest/gtest.h>

#include <cstring>

#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;

void to_patches(const TensorView& pictures, nn::PatchSize size, const TensorView& patches) {
  Counted()([&](nn::Arena&, const nn::Run& run) { nn::to_patches(pictures, size, patches, run); });
}
void from_patches(const TensorView& patches, nn::PatchSize size, const TensorView& pictures) {
  Counted()(
      [&](nn::Arena&, const nn::Run& run) { nn::from_patches(patches, size, pictures, run); });
}

struct PatchCase {
  int64_t batch, channels, rows, columns, height, width;
};

TEST(PatchesTest, EveryPixelStandsWhereItIsSaid) {
  for (const PatchCase c : {PatchCase{2, 3, 2, 4, 3, 5},
                            {1, 1, 1, 1, 1, 1},
                            {3, 2, 5, 1, 2, 4},
                            {1, 4, 3, 3, 1, 1},
                            {0, 3, 2, 2, 2, 2}}) {
    const int64_t height = c.rows * c.height, width = c.columns * c.width;
    const Tensor pictures = normal(DType::f32, {c.batch, c.channels, height, width}, 1);
    Tensor patches(DType::f32, {c.batch, c.rows * c.columns, c.channels * c.height * c.width});
    to_patches(pictures, {c.height, c.width}, patches);
    const auto pixels = pictures.values<float>();
    const auto numbers = patches.values<float>();
    size_t at = 0;
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t row = 0; row < c.rows; ++row)
        for (int64_t column = 0; column < c.columns; ++column)
          for (int64_t channel = 0; channel < c.channels; ++channel)
            for (int64_t y = 0; y < c.height; ++y)
              for (int64_t x = 0; x < c.width; ++x, ++at) {
                const int64_t pixel_y = row * c.height + y, pixel_x = column * c.width + x;
                const int64_t pixel =
                    ((b * c.channels + channel) * height + pixel_y) * width + pixel_x;
                ASSERT_EQ(numbers[at], pixels[static_cast<size_t>(pixel)]) << at;
              }
    Tensor back(DType::f32, pictures.dims());
    from_patches(patches, {c.height, c.width}, back);
    EXPECT_EQ(std::memcmp(back.data(), pictures.data(), 4 * pixels.size()), 0);
  }
}

TEST(PatchesTest, TakesChannelsLastAndEveryElementSize) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const int64_t size = size_of(dtype);
    Tensor last(dtype, {2, 6, 8, 3}), first(dtype, {2, 3, 6, 8});
    auto* const bytes = static_cast<unsigned char*>(last.data());
    for (int64_t i = 0; i < last.count() * size; ++i)
      bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t i = 0; i < 48; ++i)
        for (int64_t c = 0; c < 3; ++c)
          std::memcpy(static_cast<unsigned char*>(first.data()) + ((b * 3 + c) * 48 + i) * size,
                      bytes + ((b * 48 + i) * 3 + c) * size, static_cast<size_t>(size));
    const int64_t shape[] = {2, 3, 6, 8}, steps[] = {144, 1, 24, 3};
    const TensorView view(last.data(), dtype, shape, steps, false);
    Tensor of_last(dtype, {2, 6, 24}), of_first(dtype, {2, 6, 24});
    to_patches(view, {2, 4}, of_last);
    to_patches(first, {2, 4}, of_first);
    EXPECT_EQ(std::memcmp(of_last.data(), of_first.data(), static_cast<size_t>(288 * size)), 0);
    const Tensor before = Tensor::copy_of(last);
    std::memset(last.data(), 0, static_cast<size_t>(288 * size));
    from_patches(of_last, {2, 4}, view);
    EXPECT_EQ(std::memcmp(last.data(), before.data(), static_cast<size_t>(288 * size)), 0);
  }
}

TEST(PatchesTest, InPlaceWhereStridesAllowIt) {
  const Tensor wide = normal(DType::f32, {2, 3, 8, 6}, 2);
  EXPECT_FALSE(nn::patches_in_place(wide, {2, 6}).defined());  // several channels
  EXPECT_FALSE(nn::patches_in_place(wide, {2, 3}).defined());
  const Tensor grey = normal(DType::f32, {2, 1, 8, 6}, 3);
  EXPECT_FALSE(nn::patches_in_place(grey, {2, 3}).defined());
  for (const nn::PatchSize size : {nn::PatchSize{2, 6}, {8, 6}, {1, 6}, {1, 3}, {1, 1}}) {
    const TensorView view = nn::patches_in_place(grey, size);
    ASSERT_TRUE(view.defined());
    Tensor patches(DType::f32, view.dims());
    to_patches(grey, size, patches);
    EXPECT_EQ(std::memcmp(Tensor::copy_of(view).data(), patches.data(),
                          static_cast<size_t>(4 * patches.count())),
              0);
  }
  EXPECT_TRUE(nn::patches_in_place(wide, {8, 6}).defined());  // one patch: the picture
}

TEST(PatchesTest, IsTheSameForAnyThreads) {
  const Tensor pictures = normal(DType::f32, {8, 3, 224, 224}, 4);
  expect_same_bits([&](const Context& context) {
    std::vector<Tensor> results;
    results.emplace_back(DType::f32, std::initializer_list<int64_t>{8, 196, 768});
    results.emplace_back(DType::f32, pictures.dims());
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      nn::to_patches(pictures, {}, results[0], run);
      nn::from_patches(results[0], {}, results[1], run);
    });
    return results;
  });
}

TEST(PatchesTest, RejectsWhatDoesNotFit) {
  Tensor pictures(DType::f32, {1, 3, 8, 8}), patches(DType::f32, {1, 4, 48});
  laws::expect_error(ErrorCode::shape, {"multiple"}, [&] {
    to_patches(pictures, {3, 4}, patches);
  });
  laws::expect_error(ErrorCode::argument, {"at least 1"}, [&] {
    to_patches(pictures, {0, 4}, patches);
  });
  laws::expect_error(ErrorCode::shape, {"patches"}, [&] { to_patches(pictures, {2, 2}, patches); });
  laws::expect_error(ErrorCode::shape, {"pictures"}, [&] { to_patches(patches, {4, 4}, patches); });
  Tensor wrong(DType::f64, {1, 4, 48});
  laws::expect_error(ErrorCode::dtype, {"patches"}, [&] { to_patches(pictures, {4, 4}, wrong); });
  laws::expect_error(ErrorCode::dtype, {"patches"}, [&] { from_patches(wrong, {4, 4}, pictures); });
  laws::expect_error(ErrorCode::overlap, {"patches", "pictures"}, [&] {
    to_patches(pictures, {4, 4}, TensorView(pictures.values<float>().data(), {1, 4, 48}));
  });
  const Tensor fixed(DType::f32, {1, 3, 8, 8});
  laws::expect_error(ErrorCode::argument, {"read-only"}, [&] {
    from_patches(patches, {4, 4}, fixed);
  });
  EXPECT_THROW(nn::patches_in_place({}, {4, 4}), Error);
}

}  // namespace
