#pragma once
// NumPy's .npz files: a ZIP archive of .npy files, one per array, stored or deflated (ZIP64 too).
//
// Format: PKWARE APPNOTE 6.3.10, sections 4.3 (order of records) and 4.5.3 (ZIP64). The members are
// those of the central directory; every local header must agree with it, and members follow each
// other without gaps, overlaps or extra bytes. Names are never used as paths.
//
// As in NumPy, a tensor's name is that of its member without the ending ".npy". Every member must
// be a .npy file by its content, whatever its name. Arrays of types that rapt does not read (text,
// objects) are listed, without a dtype; load() rejects them. load() checks the CRC-32 each time.
#include <memory>
#include <span>

#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"

namespace rapt {

// Throws Error as rapt/io/tensor_file.h says.
TensorFile open_npz(const std::shared_ptr<const InputFile>& file, NpyV2 v2 = NpyV2::refuse);

enum class Compression : uint8_t { stored, deflated };  // of the elements of a tensor

// As numpy.savez (stored) or numpy.savez_compressed writes it: a name gets the ending ".npy"
// inside. The same tensors give the same bytes: no clock is read. Elements that are stored begin at
// multiples of 64 bytes, so that load() looks at them where they lie. Throws Error(dtype), and
// Error(argument) for names that are empty, not UTF-8, too long or given twice, before anything is
// written.
void write_npz(const WriteBytes& write, std::span<const NamedTensor> tensors,
               Compression compression = Compression::stored, NpyV2 v2 = NpyV2::refuse);

}  // namespace rapt
