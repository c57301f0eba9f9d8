#pragma once
// The bytes of one member of a ZIP archive, from its first to its last, inflated if need be and
// compared with its CRC-32. Never more of them than the directory says.
#include <zlib.h>

#include <string>
#include <vector>

#include "io/npz/zip_directory.h"

namespace rapt {

class ZipMemberReader {
 public:
  // Both must outlive the reader. Throws std::bad_alloc.
  ZipMemberReader(const InputFile& file, const ZipMember& member);
  ~ZipMemberReader();
  ZipMemberReader(const ZipMemberReader&) = delete;
  ZipMemberReader& operator=(const ZipMemberReader&) = delete;

  // The next `count` bytes; all reads together are at most member.bytes. Throws Error(format, io).
  void read(std::byte* to, int64_t count);

  // After the last byte: is nothing left, and is the CRC-32 the one of the directory? Throws
  // Error(format, io).
  void finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  int64_t inflate_to(std::byte* to, int64_t count);

  const InputFile& file_;
  const ZipMember& member_;
  int64_t taken_ = 0;  // of the stored bytes
  uint32_t crc_ = 0;
  z_stream inflate_ = {};
  std::vector<std::byte> chunk_;  // of the stored bytes, being inflated
  bool ended_ = false;            // the deflated data said so
};

// Throws Error(format) where the CRC-32 of all bytes of a member is not the one of the directory.
void check_crc(const InputFile& file, const ZipMember& member, uint32_t crc);

}  // namespace rapt
