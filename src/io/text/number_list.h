#pragma once
// A list of numbers that grows as they are read, with one element type for all.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/io/tensor_file.h"

namespace rapt {

// The text of a file. Throws Error(format) beyond kMaxNumberText, Error(io).
std::string text_of(const InputFile& file);

// The type is i64 as long as all numbers are whole, and f64 from the first other number on.
class NumberList {
 public:
  void add(int64_t value) {
    if (!whole_) return add(static_cast<double>(value));
    append(&value);
  }
  void add(double value) {
    if (whole_) become_real();
    append(&value);
  }
  void add_boolean(bool value) { booleans_.push_back(std::byte{value}); }

  bool has_numbers() const { return !numbers_.empty(); }
  bool has_booleans() const { return !booleans_.empty(); }
  int64_t size() const { return std::ssize(booleans_) + std::ssize(numbers_) / kBytes; }

  // Returns the numbers as the one tensor of a file; f64 if there is no element.
  TensorFile as_file(const char* format, const std::string& name, std::vector<int64_t> shape) &&;

 private:
  static constexpr int64_t kBytes = 8;  // of an int64_t and of a double

  void append(const void* value) {
    const auto* const bytes = static_cast<const std::byte*>(value);
    numbers_.insert(numbers_.end(), bytes, bytes + kBytes);
  }
  void become_real() {
    whole_ = false;
    for (size_t at = 0; at < numbers_.size(); at += kBytes) {
      int64_t whole = 0;
      std::memcpy(&whole, numbers_.data() + at, kBytes);
      const auto real = static_cast<double>(whole);
      std::memcpy(numbers_.data() + at, &real, kBytes);
    }
  }

  std::vector<std::byte> numbers_, booleans_;
  bool whole_ = true;
};

}  // namespace rapt
