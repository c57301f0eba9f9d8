#include "rapt/generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "nn/training/random_numbers.h"

namespace rapt::generation {
namespace {

using Candidate = Sampler::Candidate;

[[noreturn]] void fail_option(const char* name, double value, const char* expected) {
  throw Error(ErrorCode::argument,
              std::string(name) + " is " + std::to_string(value) + "; expected " + expected, name);
}

bool comes_first(const Candidate& a, const Candidate& b) {
  return a.probability > b.probability || (a.probability == b.probability && a.token < b.token);
}

// Divides by the sum.
void normalize(std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.probability;
  for (Candidate& c : candidates) c.probability /= sum;
}

template <class E>
void copy_logits(const TensorView& logits, std::vector<Candidate>& candidates) {
  const E* const from = static_cast<const E*>(logits.data);
  for (size_t i = 0; i < candidates.size(); ++i)
    candidates[i] = {static_cast<int64_t>(i), static_cast<double>(from[i])};
}

}  // namespace

void check_sampling_options(const SamplingOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    fail_option("temperature", options.temperature, "a finite number, 0 or more");
  if (options.top_k < 0)
    throw Error(ErrorCode::argument,
                "top_k is " + std::to_string(options.top_k) + "; expected 0 or more", "top_k");
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail_option("top_p", options.top_p, "more than 0, at most 1");
  if (!(options.min_p >= 0 && options.min_p <= 1)) fail_option("min_p", options.min_p, "0 to 1");
}

Sampler::Sampler(const SamplingOptions& options, int64_t vocabulary)
    : options_(options), vocabulary_(vocabulary) {
  check_sampling_options(options);
  if (vocabulary < 1)
    throw Error(ErrorCode::argument,
                "a vocabulary of " + std::to_string(vocabulary) + " tokens; expected 1 or more");
  candidates_.reserve(static_cast<size_t>(vocabulary));
}

void Sampler::read_logits(const TensorView& logits) {
  const int64_t shape[] = {vocabulary_};
  if (logits.rank != 1 || logits.shape[0] != vocabulary_ || !logits.contiguous())
    throw Error(ErrorCode::shape,
                "logits " + to_string(logits.dims()) + "; expected dense " + to_string(shape));
  candidates_.resize(static_cast<size_t>(vocabulary_));
  switch (logits.dtype) {
    case DType::f32:
      return copy_logits<float>(logits, candidates_);
    case DType::f64:
      return copy_logits<double>(logits, candidates_);
    case DType::bf16:
      return copy_logits<BFloat16>(logits, candidates_);
    case DType::f16:
      return copy_logits<Float16>(logits, candidates_);
    default:
      throw Error(ErrorCode::dtype, std::string("logits are ") + name_of(logits.dtype) +
                                        "; expected f32, f64, bf16 or f16");
  }
}

void Sampler::keep_largest(size_t count) {
  const auto begin = candidates_.begin();
  std::partial_sort(begin, begin + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                    comes_first);
  candidates_.resize(count);
}

// Sorts no more candidates than are looked at, in runs of growing length.
void Sampler::keep_top_p() {
  constexpr size_t kFirstRun = 64;
  const size_t count = candidates_.size();
  const auto at = [&](size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
  double all = 0, sum = 0;
  for (const Candidate& c : candidates_) all += c.probability;
  size_t kept = 0, sorted = 0;
  while (kept < count && sum < options_.top_p * all) {
    if (kept == sorted) {
      sorted = std::min(count, std::max(kFirstRun, 4 * sorted));
      std::partial_sort(at(kept), at(sorted), candidates_.end(), comes_first);
    }
    sum += candidates_[kept++].probability;
  }
  candidates_.resize(kept);
}

std::span<const Candidate> Sampler::candidates(const TensorView& logits) {
  read_logits(logits);
  Candidate first{0, -std::numeric_limits<double>::infinity()};
  for (const Candidate& c : candidates_) {
    if (!(c.probability < std::numeric_limits<double>::infinity()))
      throw Error(ErrorCode::argument, "the logit of token " + std::to_string(c.token) + " is " +
                                           std::to_string(c.probability) +
                                           "; expected finite numbers or -inf");
    if (comes_first(c, first)) first = c;
  }
  if (!std::isfinite(first.probability))
    throw Error(ErrorCode::argument, "all logits are -inf; expected a token that is not excluded");
  if (options_.temperature == 0) {
    candidates_.assign(1, {first.token, 1});
    return candidates_;
  }
  const auto top_k = static_cast<size_t>(options_.top_k);
  if (top_k > 0 && top_k < candidates_.size()) keep_largest(top_k);
  for (Candidate& c : candidates_)
    c.probability = std::exp((c.probability - first.probability) / options_.temperature);
  if (options_.top_p < 1) keep_top_p();
  std::erase_if(candidates_, [&](const Candidate& c) {  // the largest is e^0
    return c.probability == 0 || c.probability < options_.min_p;
  });
  normalize(candidates_);
  return candidates_;
}

int64_t Sampler::draw(const TensorView& logits, int64_t sequence, int64_t position) {
  double symmetric = 0;  // between -1 and 1
  nn::draw_symmetric(options_.seed, static_cast<uint64_t>(sequence), position, position + 1,
                     &symmetric);
  double left = 0.5 + 0.5 * symmetric;
  for (const Candidate& c : candidates(logits)) {
    left -= c.probability;
    if (left < 0) return c.token;
  }
  return candidates_.back().token;  // the rounded sum is below the number
}

}  // namespace rapt::generation
