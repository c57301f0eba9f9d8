// The strided pattern; the formula is in the header. Bound: values[0] = o.
#include "rapt/mask/strided.h"

#include <algorithm>

#include "mask/anchored.h"
#include "mask/steps.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Strided, &Strided::stride>(
        "stride", "last positions to attend to, and from one earlier position to the next",
        {1, 9007199254740992.0}, {}, true),
    parameter<Strided, &Strided::anchor>(
        "anchor", "which corner of the matrix the diagonal runs through", kAnyNumber, kAnchorNames),
    parameter<Strided, &Strided::lengths>(
        "lengths", "int64 [B]: where the bottom-right corner of each batch is, instead of k_len"),
};

constexpr const char* kExamples[] = {"128", "4", "7,bottom-right", "1"};

}  // namespace

const Declaration Strided::kDeclaration = {
    "strided", "a query attends to the last positions and to every stride-th before them",
    "Child et al. 2019, arXiv:1904.10509, section 4.3", kParameters, kExamples};

void Strided::check(Shape leading, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  check_anchor("mask strided: lengths", anchor, lengths, leading, k_len);
}

void Strided::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(anchor, lengths, head, *bound);
}

KeyRange Strided::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const KeyRange first = next_run(bound, queries, 0);
  if (first.begin >= first.end) return {0, 0};
  return {first.begin, std::min(queries.last() + bound.values[0] + 1, bound.k_len)};
}

KeyRange Strided::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  const int64_t first = queries.start + bound.values[0], last = queries.last() + bound.values[0];
  if (last - first + 1 >= stride)  // the runs of all strides touch
    return part_of_run({0, last + 1}, from, bound.k_len);
  const RunOfSteps run = run_of_steps(first, last, stride, from);
  if (run.m < -1) return part_of_run(run.keys, from, bound.k_len);
  return part_of_run({first - stride, last + 1}, from, bound.k_len);
}

Cover Strided::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  // The distances of queries from keys behind them; with steps of 1 all from least to most.
  const int64_t least = queries.start + bound.values[0] - keys.last();
  const int64_t most = queries.last() + bound.values[0] - keys.start;
  if (most < 0) return Cover::none;
  const int64_t from = std::max<int64_t>(least, 0);
  if (from > stride && multiple_below(most, stride) < from) return Cover::none;
  const bool every = most <= stride || stride == 1 || (least == most && least % stride == 0);
  return least >= 0 && every ? Cover::all : Cover::some;
}

void Strided::exclude(const BoundMask& bound, Positions queries, Positions keys,
                      uint64_t* bits) const noexcept {
  const int64_t start = queries.start + bound.values[0];
  uint64_t every = 0;  // every stride-th query
  for (int64_t i = 0; i < 64; i += stride) every |= uint64_t{1} << i;
  int64_t first = remainder_of(keys.start - start, stride);  // the first of them for a key
  for (int64_t j = 0; j < keys.count; ++j) {
    const int64_t p = keys[j] - start;  // from the first query to the key
    const uint64_t behind = ~low_bits(queries_before(p, queries));
    uint64_t apart = 0;
    if (queries.step == 1) {
      apart = first < 64 ? every << first : 0;
    } else {
      for (int64_t i = 0; i < queries.count; ++i)
        if ((p - i * queries.step) % stride == 0) apart |= uint64_t{1} << i;
    }
    bits[j] &= behind & (low_bits(queries_before(p + stride, queries)) | apart);
    first = next_remainder(first, keys.step, stride);
  }
}

}  // namespace rapt
