#pragma once
// The members of a ZIP archive according to its records, checked before any member is read.
//
// The checks are stricter than the format: members and records follow each other without a gap or
// an overlap, from the first byte of the file to the last, so that no two readers can see different
// archives in it. The memory of the checks is proportional to the directory, never to a size that
// it claims.
#include <cstdint>
#include <string>
#include <vector>

#include "rapt/io/input_file.h"

namespace rapt {

// The largest compression factor of deflate. One bit stands for at most 129 bytes, because a length
// and a distance of one bit each copy 258 bytes. Source: zlib's technical details, "maximum
// compression factor".
inline constexpr int64_t kMaxDeflateRatio = 1032;

struct ZipMember {
  std::string name;  // UTF-8, not empty, without a zero byte. Never a path to open
  bool deflated = false;
  uint32_t crc = 0;          // CRC-32 of the bytes, uncompressed
  int64_t bytes = 0;         // uncompressed
  int64_t stored_bytes = 0;  // in the file
  int64_t offset = 0;        // of the stored bytes, in the file
};

// Returns the members in the order of the directory; names are distinct. Throws Error(format, io).
std::vector<ZipMember> read_zip_directory(const InputFile& file);

}  // namespace rapt
