#pragma once
// Reads a line from left to right; an error names the column and what was expected there.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "check/tensors/arrays.h"
#include "rapt/error.h"

namespace check {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  size_t position() const { return at_; }
  bool next_is(char c) const { return !at_end() && text_[at_] == c; }
  bool next_is_digit() const { return !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; }

  // Skips `expected` if it comes next; returns whether it did.
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }
  void expect(std::string_view expected) {
    if (!take(expected)) fail("expected '" + std::string(expected) + "'");
  }

  // Letters, digits, '_' and '-'; may be empty.
  std::string_view word() {
    const size_t begin = at_;
    while (!at_end() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Everything up to the next of these characters, or the end.
  std::string_view until(std::string_view ends) {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(ends, begin), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  std::string_view since(size_t begin) const { return text_.substr(begin, at_ - begin); }

  int64_t integer(int64_t least, int64_t most, const std::string& what) {
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto read = std::from_chars(text_.data() + at_, end, value);
    if (read.ec == std::errc::invalid_argument) fail("expected " + what);
    if (read.ec != std::errc() || value < least || value > most)
      fail("expected " + what + " from " + std::to_string(least) + " to " + std::to_string(most));
    at_ = static_cast<size_t>(read.ptr - text_.data());
    return value;
  }

  uint64_t whole(const std::string& what) {
    uint64_t value = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (read.ec != std::errc()) fail("expected " + what + ", a whole number below 2^64");
    at_ = static_cast<size_t>(read.ptr - text_.data());
    return value;
  }

  // A number of this range.
  double real(double least, double most, const std::string& what) {
    double value = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (read.ec != std::errc() || !(value >= least && value <= most)) fail("expected " + what);
    at_ = static_cast<size_t>(read.ptr - text_.data());
    return value;
  }

  // "[1,2,3]", at most `most` of them.
  Dims list(size_t most, int64_t largest, const std::string& what) {
    Dims values;
    expect("[");
    while (!take("]")) {
      if (!values.empty()) expect(",");
      if (values.size() == most) fail("expected at most " + std::to_string(most) + " " + what);
      values.push_back(integer(0, largest, what));
    }
    return values;
  }

  // The same for the last dimensions of `leading`, each of which may be 1 instead, and `more` of
  // any length.
  Dims last_of(const Dims& leading, size_t most, int64_t largest, size_t more = 0) {
    const size_t begin = at_;
    Dims dims = list(most + more, largest, "dimensions");
    bool fits = dims.size() >= more && dims.size() - more <= leading.size();
    for (size_t d = 0; fits && d + more < dims.size(); ++d)
      fits = dims[d] == 1 || dims[d] == leading[leading.size() + more - dims.size() + d];
    if (fits) return dims;
    go_back_to(begin);
    fail("expected the last leading dimensions of " + to_string(leading) + ", or 1 for each" +
         (more > 0 ? ", and a number of entries" : ""));
  }

  void go_back_to(size_t position) { at_ = position; }

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string got(text_.substr(at_, 12));
    reject(expected + (at_end() ? ", got the end" : ", got '" + got + "'"));
  }
  // For a message that says what came.
  [[noreturn]] void reject(const std::string& message) const {
    throw rapt::Error(rapt::ErrorCode::argument,
                      "descriptor, column " + std::to_string(at_ + 1) + ": " + message);
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace check
