#pragma once
// Builds protobuf messages and tar archives byte by byte, for tests of their readers.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace wire {

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string number(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
inline std::string bytes(uint32_t field, const std::string& content) {
  return varint(field << 3 | 2) + varint(content.size()) + content;
}
inline std::string real(uint32_t field, float value) {
  std::string out = varint(field << 3 | 5);
  return out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A TensorProto of f32 values.
template <size_t N>
std::string tensor(std::initializer_list<int64_t> dims, const float (&values)[N]) {
  std::string out;
  for (const int64_t n : dims) out += number(1, static_cast<uint64_t>(n));
  return out + number(2, 1) + bytes(8, "x") +
         bytes(9, std::string(reinterpret_cast<const char*>(values), sizeof values));
}

// A tar record: header and padded content.
inline std::string record(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  char octal[13];
  put(0, name.substr(0, 100));
  std::snprintf(octal, sizeof octal, "%011zo", content.size());
  put(124, octal);
  header[156] = type;
  put(257, "ustar");
  put(148, std::string(8, ' '));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  put(148, std::string(octal) + '\0');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}
inline std::string end_of_tar() { return std::string(1024, '\0'); }

inline std::string gzip(const std::string& plain) {
  z_stream z = {};
  deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, plain.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace wire
