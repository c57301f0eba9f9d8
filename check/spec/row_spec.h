#pragma once
// The row transforms of query and key as plain data: divided by their lengths, rotated by their
// positions, or both, in this order. The formulas are in row_transform.h. Shares no code with
// the library.
#include <cstdint>
#include <optional>
#include <string>

namespace check {

// Row i of a sequence is at position start + step i.
struct CountedRows {
  int64_t start = 0, step = 1;
  bool operator==(const CountedRows&) const = default;
};

struct RotarySpec {
  bool interleaved = false;  // pairs (2 i, 2 i + 1), else (i, i + dims / 2)
  int64_t dims = 0;          // the first `dims` dimensions are rotated; even; 0: all
  double theta = 10000;
  double magnitude = 1;  // by which they are multiplied
  CountedRows query, key;
  bool turns_key = true;  // false: keys are already rotated
  bool operator==(const RotarySpec&) const = default;
};

struct RowSpec {
  static constexpr double kEpsilon = 1e-12;
  std::optional<double> cosine = {};  // rows are divided by their lengths; the least of those
  std::optional<RotarySpec> rotary = {};

  bool operator==(const RowSpec&) const = default;
  bool any() const { return cosine || rotary; }
};

// The text in a descriptor.
std::string to_string(const RowSpec& rows);

}  // namespace check
