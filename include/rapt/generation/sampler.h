#pragma once
// Draws the next token of a text from the logits of a language model.
//
//   p = softmax(logits / temperature)
//   top_k  keeps the k most probable tokens
//   top_p  keeps the fewest most probable of them whose probabilities sum to top_p or more
//          (Holtzman et al. 2020, arXiv:1904.09751, section 3.1)
//   min_p  keeps those with at least min_p times the probability of the most probable token
//          (Nguyen et al. 2024, arXiv:2407.01082, section 3)
//
// Each step divides by the sum of what is left, in this order, as Hugging Face transformers does.
// Of equally probable tokens the earlier one is kept; transformers keeps all that tie with token k.
//
// Random numbers are made by counters: a token depends on the logits, the options, the number of
// its sequence and its position, and on nothing that was drawn before.
#include <cstdint>
#include <span>
#include <vector>

#include "rapt/tensor.h"

namespace rapt::generation {

// How tokens are drawn.
struct SamplingOptions {
  double temperature = 1;  // 0: the token with the largest logit, of equal ones the earlier
  int64_t top_k = 0;       // 0: all tokens
  double top_p = 1;        // above 0, at most 1: all tokens
  double min_p = 0;        // 0: all tokens; at most 1
  uint64_t seed = 1;       // of the random numbers
};

// Throws Error(argument) for an option out of its range.
void check_sampling_options(const SamplingOptions& options);

// Keeps its memory from draw to draw. Not for several threads at once.
class Sampler {
 public:
  // A token that may be drawn, and how probable it is.
  struct Candidate {
    int64_t token;       // its id
    double probability;  // above 0
  };

  // Throws as check_sampling_options(), and Error(argument) for a vocabulary without a token.
  Sampler(const SamplingOptions& options, int64_t vocabulary);

  // The tokens that may be drawn: their probabilities sum to 1. Those kept by top_k or top_p come
  // in the order of their probabilities, others in that of their tokens. `logits`: [vocabulary] of
  // any floating-point type, dense; -inf excludes a token. Throws Error(shape, dtype), and
  // Error(argument) for NaN, +inf, or -inf alone. Valid until the next call.
  std::span<const Candidate> candidates(const TensorView& logits);

  // Draws one of them for a position of a sequence, both 0 or more.
  int64_t draw(const TensorView& logits, int64_t sequence, int64_t position);

 private:
  void read_logits(const TensorView& logits);
  void keep_largest(size_t count);
  void keep_top_p();

  SamplingOptions options_;
  int64_t vocabulary_;
  // In the course of candidates() `probability` is first a logit, then e^(logit - largest).
  std::vector<Candidate> candidates_;
};

}  // namespace rapt::generation
