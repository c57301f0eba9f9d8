#pragma once
// What a ZIP archive says of its members, checked before any of them is read.
//
// Stricter than the format: members and records follow each other without a gap or an overlap, from
// the first byte of the file to the last, so that no two readers can see different archives in it.
// What is checked costs memory in proportion to the directory, never to a size that it claims.
#include <cstdint>
#include <string>
#include <vector>

#include "rapt/io/input_file.h"

namespace rapt {

// A bit of deflate's output stands for at most 129 bytes: 258 are copied by a length and a distance
// of one bit each. Source: zlib's technical details, "maximum compression factor".
inline constexpr int64_t kMaxDeflateRatio = 1032;

struct ZipMember {
  std::string name;  // UTF-8, not empty, without a zero byte. Never a path to open
  bool deflated = false;
  uint32_t crc = 0;          // CRC-32 of the bytes, uncompressed
  int64_t bytes = 0;         // uncompressed
  int64_t stored_bytes = 0;  // in the file
  int64_t offset = 0;        // of the stored bytes, in the file
};

// In the order of the directory; names are distinct. Throws Error(format, io).
std::vector<ZipMember> read_zip_directory(const InputFile& file);

}  // namespace rapt
