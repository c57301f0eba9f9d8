#pragma once
// The place of the directory of a ZIP archive, from the records at the end of the file.
#include <cstdint>

#include "rapt/io/input_file.h"

namespace rapt {

struct ZipDirectoryPlace {
  int64_t offset = 0;   // in the file; offset + bytes is within it
  int64_t bytes = 0;    // up to the records at the end
  int64_t entries = 0;  // at most bytes / kCentralBytes
};

// Throws Error(format, io).
ZipDirectoryPlace find_zip_directory(const InputFile& file);

}  // namespace rapt
