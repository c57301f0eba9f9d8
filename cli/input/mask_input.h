#pragma once
// Masks of the command line.
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cli/input/tensor_input.h"
#include "rapt/mask/mask.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// The result of --mask: masks, and the tensors that they refer to.
struct MaskInput {
  std::vector<std::string> specs;            // as given, without the one taken as a bias
  std::vector<std::unique_ptr<Mask>> masks;  // in the order of specs
  std::vector<const Mask*> pointers;         // the same, for AttentionOptions
  std::deque<LoadedTensor> tensors;          // files that the masks refer to; must not move
  LoadedTensor bias;                         // of file:F.npy with floats; absent if none
  std::string bias_file;
};

// Throws usage errors that follow from the text of a spec alone; no file is opened.
void check_masks(const std::vector<std::string>& specs);

// Reads `causal`, `window:4,0`, `causal|prefix(8)`, `file:M.npy` and so on. A float file is a bias.
// A float file with only 0 and 1 could be either and is rejected.
MaskInput read_masks(const std::vector<std::string>& specs, TensorInput& files);

}  // namespace rapt::cli
