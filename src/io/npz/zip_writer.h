#pragma once
// Writes a ZIP archive from its first byte to its last, without seeking back, so that it can go
// through a pipe.
//
// The format is that of numpy.savez. The date is 1980-01-01, so that the same members give the same
// bytes; ZIP64 is used where a size or an offset needs it. An uncompressed member begins at a
// multiple of 64 bytes: an extra field fills up its header (0xD935, as in Android's archives). A
// deflated member is followed by its CRC-32 and sizes, which are known only then.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rapt/io/output_file.h"

namespace rapt {

class ZipWriter {
 public:
  struct Member {
    std::string name;  // UTF-8, at most 65,535 bytes
    bool deflated = false;
    int64_t bytes = 0;  // uncompressed
  };
  // Writes all bytes of a member; is called twice for one that is stored: its CRC-32 comes first.
  using Produce = std::function<void(const WriteBytes&)>;

  explicit ZipWriter(const WriteBytes& write) : write_(write) {}

  void add(const Member& member, const Produce& produce);
  void finish();  // the directory

 private:
  struct Written {
    Member member;
    uint16_t flags = 0;
    uint16_t version = 0;  // that a reader needs
    uint32_t crc = 0;
    int64_t stored_bytes = 0;
    int64_t header = 0;  // where the local header is
  };

  void put(const std::string& bytes);
  void write_local_header(const Written& entry, bool zip64);
  void write_stored(const Written& entry, const Produce& produce);
  void write_deflated(Written& entry, const Produce& produce);
  void write_descriptor(const Written& entry, bool zip64);
  void write_central_header(const Written& entry);

  const WriteBytes& write_;
  int64_t at_ = 0;  // bytes written
  std::vector<Written> entries_;
};

}  // namespace rapt
