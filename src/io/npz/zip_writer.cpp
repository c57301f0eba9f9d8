// ZIP archives, written in one go; deflated by zlib.
#include "io/npz/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "io/npz/zip_records.h"

namespace rapt {
namespace {

constexpr uint16_t kVersion20 = 20;  // deflate
constexpr uint16_t kVersion45 = 45;  // ZIP64
constexpr uint16_t kUnix = 3 << 8;
constexpr uint32_t kReadableByOwner = 0600u << 16;
constexpr uint16_t kDate1980 = 1 << 5 | 1;  // January 1st, the first day that the format has

constexpr int64_t kAlignment = 64;  // a cache line; .npy headers are multiples of it, too
constexpr uint16_t kAlignmentExtra = 0xD935;
constexpr int64_t kAlignmentExtraBytes = 6;  // its id, length and alignment, without the zeros

uint32_t in_32_bits(int64_t value) {
  return value >= int64_t{kIn64From32} ? kIn64From32 : static_cast<uint32_t>(value);
}
bool needs_zip64(int64_t value) { return in_32_bits(value) == kIn64From32; }

uint32_t add_to_crc(uint32_t crc, const void* data, int64_t bytes) {
  if (bytes == 0) return crc;  // zlib treats a null pointer as a request for a new CRC
  return static_cast<uint32_t>(
      crc32_z(crc, static_cast<const Bytef*>(data), static_cast<z_size_t>(bytes)));
}

// deflate(), whose output is written as it is produced.
class Deflater {
 public:
  explicit Deflater(const WriteBytes& write) : write_(write), out_(size_t{1} << 16) {
    constexpr int kRawWindow = -15;  // neither zlib's header nor gzip's
    constexpr int kMemory = 8;       // zlib's default
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawWindow, kMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(const void* data, int64_t bytes) {
    constexpr int64_t kMostInput = int64_t{1} << 30;  // zlib counts in 32 bits
    const auto* from = static_cast<const Bytef*>(data);
    for (int64_t done = 0; done < bytes; done += kMostInput)
      run(from + done, std::min(bytes - done, kMostInput), Z_NO_FLUSH);
  }
  void finish() { run(nullptr, 0, Z_FINISH); }

 private:
  void run(const Bytef* data, int64_t bytes, int flush) {
    stream_.next_in = const_cast<Bytef*>(data);  // zlib only reads it
    stream_.avail_in = static_cast<uInt>(bytes);
    do {  // more output may follow a full buffer
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<uInt>(out_.size());
      deflate(&stream_, flush);  // cannot fail: its state is right, and there is room
      write_(out_.data(), std::ssize(out_) - int64_t{stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  const WriteBytes& write_;
  std::vector<Bytef> out_;
  z_stream stream_ = {};
};

// An upper bound of deflate's output for `bytes` bytes. Its worst case is stored blocks of at most
// 32 KiB.
int64_t most_deflated(int64_t bytes) { return bytes + bytes / 1000 + 64; }

}  // namespace

void ZipWriter::put(const std::string& bytes) {
  write_(bytes.data(), std::ssize(bytes));
  at_ += std::ssize(bytes);
}

void ZipWriter::add(const Member& member, const Produce& produce) {
  const int64_t most = member.deflated ? most_deflated(member.bytes) : member.bytes;
  const bool zip64 = needs_zip64(most);
  const bool ascii = std::all_of(member.name.begin(), member.name.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  Written entry;
  entry.member = member;
  entry.flags =
      static_cast<uint16_t>((ascii ? 0 : kFlagUtf8) | (member.deflated ? kFlagDescriptor : 0));
  entry.version = zip64 ? kVersion45 : kVersion20;
  entry.header = at_;
  if (member.deflated) {
    write_local_header(entry, zip64);
    write_deflated(entry, produce);
    write_descriptor(entry, zip64);
  } else {
    entry.stored_bytes = member.bytes;
    produce(
        [&](const void* data, int64_t bytes) { entry.crc = add_to_crc(entry.crc, data, bytes); });
    write_local_header(entry, zip64);
    write_stored(entry, produce);
  }
  entries_.push_back(std::move(entry));
}

void ZipWriter::write_local_header(const Written& entry, bool zip64) {
  const Member& member = entry.member;
  const bool later = entry.flags & kFlagDescriptor;
  std::string extra;
  if (zip64) {
    put_u16(extra, kZip64Extra);
    put_u16(extra, 16);
    put_u64(extra, later ? 0 : static_cast<uint64_t>(member.bytes));
    put_u64(extra, later ? 0 : static_cast<uint64_t>(entry.stored_bytes));
  }
  const int64_t unaligned = at_ + kLocalBytes + std::ssize(member.name) + std::ssize(extra);
  if (!member.deflated && unaligned % kAlignment != 0) {
    const int64_t begin = unaligned + kAlignmentExtraBytes;
    const int64_t zeros = (kAlignment - begin % kAlignment) % kAlignment;
    put_u16(extra, kAlignmentExtra);
    put_u16(extra, static_cast<uint16_t>(2 + zeros));
    put_u16(extra, kAlignment);
    extra.append(static_cast<size_t>(zeros), '\0');
  }
  const auto size = [&](int64_t bytes) {
    return zip64 ? kIn64From32 : later ? 0 : static_cast<uint32_t>(bytes);
  };
  std::string header;
  put_u32(header, kLocalSignature);
  put_u16(header, entry.version);
  put_u16(header, entry.flags);
  put_u16(header, member.deflated ? kMethodDeflated : kMethodStored);
  put_u16(header, 0);  // midnight
  put_u16(header, kDate1980);
  put_u32(header, later ? 0 : entry.crc);
  put_u32(header, size(entry.stored_bytes));
  put_u32(header, size(member.bytes));
  put_u16(header, static_cast<uint16_t>(member.name.size()));
  put_u16(header, static_cast<uint16_t>(extra.size()));
  put(header + member.name + extra);
}

void ZipWriter::write_stored(const Written& entry, const Produce& produce) {
  produce(write_);
  at_ += entry.member.bytes;
}

void ZipWriter::write_deflated(Written& entry, const Produce& produce) {
  const WriteBytes counted = [&](const void* data, int64_t bytes) {
    write_(data, bytes);
    entry.stored_bytes += bytes;
    at_ += bytes;
  };
  Deflater deflater(counted);
  produce([&](const void* data, int64_t bytes) {
    entry.crc = add_to_crc(entry.crc, data, bytes);
    deflater.add(data, bytes);
  });
  deflater.finish();
}

void ZipWriter::write_descriptor(const Written& entry, bool zip64) {
  const int bytes = zip64 ? 8 : 4;
  std::string descriptor;
  put_u32(descriptor, kDescriptorSignature);
  put_u32(descriptor, entry.crc);
  put_number(descriptor, static_cast<uint64_t>(entry.stored_bytes), bytes);
  put_number(descriptor, static_cast<uint64_t>(entry.member.bytes), bytes);
  put(descriptor);
}

void ZipWriter::write_central_header(const Written& entry) {
  const Member& member = entry.member;
  std::string values;  // in this order, those that have no room in the header
  for (const int64_t value : {member.bytes, entry.stored_bytes, entry.header})
    if (needs_zip64(value)) put_u64(values, static_cast<uint64_t>(value));
  std::string extra;
  if (!values.empty()) {
    put_u16(extra, kZip64Extra);
    put_u16(extra, static_cast<uint16_t>(values.size()));
    extra += values;
  }
  const uint16_t version = values.empty() ? entry.version : kVersion45;
  std::string header;
  put_u32(header, kCentralSignature);
  put_u16(header, kUnix | version);
  put_u16(header, version);
  put_u16(header, entry.flags);
  put_u16(header, member.deflated ? kMethodDeflated : kMethodStored);
  put_u16(header, 0);
  put_u16(header, kDate1980);
  put_u32(header, entry.crc);
  put_u32(header, in_32_bits(entry.stored_bytes));
  put_u32(header, in_32_bits(member.bytes));
  put_u16(header, static_cast<uint16_t>(member.name.size()));
  put_u16(header, static_cast<uint16_t>(extra.size()));
  put_u16(header, 0);  // no comment
  put_u16(header, 0);  // the first disk
  put_u16(header, 0);  // not known to be text
  put_u32(header, kReadableByOwner);
  put_u32(header, in_32_bits(entry.header));
  put(header + member.name + extra);
}

void ZipWriter::finish() {
  const int64_t directory = at_;
  for (const Written& entry : entries_) write_central_header(entry);
  const int64_t bytes = at_ - directory, count = std::ssize(entries_);
  std::string end;
  if (count >= int64_t{kIn64From16} || needs_zip64(bytes) || needs_zip64(directory)) {
    const int64_t record = at_;
    put_u32(end, kZip64EndSignature);
    put_u64(end, kZip64EndBytes - 12);  // without the signature and itself
    put_u16(end, kUnix | kVersion45);
    put_u16(end, kVersion45);
    put_u32(end, 0);
    put_u32(end, 0);
    put_u64(end, static_cast<uint64_t>(count));
    put_u64(end, static_cast<uint64_t>(count));
    put_u64(end, static_cast<uint64_t>(bytes));
    put_u64(end, static_cast<uint64_t>(directory));
    put_u32(end, kZip64LocatorSignature);
    put_u32(end, 0);
    put_u64(end, static_cast<uint64_t>(record));
    put_u32(end, 1);
  }
  const auto entries = static_cast<uint16_t>(std::min<int64_t>(count, kIn64From16));
  put_u32(end, kEndSignature);
  put_u16(end, 0);
  put_u16(end, 0);
  put_u16(end, entries);
  put_u16(end, entries);
  put_u32(end, in_32_bits(bytes));
  put_u32(end, in_32_bits(directory));
  put_u16(end, 0);  // no comment
  put(end);
}

}  // namespace rapt
