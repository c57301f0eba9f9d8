// The central directory of a ZIP archive and the local headers, which must agree with it.
#include "io/npz/zip_directory.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "io/npz/zip_end.h"
#include "io/npz/zip_records.h"
#include "io/quoted.h"
#include "io/text/utf8.h"
#include "rapt/error.h"

namespace rapt {
namespace {

std::string bytes_text(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

// A member according to the directory.
struct Entry {
  ZipMember member;
  int64_t header = 0;  // of the local header, in the file
  uint16_t flags = 0;
  uint16_t method = 0;
};

const char* name_of_method(uint16_t method) {
  switch (method) {
    case 1:
      return " (shrunk)";
    case 6:
      return " (imploded)";
    case 9:
      return " (Deflate64)";
    case 12:
      return " (bzip2)";
    case 14:
      return " (LZMA)";
    case 93:
      return " (Zstandard)";
    case 95:
      return " (xz)";
    default:
      return "";
  }
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class DirectoryReader {
 public:
  explicit DirectoryReader(const InputFile& file) : file_(file), place_(find_zip_directory(file)) {}

  std::vector<ZipMember> read() {
    read_entries();
    check_names();
    check_local_headers();
    std::vector<ZipMember> members;
    members.reserve(entries_.size());
    for (Entry& entry : entries_) members.push_back(std::move(entry.member));
    return members;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::format, path_text(file_.name()) + ": " + what);
  }
  [[noreturn]] void fail(std::string_view name, const std::string& what) const {
    fail(in_quotes(name) + ": " + what);
  }

  // Reads one window after the other, and allocates entries as they come. Both numbers of the
  // directory can be as large as the file, and a sparse file can be large without using disk space.
  void read_entries() {
    constexpr int64_t kWindow = int64_t{1} << 20;
    constexpr size_t kMostOfEntry = kCentralBytes + 3 * 65535;
    std::vector<std::byte> window;
    std::span<const std::byte> rest;  // of the window
    int64_t behind = place_.bytes;    // of the directory, behind the window
    for (int64_t i = 0; i < place_.entries; ++i) {
      if (rest.size() < kMostOfEntry && behind > 0) {
        const int64_t more = std::min(behind, kWindow);
        std::vector<std::byte> next(rest.size() + static_cast<size_t>(more));
        std::copy(rest.begin(), rest.end(), next.begin());
        file_.read(place_.offset + place_.bytes - behind, next.data() + rest.size(), more);
        behind -= more;
        window = std::move(next);
        rest = window;
      }
      if (rest.size() < kCentralBytes || u32_at(rest, 0) != kCentralSignature)
        fail("expected " + std::to_string(place_.entries) +
             " members in the directory of the archive, got " + std::to_string(i) + kDamaged);
      const size_t name = u16_at(rest, 28), extra = u16_at(rest, 30), comment = u16_at(rest, 32);
      const size_t bytes = kCentralBytes + name + extra + comment;
      if (bytes > rest.size())
        fail(std::string("an entry reaches beyond the directory of the archive") + kDamaged);
      entries_.push_back(entry_of(rest, text_of(rest.subspan(kCentralBytes, name)),
                                  rest.subspan(kCentralBytes + name, extra)));
      rest = rest.subspan(bytes);
    }
    if (const uint64_t left = rest.size() + static_cast<uint64_t>(behind); left > 0)
      fail("expected " + std::to_string(place_.entries) +
           " members in the directory of the archive, got " + bytes_text(left) + " behind them" +
           kDamaged);
  }

  // The ZIP64 part of the extra fields; empty: there is none.
  std::span<const std::byte> zip64_of(std::string_view name,
                                      std::span<const std::byte> extra) const {
    std::optional<std::span<const std::byte>> zip64;
    while (!extra.empty()) {
      const size_t bytes = extra.size() < 4 ? extra.size() : size_t{4} + u16_at(extra, 2);
      if (bytes < 4 || bytes > extra.size())
        fail(name, std::string("its extra fields do not end where they should") + kDamaged);
      if (u16_at(extra, 0) == kZip64Extra) {
        if (zip64 || bytes == 4)
          fail(name, std::string("expected one ZIP64 field with values, got another") + kDamaged);
        zip64 = extra.subspan(4, bytes - 4);
      }
      extra = extra.subspan(bytes);
    }
    return zip64.value_or(std::span<const std::byte>());
  }

  Entry entry_of(std::span<const std::byte> record, std::string_view name,
                 std::span<const std::byte> extra) const {
    if (name.empty() || !is_utf8_without_zero(name))
      fail(name,
           "expected a name of a member in UTF-8, not empty and without a zero byte; write the "
           "archive again");
    Entry entry;
    entry.member.name = name;
    entry.flags = u16_at(record, 8);
    entry.method = u16_at(record, 10);
    entry.member.crc = u32_at(record, 16);
    check_readable(entry);

    // The ZIP64 field holds exactly the values that do not fit into their own fields, in this
    // order.
    std::span<const std::byte> zip64 = zip64_of(name, extra);
    const auto value = [&](uint32_t field) -> uint64_t {
      if (field != kIn64From32) return field;
      if (zip64.size() < 8)
        fail(name, std::string("a size is said to be in a ZIP64 field, which lacks it") + kDamaged);
      const uint64_t full = u64_at(zip64, 0);
      zip64 = zip64.subspan(8);
      return full;
    };
    const uint64_t bytes = value(u32_at(record, 24)), stored_bytes = value(u32_at(record, 20));
    const uint64_t header = value(u32_at(record, 42));
    uint32_t disk = u16_at(record, 34);
    if (disk == kIn64From16 && zip64.size() == 4) {
      disk = u32_at(zip64, 0);
      zip64 = zip64.subspan(4);
    }
    if (!zip64.empty())
      fail(name, std::string("its ZIP64 field has more values than it should") + kDamaged);
    if (disk != 0) fail(name, "lies in another part of the archive; join them to one (zip -s 0)");
    check_sizes(entry, bytes, stored_bytes, header);
    return entry;
  }

  void check_readable(const Entry& entry) const {
    const std::string& name = entry.member.name;
    if (entry.flags & kFlagEncrypted)
      fail(name, "is encrypted, which rapt does not read; write the archive without a password");
    if (entry.method != kMethodStored && entry.method != kMethodDeflated)
      fail(name, "is compressed by method " + std::to_string(entry.method) +
                     name_of_method(entry.method) +
                     "; rapt reads stored and deflated members: write the archive again with "
                     "numpy.savez or numpy.savez_compressed");
    const int known = kFlagsOfDeflate | kFlagDescriptor | kFlagUtf8;
    if (entry.flags & ~known)
      fail(name, "has flags " + std::to_string(entry.flags & ~known) +
                     " (patches, encryption), which rapt does not read; write the archive again "
                     "with numpy.savez");
  }

  // Rejects sizes that a file of this length cannot hold.
  void check_sizes(Entry& entry, uint64_t bytes, uint64_t stored_bytes, uint64_t header) const {
    ZipMember& member = entry.member;
    const auto before_directory = static_cast<uint64_t>(place_.offset);
    if (header >= before_directory || stored_bytes > before_directory)
      fail(member.name, bytes_text(stored_bytes) + " with a header at byte " +
                            std::to_string(header) + " do not fit before the directory at byte " +
                            std::to_string(place_.offset) + kDamaged);
    member.deflated = entry.method == kMethodDeflated;
    if (!member.deflated && bytes != stored_bytes)
      fail(member.name, "is stored, but said to have " + bytes_text(bytes) + " and to take " +
                            bytes_text(stored_bytes) + kDamaged);
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    const uint64_t least = bytes / kMaxDeflateRatio + (bytes % kMaxDeflateRatio != 0);
    if (member.deflated && (bytes > kMost || least > stored_bytes))
      fail(member.name, bytes_text(stored_bytes) + " cannot become " + bytes_text(bytes) +
                            ": deflate reaches at most " + std::to_string(kMaxDeflateRatio) +
                            " to 1" + kDamaged);
    member.bytes = static_cast<int64_t>(bytes);
    member.stored_bytes = static_cast<int64_t>(stored_bytes);
    entry.header = static_cast<int64_t>(header);
  }

  void check_names() const {
    std::vector<std::string_view> names;
    names.reserve(entries_.size());
    for (const Entry& entry : entries_) names.push_back(entry.member.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      fail(*twice, "two members have this name; write the archive again with distinct names");
  }

  // Checks the local headers in the order of the file. The first begins at byte 0, each other one
  // where the previous member ends, and the directory after the last.
  void check_local_headers() {
    std::vector<Entry*> in_order;
    in_order.reserve(entries_.size());
    for (Entry& entry : entries_) in_order.push_back(&entry);
    std::sort(in_order.begin(), in_order.end(),
              [](const Entry* a, const Entry* b) { return a->header < b->header; });
    int64_t at = 0;
    for (Entry* entry : in_order) {
      if (entry->header != at)
        fail(entry->member.name,
             "expected its header at byte " + std::to_string(at) + ", got it at byte " +
                 std::to_string(entry->header) +
                 (entry->header < at ? ": members overlap" : ": there is a gap before it") +
                 "; write the archive again");
      at = end_of_member(*entry);
    }
    if (at != place_.offset)
      fail("expected the directory of the archive at byte " + std::to_string(at) +
           ", where the last member ends, got it at byte " + std::to_string(place_.offset) +
           "; write the archive again");
  }

  // Compares the local header with the entry, notes where the data begin, and returns where the
  // member ends.
  int64_t end_of_member(Entry& entry) const {
    ZipMember& member = entry.member;
    const int64_t room = place_.offset - entry.header;
    std::byte record[kLocalBytes];
    if (room < kLocalBytes)
      fail(member.name, std::string("its header reaches into the directory") + kDamaged);
    file_.read(entry.header, record, kLocalBytes);
    if (u32_at(record, 0) != kLocalSignature)
      fail(member.name,
           "expected its header at byte " + std::to_string(entry.header) + ", got none" + kDamaged);
    const int64_t name_bytes = u16_at(record, 26), extra_bytes = u16_at(record, 28);
    const int64_t header_bytes = kLocalBytes + name_bytes + extra_bytes;
    if (header_bytes > room || member.stored_bytes > room - header_bytes)
      fail(member.name, bytes_text(static_cast<uint64_t>(member.stored_bytes)) + " behind byte " +
                            std::to_string(entry.header) + " reach into the directory" + kDamaged);
    std::vector<std::byte> variable(static_cast<size_t>(name_bytes + extra_bytes));
    file_.read(entry.header + kLocalBytes, variable.data(), name_bytes + extra_bytes);
    const std::span<const std::byte> both(variable);
    const auto extra = both.subspan(static_cast<size_t>(name_bytes));
    if (text_of(both.first(static_cast<size_t>(name_bytes))) != member.name) differs(entry, "name");
    if (u16_at(record, 6) != entry.flags) differs(entry, "flags");
    if (u16_at(record, 8) != entry.method) differs(entry, "method");
    const bool later = entry.flags & kFlagDescriptor;
    const uint32_t crc = u32_at(record, 14);
    if (crc != member.crc && !(later && crc == 0)) differs(entry, "CRC-32");

    const std::span<const std::byte> zip64 = zip64_of(member.name, extra);
    if (!zip64.empty() && zip64.size() != 16)
      fail(member.name, "expected two sizes in the ZIP64 field of its header, got " +
                            bytes_text(zip64.size()) + kDamaged);
    const auto check_size = [&](uint32_t field, size_t in_zip64, int64_t size) {
      const auto right = [&](uint64_t value) {
        return value == static_cast<uint64_t>(size) || (later && value == 0);
      };
      if (field == kIn64From32 && !zip64.empty() ? !right(u64_at(zip64, in_zip64)) : !right(field))
        differs(entry, "sizes");
    };
    check_size(u32_at(record, 22), 0, member.bytes);
    check_size(u32_at(record, 18), 8, member.stored_bytes);
    member.offset = entry.header + header_bytes;
    const int64_t end = member.offset + member.stored_bytes;
    return later ? end + descriptor_bytes(entry, end) : end;
  }

  [[noreturn]] void differs(const Entry& entry, const char* what) const {
    fail(entry.member.name,
         std::string("directory and header of the member say different ") + what + kDamaged);
  }

  // The length of the data descriptor after a streamed member: with or without a signature, with
  // sizes of 4 or 8 bytes. Returns the longest form that agrees with the directory, because a
  // shorter one may be part of it.
  int64_t descriptor_bytes(const Entry& entry, int64_t at) const {
    const ZipMember& member = entry.member;
    std::byte bytes[24];
    const int64_t there = std::min<int64_t>(sizeof bytes, place_.offset - at);
    file_.read(at, bytes, there);
    const std::span<const std::byte> record(bytes, static_cast<size_t>(there));
    for (const size_t size_bytes : {size_t{8}, size_t{4}}) {
      for (const size_t start : {size_t{4}, size_t{0}}) {
        const size_t total = start + 4 + 2 * size_bytes;
        if (total > record.size()) continue;
        if (start > 0 && u32_at(record, 0) != kDescriptorSignature) continue;
        if (u32_at(record, start) == member.crc &&
            number_at(record, start + 4, size_bytes) ==
                static_cast<uint64_t>(member.stored_bytes) &&
            number_at(record, start + 4 + size_bytes, size_bytes) ==
                static_cast<uint64_t>(member.bytes))
          return static_cast<int64_t>(total);
      }
    }
    fail(entry.member.name,
         std::string("what follows its data does not repeat CRC-32 and sizes of the directory") +
             kDamaged);
  }

  const InputFile& file_;
  const ZipDirectoryPlace place_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<ZipMember> read_zip_directory(const InputFile& file) {
  return DirectoryReader(file).read();
}

}  // namespace rapt
