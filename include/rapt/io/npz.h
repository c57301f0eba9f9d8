#pragma once
// NumPy's .npz files: a ZIP archive of .npy files, one per array, stored or deflated (ZIP64 too).
//
// Format: PKWARE APPNOTE 6.3.10, sections 4.3 (order of records) and 4.5.3 (ZIP64). The central
// directory is what counts; every local header must agree with it.
#include <memory>
#include <span>

#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"

namespace rapt {

// Throws Error as rapt/io/tensor_file.h says.
TensorFile open_npz(std::shared_ptr<const InputFile> file, NpyV2 v2 = NpyV2::refuse);

enum class Compression : uint8_t { stored, deflated };

// As numpy.savez (stored) or numpy.savez_compressed writes it: a name gets the ending ".npy"
// inside. Throws Error(dtype, argument) before anything is written.
void write_npz(const WriteBytes& write, std::span<const NamedTensor> tensors,
               Compression compression = Compression::stored, NpyV2 v2 = NpyV2::refuse);

}  // namespace rapt
