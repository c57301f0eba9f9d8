#pragma once
// A descriptor with its tensors and masks: the arguments for the library and the reference.
#include <memory>
#include <vector>

#include "check/compare/drawn_cache.h"
#include "check/problem/descriptor.h"
#include "check/problem/parse_scores.h"
#include "check/reference/reference.h"
#include "rapt/attention.h"
#include "rapt/catalogue.h"

namespace check {

// It cannot be moved or copied, because the options point into it.
class Case {
 public:
  explicit Case(Descriptor descriptor);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Descriptor descriptor;
  // Dense; bias may be absent. With a cache: the keys and values that lie in it, [sequences, ...,
  // k_len, dim] with 0 beyond a length, or one packed sequence after the other.
  Tensor query, key, value, bias;
  Strided strided_query, strided_key, strided_value, strided_bias;
  Tensor query_starts, key_starts;  // [sequences + 1] of packed sequences
  std::optional<DrawnCache> cache;
  std::vector<Tensor> mask_values, score_numbers;
  std::vector<Tensor> relative_tables;  // of descriptor.relative, those that are there
  std::array<Strided, RelativeSpec::kParts> strided_relative;
  std::vector<std::unique_ptr<rapt::Mask>> masks;
  std::vector<const rapt::Mask*> mask_pointers;
  std::vector<rapt::MadeScore> scores;
  std::vector<Tensor> normalizer_numbers;
  rapt::MadeNormalizer normalizer;
  std::unique_ptr<rapt::Method> method;  // of descriptor.method; null: exact attention
  rapt::Rotary rotary;                   // of descriptor.rows
  rapt::AttentionOptions options;        // over the dense tensors, without cache and captures

  // The inputs in the layout of the descriptor: strides, and stride 0 for broadcast dimensions.
  // With a cache, key and value are the cache.
  struct Inputs {
    TensorView query, key, value, bias;
  };
  Inputs laid_out() const;
  // Options with the laid-out bias and tables, and with the cache and captures of the descriptor.
  rapt::AttentionOptions wanted_options() const;

  // The place of a pair in its sequence; none for a pair of different sequences.
  std::optional<PairPlace> place_of(std::span<const int64_t> leading, int64_t i, int64_t j) const;
  bool allowed(std::span<const int64_t> leading, int64_t i, int64_t j) const;
  // The first key of the query's sequence, from which its top_keys count.
  int64_t first_key(int64_t query_position) const;
  Problem for_reference() const;

 private:
  // The sequence of a query: where its queries and keys begin, and how many they are.
  struct Sequence {
    int64_t first_query = 0, q_len = 0, first_key = 0, k_len = 0;
  };
  Sequence sequence_of(std::span<const int64_t> leading, int64_t i) const;
  void place_rows(Problem& problem) const;

  void draw_inputs(Random& random);
  void draw_bias(Random& random);
  void draw_packing(Random& random);
  void draw_cache(Random& random);
  void draw_relative(Random& random);
  void change_rows();
  DType multiplied_dtype() const;  // of the rows that the exact engine gets
  std::string kernel() const;      // of the exact call
};

}  // namespace check
