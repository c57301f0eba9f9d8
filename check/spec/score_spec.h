#pragma once
// A score as plain data: a function of a scaled product, as a formula for one pair.
//
// A formula (score_formula.h) uses up to one number per pair of each learned parameter: the cap,
// the slope of the head. They are drawn from the case's seed and owned by the case. Shares no code
// with the library.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "check/reference/score_formula.h"
#include "check/tensors/arrays.h"
#include "score_references.inc"  // ScoreReference: the variant of all formulas, written by the build

namespace check {

// A learned parameter of a score: a number, or a tensor with numbers per head.
struct LearnedParameter {
  std::string_view name;
  int own_rank;  // of a tensor: how many of its last dimensions belong to one head; -1: a number
  double value;  // of a number
  double least, most;  // of the elements of a tensor
  Dims dims;           // of a tensor
  TensorView numbers;  // made by draw()
};

struct ScoreSpec {
  // The numbers that a pair uses: their places among those of all learned parameters, one after the
  // other.
  using Which = std::array<int64_t, kMostPerPair>;  // -1: none

  ScoreReference formula;
  std::string arguments;                  // as the library reads them, without tensors
  std::vector<LearnedParameter> learned;  // in the order of the declaration

  std::string_view name() const;
  const LearnedParameter* tensor() const;         // one of most dimensions; null: no tensors
  int64_t count() const;                          // of the numbers of all learned parameters
  bool operator==(const ScoreSpec& other) const;  // ignores drawn numbers

  // Draws the numbers; they are appended to `owner`. `dtype`: that of the problem.
  void draw(Random& random, DType dtype, std::vector<Tensor>& owner);

  Which numbers_at(const PairPlace& place) const;
  double number(int64_t at) const;

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace& place) const {
    return std::visit([&](const auto& f) { return f.of(s, own, place); }, formula);
  }
};

// The formula of a score. Throws std::logic_error if there is none of this name.
ScoreReference formula_of(std::string_view score, const VariantArguments& arguments);

// The number of numbers of all scores together.
int64_t count_parameters_of(std::span<const ScoreSpec> scores);

// The text in a descriptor; dimensions that follow from `leading` are left out.
std::string to_string(const ScoreSpec& score, const Dims& leading);

// The dimensions of a tensor where none are written: the heads, and 32 entries if several numbers
// belong to one head.
Dims default_tensor_dims(const Dims& leading, int own_rank);

}  // namespace check
