#pragma once
// Relative positions as plain data: which tables exist, and which of their rows a pair uses.
//
//   row = clamp(center + d, 0, distances - 1)      d = j - i, according to the anchor
//
// On a log scale, |d| > exact is first replaced by exact + s, with the smallest integer s for which
//   |d| <= exact ((max_distance - 1) / exact)^(s / (exact - 1))
// For the use of the rows see relative_rows.h. Shares no code with the library.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/spec/pair_place.h"
#include "check/tensors/arrays.h"
#include "rapt/anchor.h"

namespace check {

struct RelativeTable {
  bool there = false;
  Dims leading;
  TensorView numbers;  // [leading, distances, dims], of a bias [leading, head_dim]; made by draw()

  bool operator==(const RelativeTable& other) const {  // ignores drawn numbers
    return there == other.there && leading == other.leading;
  }
};

struct RelativeSpec {
  enum Part : uint8_t { keys, queries, values, content, position };
  static constexpr const char* kPartNames[] = {"keys", "queries", "values", "content", "position"};
  static constexpr size_t kParts = std::size(kPartNames);

  std::array<RelativeTable, kParts> tables;
  int64_t distances = 0;               // rows of each table; 0: only biases
  std::optional<int64_t> center = {};  // default: distances / 2
  int64_t exact = 0;                   // 0: no log scale
  int64_t max_distance = 0;            // of the log scale
  rapt::Anchor anchor = rapt::Anchor::top_left;

  bool operator==(const RelativeSpec&) const = default;

  const RelativeTable& operator[](Part part) const { return tables[part]; }
  RelativeTable& operator[](Part part) { return tables[part]; }
  static bool has_rows(size_t part) { return part <= values; }
  bool any() const;

  int64_t row(const PairPlace& place) const;

  // The drawn tensor with rows: a bias [leading, n] as [leading, 1, n].
  TensorView as_rows(size_t part) const;
  // The dimensions of a table.
  Dims dims(size_t part, int64_t head_dim, int64_t value_dim) const;
  // Draws the tables that exist; they are appended to `owner`.
  void draw(Random& random, DType dtype, int64_t head_dim, int64_t value_dim, double magnitude,
            std::vector<Tensor>& owner);
};

// The text in a descriptor; dimensions that follow from `leading` are left out.
std::string to_string(const RelativeSpec& relative, const Dims& leading);

// The leading dimensions of numbers per head where none are written: the heads.
Dims default_head_dims(const Dims& leading);

}  // namespace check
