#pragma once
// LSH attention with separate keys: exact attention over the pairs that share a bucket in some
// round. The buckets are those that the library finds, because a hash may differ where projections
// tie within their rounding; which pairs they let meet is stated here.
//
// Shared keys and counted duplicates are no exact problem of query, key and value;
// tests/method/lsh_reference.h states them.
#include <memory>
#include <stdexcept>
#include <utility>

#include "check/reference/reference.h"
#include "rapt/attention.h"
#include "rapt/method/lsh.h"

namespace check {

class LshReference {
 public:
  static constexpr std::string_view kName = "lsh";

  explicit LshReference(const VariantArguments& arguments) {
    if (arguments.words.at("keys") != "separate" ||
        arguments.words.at("duplicates") != "count-once")
      throw std::logic_error("lsh with shared keys or counted duplicates is no exact problem");
    lsh_.keys = rapt::LshKeys::separate;
    lsh_.rounds = arguments.integers.at("rounds");
    lsh_.chunk = arguments.integers.at("chunk");
    lsh_.buckets = arguments.integers.at("buckets");
    lsh_.seed = arguments.integers.at("seed");
  }

  Problem restated(Problem p) const {
    const auto buckets = std::make_shared<rapt::LshBuckets>(
        rapt::lsh_buckets(p.query, p.key, p.value, {.method = &lsh_}));
    p.allowed = [buckets, rounds = lsh_.rounds, before = std::move(p.allowed)](
                    std::span<const int64_t> leading, int64_t i, int64_t j) {
      if (before && !before(leading, i, j)) return false;
      int64_t head = 0;
      for (size_t d = 0; d < leading.size(); ++d)
        head = head * buckets->query.dim(static_cast<int>(d)) + leading[d];
      for (int64_t r = head * rounds; r < (head + 1) * rounds; ++r)
        if (bucket(buckets->query, r, i) == bucket(buckets->key, r, j)) return true;
      return false;
    };
    p.rounds_weights = false;  // rows are computed in f32, whatever their dtype
    return p;
  }

 private:
  // Buckets are [heads * rounds][rows].
  static int32_t bucket(const rapt::Tensor& buckets, int64_t row, int64_t position) {
    return buckets.values<int32_t>()[static_cast<size_t>(row * buckets.dim(-1) + position)];
  }

  rapt::Lsh lsh_;
};

}  // namespace check
