#pragma once
// ZIP archives, built byte by byte. They are valid by default, and a test can falsify each field.
#include <zlib.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/npz/zip_records.h"

namespace rapt::test {

inline uint32_t crc_of(const std::string& bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

inline std::string deflated(const std::string& bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// The fields that local header and directory share.
struct ZipHeader {
  std::string name, extra;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0, stored_bytes = 0, bytes = 0;
};

struct ZipPart {
  ZipHeader local, central;
  std::string data, descriptor;
  std::optional<uint32_t> header_at;  // in the directory; absent: the true position
};

inline ZipPart zip_part(const std::string& name, const std::string& content, bool compress) {
  ZipPart part;
  part.data = compress ? deflated(content) : content;
  ZipHeader& header = part.local;
  header.name = name;
  header.method = compress ? kMethodDeflated : kMethodStored;
  header.crc = crc_of(content);
  header.stored_bytes = static_cast<uint32_t>(part.data.size());
  header.bytes = static_cast<uint32_t>(content.size());
  part.central = header;
  return part;
}
inline ZipPart stored(const std::string& name, const std::string& content) {
  return zip_part(name, content, false);
}
inline ZipPart compressed(const std::string& name, const std::string& content) {
  return zip_part(name, content, true);
}

// As written by streams that cannot seek: CRC and sizes follow the data.
inline ZipPart streamed(ZipPart part, bool signature, int size_bytes) {
  part.local.flags = part.central.flags = kFlagDescriptor;
  part.local.crc = part.local.stored_bytes = part.local.bytes = 0;
  if (signature) put_u32(part.descriptor, kDescriptorSignature);
  put_u32(part.descriptor, part.central.crc);
  put_number(part.descriptor, part.central.stored_bytes, size_bytes);
  put_number(part.descriptor, part.central.bytes, size_bytes);
  return part;
}

// An extra field of ZIP64 with these values.
inline std::string zip64_extra(std::initializer_list<uint64_t> values) {
  std::string extra;
  put_u16(extra, kZip64Extra);
  put_u16(extra, static_cast<uint16_t>(8 * values.size()));
  for (const uint64_t value : values) put_u64(extra, value);
  return extra;
}

inline void put_header(std::string& to, const ZipHeader& header) {
  put_u16(to, header.flags);
  put_u16(to, header.method);
  put_u32(to, 0);  // time and date
  put_u32(to, header.crc);
  put_u32(to, header.stored_bytes);
  put_u32(to, header.bytes);
  put_u16(to, static_cast<uint16_t>(header.name.size()));
  put_u16(to, static_cast<uint16_t>(header.extra.size()));
}

// The fields of the records at the end; absent ones are filled in correctly.
struct ZipEnd {
  std::string comment;
  uint16_t disk = 0, directory_disk = 0;
  std::optional<uint16_t> entries, entries_here;
  std::optional<uint32_t> bytes, offset;
  bool zip64 = false;
  std::optional<uint64_t> entries_64, bytes_64, offset_64, record_at, record_bytes;
  uint32_t disk_64 = 0, disks_64 = 1;
};

inline std::string zip_of(const std::vector<ZipPart>& parts, const ZipEnd& end = {}) {
  std::string file, directory;
  for (const ZipPart& part : parts) {
    const auto header_at = part.header_at.value_or(static_cast<uint32_t>(file.size()));
    put_u32(file, kLocalSignature);
    put_u16(file, 20);
    put_header(file, part.local);
    file += part.local.name + part.local.extra + part.data + part.descriptor;
    put_u32(directory, kCentralSignature);
    put_u32(directory, 20 | 20 << 16);
    put_header(directory, part.central);
    put_u16(directory, 0);              // comment
    put_u16(directory, 0);              // disk
    directory += std::string(6, '\0');  // attributes
    put_u32(directory, header_at);
    directory += part.central.name + part.central.extra;
  }
  const uint64_t offset = file.size(), bytes = directory.size(), entries = parts.size();
  file += directory;
  if (end.zip64) {
    const uint64_t record_at = file.size();
    put_u32(file, kZip64EndSignature);
    put_u64(file, end.record_bytes.value_or(44));
    put_u32(file, 45 | 45 << 16);
    put_u32(file, end.disk_64);
    put_u32(file, end.disk_64);
    put_u64(file, end.entries_64.value_or(entries));
    put_u64(file, end.entries_64.value_or(entries));
    put_u64(file, end.bytes_64.value_or(bytes));
    put_u64(file, end.offset_64.value_or(offset));
    put_u32(file, kZip64LocatorSignature);
    put_u32(file, 0);
    put_u64(file, end.record_at.value_or(record_at));
    put_u32(file, end.disks_64);
  }
  put_u32(file, kEndSignature);
  put_u16(file, end.disk);
  put_u16(file, end.directory_disk);
  put_u16(file, end.entries_here.value_or(end.entries.value_or(static_cast<uint16_t>(entries))));
  put_u16(file, end.entries.value_or(static_cast<uint16_t>(entries)));
  put_u32(file, end.bytes.value_or(static_cast<uint32_t>(bytes)));
  put_u32(file, end.offset.value_or(static_cast<uint32_t>(offset)));
  put_u16(file, static_cast<uint16_t>(end.comment.size()));
  return file + end.comment;
}

}  // namespace rapt::test
