#pragma once
// Reads the bytes of one member of a ZIP archive, from the first to the last, inflates them if
// necessary, and compares their CRC-32. Never returns more bytes than the directory states.
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

  // Reads the next `count` bytes; all reads together are at most member.bytes. Throws Error(format,
  // io).
  void read(std::byte* to, int64_t count);

  // Checks, after the last byte, that nothing is left and that the CRC-32 is that of the directory.
  // Throws Error(format, io).
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
  bool ended_ = false;            // the end of the deflated data was reached
};

// Throws Error(format) if the CRC-32 of all bytes of a member is not that of the directory.
void check_crc(const InputFile& file, const ZipMember& member, uint32_t crc);

}  // namespace rapt
