// The dilated window; the formula is in the header. Bound: values[0] = o, values[1] = how many
// positions to either side of its own position a query may attend to.
#include "rapt/mask/dilated.h"

#include <algorithm>

#include "mask/anchored.h"
#include "mask/steps.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Dilated, &Dilated::window>(
        "window", "keys on each side that a query may attend to, beside that of its own position",
        {0, 9007199254740992.0}, {}, true),
    parameter<Dilated, &Dilated::step>("step", "positions from one of these keys to the next",
                                       {1, 9007199254740992.0}, {}, true),
    parameter<Dilated, &Dilated::anchor>(
        "anchor", "which corner of the matrix the window starts at", kAnyNumber, kAnchorNames),
    parameter<Dilated, &Dilated::lengths>(
        "lengths", "int64 [B]: where the bottom-right corner of each batch is, instead of k_len"),
};

constexpr const char* kExamples[] = {"4,2", "2,3", "1,5,bottom-right", "3,1"};

// The first key from 0 on to which one of the queries at positions first..last may attend; k_len if
// there is none.
int64_t first_key(int64_t first, int64_t last, int64_t reach, int64_t step,
                  int64_t k_len) noexcept {
  first = std::max(first, -reach);
  last = std::min(last, k_len - 1 + reach);
  if (first > last) return k_len;
  if (first >= reach) return first - reach;
  // A query at position p below reach attends to key p mod step.
  const int64_t least = remainder_of(first, step);
  const bool to_key_0 = least == 0 || last - first >= step - least;
  return std::min(to_key_0 ? 0 : least, k_len);
}

}  // namespace

const Declaration Dilated::kDeclaration = {
    "dilated", "a query attends to every step-th key near its own position",
    "Beltagy et al. 2020, arXiv:2004.05150, section 3.1", kParameters, kExamples};

void Dilated::check(Shape leading, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  check_anchor("mask dilated: lengths", anchor, lengths, leading, k_len);
}

void Dilated::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(anchor, lengths, head, *bound);
  bound->values[1] = window > kUnbounded / step ? kUnbounded : window * step;
}

KeyRange Dilated::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const int64_t o = bound.values[0], reach = bound.values[1], end = bound.k_len;
  const int64_t first = queries.start + o, last = queries.last() + o;
  const int64_t begin = first_key(first, last, reach, step, end);
  if (begin == end) return {0, 0};
  // The last key is the first one from behind.
  return {begin, end - first_key(end - 1 - last, end - 1 - first, reach, step, end)};
}

KeyRange Dilated::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  const int64_t reach = bound.values[1];
  const int64_t first = queries.start + bound.values[0], last = queries.last() + bound.values[0];
  if (last - first + 1 >= step)  // the runs of all steps touch
    return part_of_run({first - reach, last + reach + 1}, from, bound.k_len);
  RunOfSteps run = run_of_steps(first, last, step, from);
  if (run.m < -window) run.keys = {first - reach, last - reach + 1};
  return part_of_run(run.m > window ? KeyRange{} : run.keys, from, bound.k_len);
}

Cover Dilated::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const int64_t o = bound.values[0], reach = bound.values[1];
  // The distances of keys from queries; with steps of 1 all from least to most.
  const int64_t least = keys.start - queries.last() - o, most = keys.last() - queries.start - o;
  const int64_t from = std::max(least, -reach), to = std::min(most, reach);
  if (from > to || to - remainder_of(to, step) < from) return Cover::none;
  const bool within = from == least && to == most;
  return within && (step == 1 || least == most) ? Cover::all : Cover::some;
}

void Dilated::exclude(const BoundMask& bound, Positions queries, Positions keys,
                      uint64_t* bits) const noexcept {
  const int64_t o = bound.values[0], reach = bound.values[1];
  uint64_t every = 0;  // every step-th query
  for (int64_t i = 0; i < 64; i += step) every |= uint64_t{1} << i;
  for (int64_t j = 0; j < keys.count; ++j) {
    const int64_t p = keys[j] - o - queries.start;  // from the first query to the key
    uint64_t near = low_bits(queries_before(p + reach + 1, queries)) &
                    ~low_bits(queries_before(p - reach, queries));
    if (queries.step == 1) {
      const int64_t first = remainder_of(p, step);
      near &= first < 64 ? every << first : 0;
    } else {
      for (int64_t i = 0; i < queries.count; ++i)
        if ((p - i * queries.step) % step != 0) near &= ~(uint64_t{1} << i);
    }
    bits[j] &= near;
  }
}

}  // namespace rapt
