#pragma once
// Pictures as rows of patches, which a Linear embeds (Dosovitskiy et al. 2021, arXiv:2010.11929,
// section 3.1), and back.
//
//   pictures [batch, channels, rows * height, columns * width]
//   patches  [batch, rows * columns, channels * height * width]
//
// A patch has `height` x `width` pixels; patches do not overlap. They are numbered row by row, and
// the numbers of a patch are ordered (channel, y, x). This is F.unfold with kernel_size = stride =
// (height, width), transposed, and the order in which ViT's nn.Conv2d of that kernel and stride
// holds its weight: [features, channels, height, width] is the weight [features, channels * height
// * width] of the Linear.
//
// to_patches() and from_patches() are inverses, so each is the gradient of the other. They copy any
// dtype. Pictures may have any strides (channels last); patches are dense. height and width must
// divide the picture's. Outputs must be apart from inputs.
#include "rapt/nn/run.h"

namespace rapt::nn {

// Height and width of a patch, in pixels.
struct PatchSize {
  int64_t height = 16, width = 16;  // pixels
};

// The patches of pictures without a copy, or a view that is absent where strides do not allow it.
// They do where pixels that follow each other in a patch lie at equal distances: one channel and
// one column of patches, or patches of one column of pixels or one pixel. Throws Error(shape).
TensorView patches_in_place(const TensorView& pictures, PatchSize size);

// Copies pictures to rows of patches.
void to_patches(const TensorView& pictures, PatchSize size, const TensorView& patches,
                const Run& run);
// Copies rows of patches back to pictures; the gradient of to_patches().
void from_patches(const TensorView& patches, PatchSize size, const TensorView& pictures,
                  const Run& run);

}  // namespace rapt::nn
