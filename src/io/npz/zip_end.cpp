// The end-of-central-directory record, and the two of ZIP64 before it.
#include "io/npz/zip_end.h"

#include <algorithm>
#include <vector>

#include "io/npz/zip_records.h"
#include "io/quoted.h"
#include "rapt/error.h"

namespace rapt {
namespace {

[[noreturn]] void fail(const InputFile& file, const std::string& what) {
  throw Error(ErrorCode::format, path_text(file.name()) + ": " + what);
}

// The contents of the record, neither checked nor extended by ZIP64.
struct End {
  int64_t at = 0;  // of the record, in the file
  uint16_t disk = 0, directory_disk = 0, entries_here = 0, entries = 0;
  uint32_t bytes = 0, offset = 0;
};

// Finds the last record whose comment ends where the file ends. If a comment holds such a record,
// the inner one counts, as for every reader that searches from the end.
End find_end(const InputFile& file) {
  constexpr int64_t kMaxComment = 65535;
  const int64_t tail_bytes = std::min(file.bytes(), kEndBytes + kMaxComment);
  std::vector<std::byte> tail(static_cast<size_t>(tail_bytes));
  file.read(file.bytes() - tail_bytes, tail.data(), tail_bytes);
  for (int64_t at = tail_bytes - kEndBytes; at >= 0; --at) {
    const auto record = std::span<const std::byte>(tail).subspan(static_cast<size_t>(at));
    if (u32_at(record, 0) != kEndSignature || u16_at(record, 20) != tail_bytes - at - kEndBytes)
      continue;
    return {file.bytes() - tail_bytes + at,
            u16_at(record, 4),
            u16_at(record, 6),
            u16_at(record, 8),
            u16_at(record, 10),
            u32_at(record, 12),
            u32_at(record, 16)};
  }
  fail(file,
       "expected the record that ends a .zip archive at the end of the file, got none; the file is "
       "cut short or something follows the archive, copy or write it again");
}

// Whether a field agrees with its value in the ZIP64 record, or refers to that record.
template <class Field>
bool agrees(Field field, uint64_t value) {
  return field == static_cast<Field>(-1) || field == value;
}

ZipDirectoryPlace place_of_zip64(const InputFile& file, const End& end) {
  std::byte bytes[kZip64EndBytes + kZip64LocatorBytes];
  const int64_t at = end.at - static_cast<int64_t>(sizeof bytes);
  const std::span<const std::byte> record(bytes, kZip64EndBytes);
  const std::span<const std::byte> locator(bytes + kZip64EndBytes, kZip64LocatorBytes);
  if (at >= 0) file.read(at, bytes, sizeof bytes);
  if (at < 0 || u32_at(locator, 0) != kZip64LocatorSignature)
    fail(file, "the directory of the archive does not end where its last record begins, byte " +
                   std::to_string(end.at) + kDamaged);
  // Without the optional data that nobody writes, the record has a fixed length and place.
  if (u64_at(locator, 8) != static_cast<uint64_t>(at) || u32_at(record, 0) != kZip64EndSignature ||
      u64_at(record, 4) != kZip64EndBytes - 12)
    fail(file, "expected the ZIP64 record of the archive at byte " + std::to_string(at) +
                   ", just before what points to it, got another" + kDamaged);
  const uint64_t entries = u64_at(record, 32), size = u64_at(record, 40),
                 offset = u64_at(record, 48);
  const uint32_t disk = u32_at(record, 16), directory_disk = u32_at(record, 20);
  const uint32_t locator_disk = u32_at(locator, 4), disks = u32_at(locator, 16);
  if (disk != 0 || directory_disk != 0 || locator_disk != 0 || disks > 1 ||
      u64_at(record, 24) != entries)
    fail(file, "an archive in several parts is not read; join them to one (zip -s 0)");
  const auto limit = static_cast<uint64_t>(at);
  if (offset > limit || size > limit || offset + size != limit)
    fail(file, "the directory of the archive, " + std::to_string(size) + " bytes at byte " +
                   std::to_string(offset) + ", does not end where its ZIP64 record begins, byte " +
                   std::to_string(at) + kDamaged);
  if (!agrees(end.entries, entries) || !agrees(end.entries_here, entries) ||
      !agrees(end.bytes, size) || !agrees(end.offset, offset) || !agrees(end.disk, 0) ||
      !agrees(end.directory_disk, 0))
    fail(file, std::string("the two records at the end of the archive differ") + kDamaged);
  if (entries > size / kCentralBytes)
    fail(file, "expected at most " + std::to_string(size / kCentralBytes) +
                   " members for a directory of " + std::to_string(size) + " bytes, got " +
                   std::to_string(entries) + kDamaged);
  return {static_cast<int64_t>(offset), static_cast<int64_t>(size), static_cast<int64_t>(entries)};
}

}  // namespace

ZipDirectoryPlace find_zip_directory(const InputFile& file) {
  const End end = find_end(file);
  // Writers add the ZIP64 records also where the plain fields could hold the values (Python does
  // from 2 GiB on), and leave a count of exactly 65,535 in the plain field. The plain fields are
  // used only if the directory that they describe ends where this record begins.
  if (int64_t{end.offset} + end.bytes != end.at) return place_of_zip64(file, end);
  if (end.disk != 0 || end.directory_disk != 0 || end.entries_here != end.entries)
    fail(file, "an archive in several parts is not read; join them to one (zip -s 0)");
  if (end.entries > end.bytes / kCentralBytes)
    fail(file, "expected at most " + std::to_string(end.bytes / kCentralBytes) +
                   " members for a directory of " + std::to_string(end.bytes) + " bytes, got " +
                   std::to_string(end.entries) + kDamaged);
  return {end.offset, end.bytes, end.entries};
}

}  // namespace rapt
