// Reads .tar.gz by zlib and the tar records.
#include "archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>

#include "rapt/error.h"
#include "rapt/io/input_file.h"

namespace rapt::conformance {
namespace {

constexpr size_t kBlock = 512;                    // bytes of a tar record
constexpr size_t kMostBytes = size_t{256} << 20;  // of an archive, unpacked
constexpr int kGzipWindow = 16 + MAX_WBITS;       // expect gzip's header and check its CRC-32

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::format, "archive: " + what + "; copy it again");
}

struct Inflater {
  z_stream stream = {};
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

// The text of a header field, which ends at a zero byte or at the end of the field.
std::string text_of(std::span<const std::byte> header, size_t begin, size_t length) {
  const auto* text = reinterpret_cast<const char*>(header.data() + begin);
  return {text, std::find(text, text + length, '\0')};
}

// Reads octal digits, with blanks before and after them.
uint64_t number_of(std::span<const std::byte> header, size_t begin, size_t length) {
  const std::string text = text_of(header, begin, length);
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  if (first == std::string::npos) fail("a header without a number");
  uint64_t value = 0;  // 12 octal digits at most
  for (size_t i = first; i <= last; ++i) {
    if (text[i] < '0' || text[i] > '7') fail("a header's number is not octal");
    value = value * 8 + static_cast<uint64_t>(text[i] - '0');
  }
  return value;
}

// The sum of the header's bytes, with blanks in place of the sum itself.
void check_sum(std::span<const std::byte> header) {
  constexpr size_t kBegin = 148, kLength = 8;
  uint64_t sum = kLength * ' ';
  for (size_t i = 0; i < kBlock; ++i)
    if (i < kBegin || i >= kBegin + kLength) sum += std::to_integer<uint64_t>(header[i]);
  if (sum != number_of(header, kBegin, kLength)) fail("a header's checksum is wrong");
}

std::string name_of(std::span<const std::byte> header) {
  const std::string name = text_of(header, 0, 100);
  // GNU's magic is "ustar  "; it keeps times where ustar has the prefix.
  const bool ustar = text_of(header, 257, 6) == "ustar";
  const std::string prefix = ustar ? text_of(header, 345, 155) : "";
  return prefix.empty() ? name : prefix + "/" + name;
}

}  // namespace

Bytes gunzip(std::span<const std::byte> packed, size_t most_bytes) {
  Inflater inflater;
  z_stream& z = inflater.stream;
  if (packed.size() > UINT32_MAX) fail("larger than 4 GiB");
  // zlib's C interface lacks const, but it only reads.
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  z.avail_in = static_cast<uInt>(packed.size());
  Bytes out;
  std::byte chunk[1 << 16];
  for (int result = Z_OK; result != Z_STREAM_END;) {
    z.next_out = reinterpret_cast<Bytef*>(chunk);
    z.avail_out = sizeof chunk;
    result = inflate(&z, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END)
      fail(z.avail_in == 0 ? "gzip data end too early" : "gzip data are damaged");
    const size_t got = sizeof chunk - z.avail_out;
    if (got > most_bytes - out.size())
      fail("more than " + std::to_string(most_bytes) + " bytes when unpacked");
    out.insert(out.end(), chunk, chunk + got);
  }
  if (z.avail_in != 0) fail("bytes behind the gzip data");
  return out;
}

std::map<std::string, Bytes> read_tar(std::span<const std::byte> archive) {
  std::map<std::string, Bytes> files;
  std::string long_name;  // of the next file
  for (;;) {
    if (archive.size() < kBlock) fail("ends within a header");
    const auto header = archive.first(kBlock);
    archive = archive.subspan(kBlock);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) {
      if (!long_name.empty()) fail("ends behind a long name");
      return files;
    }
    check_sum(header);
    const uint64_t bytes = number_of(header, 124, 12);
    if (bytes > archive.size()) fail("ends within a file");
    const auto content = archive.first(static_cast<size_t>(bytes));
    const size_t padded = (content.size() + kBlock - 1) / kBlock * kBlock;
    archive = archive.subspan(std::min(padded, archive.size()));

    const char type = std::to_integer<char>(header[156]);
    if (type == 'L') {
      long_name = text_of(content, 0, content.size());
      if (long_name.empty()) fail("an empty long name");
      continue;
    }
    std::string name = long_name.empty() ? name_of(header) : long_name;
    long_name.clear();
    if (name.starts_with("./")) name.erase(0, 2);
    if (type == '5') continue;  // a folder
    if (type != '0' && type != '\0') fail("'" + name + "' is neither a file nor a folder");
    if (!files.emplace(name, Bytes(content.begin(), content.end())).second)
      fail("'" + name + "' stands in it twice");
  }
}

std::map<std::string, Bytes> read_tar_gz(const std::string& path) {
  const InputFile file(path);
  return read_tar(gunzip(file.map(), kMostBytes));
}

}  // namespace rapt::conformance
