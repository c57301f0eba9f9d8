// Reads fields of the wire format; every length is checked before it is used.
#include "protobuf.h"

#include <bit>

#include "rapt/error.h"

namespace rapt::conformance {
namespace {

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorCode::format, "protobuf: " + what + "; the file is damaged or of another kind");
}

void require(const Field& field, uint8_t type) {
  if (field.type != type)
    broken("field " + std::to_string(field.number) + " has wire type " +
           std::to_string(field.type) + "; expected " + std::to_string(type));
}

}  // namespace

int64_t Field::integer() const {
  require(*this, 0);
  return static_cast<int64_t>(value);
}

float Field::real() const {
  require(*this, 5);
  return std::bit_cast<float>(static_cast<uint32_t>(value));
}

std::span<const std::byte> Field::bytes() const {
  require(*this, 2);
  return content;
}

std::string Field::text() const {
  require(*this, 2);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

bool Message::next(Field& field) {
  if (left_.empty()) return false;
  const uint64_t key = varint();
  if (key >> 3 == 0 || key >> 32 != 0) broken("a field's number is out of range");
  field = {};
  field.number = static_cast<uint32_t>(key >> 3);
  field.type = static_cast<uint8_t>(key & 7);
  switch (field.type) {
    case 0:
      field.value = varint();
      return true;
    case 1:
      field.value = fixed(8);
      return true;
    case 2:
      field.content = take(varint());
      return true;
    case 5:
      field.value = fixed(4);
      return true;
    default:
      broken("wire type " + std::to_string(field.type) + " in field " +
             std::to_string(field.number));
  }
}

uint64_t Message::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = std::to_integer<uint64_t>(take(1)[0]);
    if (shift == 63 && byte > 1) broken("a number of more than 64 bits");
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  broken("a number of more than 10 bytes");
}

uint64_t Message::fixed(size_t bytes) {
  uint64_t value = 0;
  const auto content = take(bytes);
  for (size_t i = 0; i < bytes; ++i) value |= std::to_integer<uint64_t>(content[i]) << (8 * i);
  return value;
}

std::span<const std::byte> Message::take(uint64_t bytes) {
  if (bytes > left_.size())
    broken("expected " + std::to_string(bytes) + " bytes, " + std::to_string(left_.size()) +
           " are left");
  const auto content = left_.first(static_cast<size_t>(bytes));
  left_ = left_.subspan(static_cast<size_t>(bytes));
  return content;
}

}  // namespace rapt::conformance
