#pragma once
// The wire format of Protocol Buffers: the fields of a message, one after the other, without their
// meaning.
//
//   field   = key content      key = varint of 8 number + wire type
//   content = varint (type 0) | 8 bytes (1) | varint length, bytes (2) | 4 bytes (5)
//   varint  = up to 10 bytes of 7 bits, lowest first; the highest bit says that more follow
//
// Source: protobuf.dev/programming-guides/encoding. Groups (types 3 and 4), which ONNX does not
// use, are rejected. Bytes are referred to, not copied.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rapt::conformance {

struct Field {
  uint32_t number = 0;  // 1 to 2^29 - 1
  uint8_t type = 0;     // wire type: 0, 1, 2 or 5

  // The content in the type of the schema. Throw Error(format) for another wire type.
  int64_t integer() const;                   // type 0
  float real() const;                        // type 5
  std::span<const std::byte> bytes() const;  // type 2
  std::string text() const;                  // type 2

  uint64_t value = 0;  // of types 0, 1 and 5
  std::span<const std::byte> content = {};
};

class Message {
 public:
  explicit Message(std::span<const std::byte> bytes) : left_(bytes) {}
  // The next field; false at the end. Throws Error(format).
  bool next(Field& field);

  // Reads packed lists, which have numbers without keys. Throws Error(format).
  bool empty() const noexcept { return left_.empty(); }
  uint64_t varint();

 private:
  uint64_t fixed(size_t bytes);
  std::span<const std::byte> take(uint64_t bytes);

  std::span<const std::byte> left_;
};

}  // namespace rapt::conformance
