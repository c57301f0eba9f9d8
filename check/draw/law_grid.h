#pragma once
// Draws problems over all axes of axes.h, so that every pair of values of two axes occurs: first as
// many problems as that needs (a few hundred), then random ones. No two are equal except for their
// seed.
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "check/draw/axes.h"
#include "check/draw/axis_tally.h"
#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// Which inputs problems may have: normal ones of exact attention alone, as laws need that compare
// bits or differences, or any value of the axes of inputs and methods.
enum class InputKinds : uint8_t { normal, any };

// How much work problems are: so little that the reference takes no time, or as much as several
// threads share, for laws that compare calls with one another.
enum class Work : uint8_t { little, shared };

class LawGrid {
 public:
  explicit LawGrid(uint64_t seed, InputKinds inputs = InputKinds::normal, Work work = Work::little);

  Descriptor next();

  // Possible pairs of values that have not been drawn: "mask=lengths with bias=row".
  std::vector<std::string> missing_pairs() const;
  size_t distinct() const { return seen_.size(); }
  // How often each value of each axis was drawn, and the pairs and distinct problems.
  std::string table() const;

 private:
  bool drawable(size_t axis, size_t value) const;
  bool possible(const GridPoint& point, size_t chosen_axes_mask, size_t axis, size_t value) const;
  GridPoint draw_point();
  void count(const GridPoint& point);
  uint8_t& drawn(size_t axis_a, size_t value_a, size_t axis_b, size_t value_b);
  size_t uncovered(const GridPoint& point, size_t chosen_axes_mask, size_t axis, size_t value);

  const InputKinds inputs_;
  const Work work_;
  Random random_;
  std::vector<size_t> begin_;   // [axes] the index of the first value of each axis
  size_t values_ = 0;           // of all axes
  std::vector<uint8_t> pairs_;  // [values, values]: 0 missing, 1 drawn, 2 impossible
  size_t pairs_missing_ = 0, pairs_all_ = 0;
  AxisTally tally_;
  std::unordered_set<uint64_t> seen_;  // hashes of descriptors without their seed
};

// A problem at a point of the grid; everything that the point leaves open is drawn.
Descriptor descriptor_at(const GridPoint& point, Random& random, Work work = Work::little);

}  // namespace check
