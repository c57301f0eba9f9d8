#pragma once
// Random attention problems: described by one line, built from it, counted.
//
// Sizes lie around every boundary that the library has (SIMD lanes, tiles, blocks of keys); leading
// dimensions broadcast and group; masks, bias, strides and scales come in all combinations.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laws/arrays.h"
#include "laws/random.h"
#include "rapt/attention.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "reference/attention_reference.h"

namespace laws {

// One mask as plain data, with its meaning as a predicate that shares no code with the library.
struct MaskSpec {
  enum Kind : uint8_t { causal, window, lengths, boolean } kind = causal;
  rapt::Anchor anchor = rapt::Anchor::top_left;
  int64_t offset = 0;    // causal
  int64_t left = -1;     // window
  int64_t right = -1;    // window
  Dims dims;             // lengths: a prefix of the leading dimensions; boolean: broadcast
  double density = 0.5;  // boolean: how many are true
  TensorView values;     // lengths: i64, boolean: bool; made and owned by Case

  std::string descriptor() const;
  bool allowed(std::span<const int64_t> leading, const Dims& leading_dims, int64_t q_len,
               int64_t k_len, int64_t i, int64_t j) const;
  std::unique_ptr<rapt::Mask> make() const;
};

struct Side {  // one input tensor
  Dims leading;
  Layout layout = Layout::dense;
  int repeated = -1;  // a dimension with stride 0
};

struct Problem {
  uint64_t seed = 0;  // of all values
  DType dtype = DType::f32;
  Dims leading;  // of the output
  Side query, key, value, bias;
  int64_t q_len = 1, k_len = 1, head_dim = 1, value_dim = 1;
  std::vector<MaskSpec> masks;
  bool has_bias = false;
  Dims bias_dims;               // all dimensions
  double excluded_by_bias = 0;  // part of the bias that is -inf
  std::optional<double> scale;
  double magnitude = 1;  // of query, key and value

  std::string descriptor() const;
  double work() const;  // multiplications
};

// What a law can take. Everything else is drawn.
struct Wanted {
  bool masks = true;
  bool bias = true;
  bool leading = true;  // leading dimensions and grouped heads
  bool layouts = true;  // strides other than dense
  bool empty = true;    // lengths of 0
  std::optional<DType> dtype;
  double max_work = 1.5e6;
};
// Neither masks nor bias: positions mean nothing.
inline Wanted unmasked() {
  Wanted wanted;
  wanted.masks = wanted.bias = false;
  return wanted;
}

Problem random_problem(Random& random, const Wanted& wanted = {});

// A problem with its tensors. Move-only; the options point into it.
class Case {
 public:
  explicit Case(Problem problem);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Problem problem;
  Tensor query, key, value, bias;  // dense; bias may be absent
  Strided strided_query, strided_key, strided_value, strided_bias;
  std::vector<Tensor> mask_values;
  std::vector<std::unique_ptr<rapt::Mask>> masks;
  std::vector<const rapt::Mask*> mask_pointers;
  rapt::AttentionOptions options;  // over the dense tensors

  bool allowed(std::span<const int64_t> leading, int64_t i, int64_t j) const;
  reference::Problem for_reference() const;
};

// How many problems a test draws: all of `standard` in an optimised build, fewer under a sanitizer
// or without optimisation; RAPT_TEST_PERCENT overrides.
int problem_count(int standard);

// The seed of every generator, printed at the start; RAPT_TEST_SEED overrides.
uint64_t base_seed();

// How many different descriptors have become a Case in this process.
size_t distinct_problems();

}  // namespace laws
