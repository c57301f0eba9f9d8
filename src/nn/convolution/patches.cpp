#include "rapt/nn/patches.h"

#include <cstring>

#include "nn/dense.h"
#include "nn/row_tasks.h"

namespace rapt::nn {
namespace {

// Pictures as [batch, rows, columns, channel, y, x]: the order of the numbers of the patches.
struct PatchGrid {
  int64_t batch, rows, columns, channels, height, width;
  int64_t batch_step, row_step, column_step, channel_step, y_step, x_step;

  int64_t patch() const { return channels * height * width; }
};

PatchGrid patch_grid(const TensorView& pictures, PatchSize size) {
  if (!pictures.defined()) throw Error(ErrorCode::argument, "pictures is missing");
  const std::string name = "pictures " + to_string(pictures.dims());
  if (pictures.rank != 4)
    throw Error(ErrorCode::shape, name + "; expected [batch, channels, height, width]");
  if (size.height < 1 || size.width < 1)
    throw Error(ErrorCode::argument, "patches of " + std::to_string(size.height) + " x " +
                                         std::to_string(size.width) +
                                         " pixels; expected at least 1 x 1");
  if (pictures.shape[2] % size.height != 0 || pictures.shape[3] % size.width != 0)
    throw Error(ErrorCode::shape, name + " is no multiple of patches of " +
                                      std::to_string(size.height) + " x " +
                                      std::to_string(size.width) + " pixels; crop or pad it");
  const int64_t* const steps = pictures.strides;
  return {.batch = pictures.shape[0],
          .rows = pictures.shape[2] / size.height,
          .columns = pictures.shape[3] / size.width,
          .channels = pictures.shape[1],
          .height = size.height,
          .width = size.width,
          .batch_step = steps[0],
          .row_step = size.height * steps[2],
          .column_step = size.width * steps[3],
          .channel_step = steps[1],
          .y_step = steps[2],
          .x_step = steps[3]};
}

// A run of elements at equal distances, to which outer dimensions are added.
struct EvenRun {
  int64_t count, step;

  // False if the elements of both dimensions are not at equal distances.
  bool extend(int64_t outer, int64_t outer_step) {
    if (count == 1) step = outer_step;
    if (count != 1 && outer != 1 && outer_step != count * step) return false;
    count *= outer;
    return true;
  }
};

// to[i * to_step] = from[i * from_step]. T has the size of an element.
template <class T>
void copy_pixels(const T* from, int64_t from_step, int64_t count, T* to, int64_t to_step) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

// Copies the patches of one row of the grid; ToPatches: from the picture, else into it.
template <class T, bool ToPatches>
void copy_patch_row(const PatchGrid& g, T* picture, T* patches) {
  for (int64_t c = 0; c < g.channels; ++c)
    for (int64_t y = 0; y < g.height; ++y)
      for (int64_t column = 0; column < g.columns; ++column) {
        T* const pixels = picture + c * g.channel_step + y * g.y_step + column * g.column_step;
        T* const numbers = patches + column * g.patch() + (c * g.height + y) * g.width;
        if constexpr (ToPatches)
          copy_pixels(pixels, g.x_step, g.width, numbers, 1);
        else
          copy_pixels(numbers, 1, g.width, pixels, g.x_step);
      }
}

template <class T, bool ToPatches>
void copy_patches_as(const PatchGrid& g, void* picture, void* patches, const Context& context) {
  constexpr double kCopyWork = 4;  // operations that copying an element takes, about
  const int64_t row = g.columns * g.patch();
  for_ranges(context, g.batch * g.rows, kCopyWork * static_cast<double>(g.batch * g.rows * row),
             [&](int64_t begin, int64_t end) {
               for (int64_t i = begin; i < end; ++i)
                 copy_patch_row<T, ToPatches>(
                     g,
                     static_cast<T*>(picture) + i / g.rows * g.batch_step + i % g.rows * g.row_step,
                     static_cast<T*>(patches) + i * row);
             });
}

template <bool ToPatches>
void copy_patches(const PatchGrid& g, const TensorView& pictures, const TensorView& patches,
                  const Context& context) {
  switch (size_of(pictures.dtype)) {
    case 1:
      return copy_patches_as<uint8_t, ToPatches>(g, pictures.data, patches.data, context);
    case 2:
      return copy_patches_as<uint16_t, ToPatches>(g, pictures.data, patches.data, context);
    case 4:
      return copy_patches_as<uint32_t, ToPatches>(g, pictures.data, patches.data, context);
    default:
      return copy_patches_as<uint64_t, ToPatches>(g, pictures.data, patches.data, context);
  }
}

}  // namespace

TensorView patches_in_place(const TensorView& pictures, PatchSize size) {
  const PatchGrid g = patch_grid(pictures, size);
  EvenRun patch{g.width, g.x_step}, grid{g.columns, g.column_step};
  if (!patch.extend(g.height, g.y_step) || !patch.extend(g.channels, g.channel_step) ||
      !grid.extend(g.rows, g.row_step))
    return {};
  TensorView patches = pictures;
  patches.rank = 3;
  patches.shape[1] = grid.count, patches.strides[1] = grid.step;
  patches.shape[2] = patch.count, patches.strides[2] = patch.step;
  return patches;
}

void to_patches(const TensorView& pictures, PatchSize size, const TensorView& patches,
                const Run& run) {
  if (run.counts()) return;
  const PatchGrid g = patch_grid(pictures, size);
  if (!pictures.empty() && !pictures.data)
    throw Error(ErrorCode::argument,
                "pictures " + to_string(pictures.dims()) + " has elements but a null data pointer");
  extent_of("pictures", pictures);
  check_alignment("pictures", pictures);
  const int64_t shape[] = {g.batch, g.rows * g.columns, g.patch()};
  check_output("patches", patches, shape, pictures.dtype);
  check_apart("patches", patches, "pictures", pictures);
  if (!pictures.empty()) copy_patches<true>(g, pictures, patches, run.context);
}

void from_patches(const TensorView& patches, PatchSize size, const TensorView& pictures,
                  const Run& run) {
  if (run.counts()) return;
  const PatchGrid g = patch_grid(pictures, size);
  check_output_tensor("pictures", pictures, pictures.dims(), pictures.dtype);
  const int64_t shape[] = {g.batch, g.rows * g.columns, g.patch()};
  check_input("patches", patches, shape, pictures.dtype);
  check_apart("pictures", pictures, "patches", patches);
  if (!pictures.empty()) copy_patches<false>(g, pictures, patches, run.context);
}

}  // namespace rapt::nn
