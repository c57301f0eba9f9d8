#pragma once
// The records of a ZIP archive, as reader and writer name them. All numbers are little-endian.
// Source: PKWARE APPNOTE 6.3.10, section 4.3 (records), 4.4 (fields), 4.5.3 (ZIP64).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rapt {

// Signatures, and bytes without names, extra fields and comments.
inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kZip64EndSignature = 0x06064b50;
inline constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr int64_t kLocalBytes = 30;
inline constexpr int64_t kCentralBytes = 46;
inline constexpr int64_t kZip64EndBytes = 56;
inline constexpr int64_t kZip64LocatorBytes = 20;
inline constexpr int64_t kEndBytes = 22;

// What to do about records that contradict each other.
inline constexpr const char* kDamaged = "; the archive is damaged, copy or write it again";

// If a field has this value, its true value is in a ZIP64 record.
inline constexpr uint16_t kIn64From16 = 0xFFFF;
inline constexpr uint32_t kIn64From32 = 0xFFFFFFFF;
inline constexpr uint16_t kZip64Extra = 0x0001;

inline constexpr uint16_t kMethodStored = 0;
inline constexpr uint16_t kMethodDeflated = 8;

// General purpose flags.
inline constexpr uint16_t kFlagEncrypted = 1 << 0;
inline constexpr uint16_t kFlagsOfDeflate = 3 << 1;  // the compression level; ignored
inline constexpr uint16_t kFlagDescriptor = 1 << 3;  // CRC and sizes follow the data
inline constexpr uint16_t kFlagUtf8 = 1 << 11;

inline uint64_t number_at(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return value;
}
inline uint16_t u16_at(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint16_t>(number_at(bytes, at, 2));
}
inline uint32_t u32_at(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint32_t>(number_at(bytes, at, 4));
}
inline uint64_t u64_at(std::span<const std::byte> bytes, size_t at) {
  return number_at(bytes, at, 8);
}

inline void put_number(std::string& to, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) to += static_cast<char>(value >> (8 * i) & 255);
}
inline void put_u16(std::string& to, uint16_t value) { put_number(to, value, 2); }
inline void put_u32(std::string& to, uint32_t value) { put_number(to, value, 4); }
inline void put_u64(std::string& to, uint64_t value) { put_number(to, value, 8); }

}  // namespace rapt
