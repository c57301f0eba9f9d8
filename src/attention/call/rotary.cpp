// Rotary embeddings: their declaration, checks and frequencies.
#include "attention/call/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace rapt {
namespace {

constexpr Range kFactor{1e-6, 1e6};
constexpr Range kFlag{0, 1};

constexpr Parameter kParameters[] = {
    parameter<Rotary, &Rotary::theta>("theta", "base of the frequencies", {1, 1e30}),
    parameter<Rotary, &Rotary::pairs>("pairs", "which dimensions turn together", kAnyNumber,
                                      kRotaryPairsNames),
    parameter<Rotary, &Rotary::dims>("dims", "dimensions that turn, the first, even; 0: all",
                                     {0, 4294967296.0}),
    parameter<Rotary, &Rotary::scaling>("scaling", "for texts longer than those trained on",
                                        kAnyNumber, kRotaryScalingNames),
    parameter<Rotary, &Rotary::factor>("factor", "of the scaling", kFactor),
    parameter<Rotary, &Rotary::original_length>("original_length",
                                                "yarn, llama3: the longest text before", {1, 1e15}),
    parameter<Rotary, &Rotary::beta_fast>(
        "beta_fast", "yarn: turns within original_length from which on nothing changes", kFactor),
    parameter<Rotary, &Rotary::beta_slow>(
        "beta_slow", "yarn: turns up to which frequencies are divided by the factor", kFactor),
    parameter<Rotary, &Rotary::truncate>(
        "truncate", "yarn: the ramp between begins and ends at whole pairs", kFlag),
    parameter<Rotary, &Rotary::attention_factor>(
        "attention_factor", "yarn: rows are multiplied by it; 0: 0.1 ln factor + 1", {0, 1e6}),
    parameter<Rotary, &Rotary::low_frequency_factor>(
        "low_frequency_factor", "llama3: waves longer than original_length / this are scaled",
        kFactor),
    parameter<Rotary, &Rotary::high_frequency_factor>(
        "high_frequency_factor", "llama3: waves shorter than original_length / this are not",
        kFactor),
    parameter<Rotary, &Rotary::cos_cache>("cos_cache",
                                          "[positions, dims / 2] made before, instead of theta"),
    parameter<Rotary, &Rotary::sin_cache>("sin_cache", "as cos_cache"),
};

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
  throw Error(code, "rotary: " + message);
}

bool has_sections(const Rotary& rotary) noexcept {
  return std::any_of(std::begin(rotary.sections), std::end(rotary.sections),
                     [](int64_t dims) { return dims != 0; });
}

int axes_of(const Rotary& rotary) noexcept {
  int axes = 1;
  for (int k = 0; k < kMostRotaryAxes; ++k)
    if (rotary.sections[k] != 0) axes = k + 1;
  return axes;
}

int64_t dims_of(const Rotary& rotary, int64_t head_dim) noexcept {
  return rotary.dims == 0 ? head_dim : rotary.dims;
}

// The frequency of pair i of an embedding of `dims` dimensions.
double frequency_of(const Rotary& r, int64_t dims, int64_t i) noexcept {
  const auto d = static_cast<double>(dims), nth = static_cast<double>(i);
  // With two dimensions there is one frequency, 1, whatever the base.
  const double theta = r.scaling == RotaryScaling::ntk && dims > 2
                           ? r.theta * std::pow(r.factor, d / (d - 2))
                           : r.theta;
  const double frequency = std::pow(theta, -2 * nth / d);
  switch (r.scaling) {
    case RotaryScaling::linear:
      return frequency / r.factor;
    case RotaryScaling::yarn: {
      // The index of the pair that makes this many turns within the original length.
      const auto pair_of_turns = [&](double turns) {
        return d * std::log(r.original_length / (turns * 2 * std::numbers::pi)) /
               (2 * std::log(theta));
      };
      double low = pair_of_turns(r.beta_fast), high = pair_of_turns(r.beta_slow);
      if (r.truncate) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0), high = std::min(high, d - 1);
      if (low == high) high += 0.001;  // as the original does, so that the ramp is a step
      const double ramp = std::clamp((nth - low) / (high - low), 0.0, 1.0);
      return frequency / r.factor * ramp + frequency * (1 - ramp);
    }
    case RotaryScaling::llama3: {
      const double wave = 2 * std::numbers::pi / frequency;
      if (wave < r.original_length / r.high_frequency_factor) return frequency;
      if (wave > r.original_length / r.low_frequency_factor) return frequency / r.factor;
      const double smooth = (r.original_length / wave - r.low_frequency_factor) /
                            (r.high_frequency_factor - r.low_frequency_factor);
      return (1 - smooth) * frequency / r.factor + smooth * frequency;
    }
    case RotaryScaling::none:
    case RotaryScaling::ntk:
      break;
  }
  return frequency;
}

void check_sections(const Rotary& rotary, int64_t dims) {
  int64_t sum = 0;
  bool ended = false, gap = false;
  for (const int64_t section : rotary.sections) {
    if (section < 0 || section % 2 != 0)
      fail(ErrorCode::argument, "a section of " + std::to_string(section) +
                                    " dimensions; expected an even number, pairs turn together");
    gap |= ended && section != 0;
    ended |= section == 0;
    sum += std::min(section, dims + 1);
  }
  if (gap || sum != dims)
    fail(ErrorCode::argument, "sections " + to_string(Shape(rotary.sections, kMostRotaryAxes)) +
                                  "; expected those of all axes first, " + std::to_string(dims) +
                                  " dimensions in all");
}

// Checks a tensor [batch ..., own dimensions]: alignment, addresses, batch.
void take_per_row(const char* name, const char* what, const TensorView& view, int own,
                  Shape leading, PerRow& taken) {
  const auto named = [&] { return std::string(name) + ": " + what + " " + to_string(view.dims()); };
  if (view.rank > kMaxRank || view.rank < own)
    fail(ErrorCode::shape, named() + " has rank " + std::to_string(view.rank) + "; expected " +
                               std::to_string(own) +
                               " dimensions, or those of the batch before them");
  extent_of(what, view);
  check_alignment(what, view);
  if (!view.data && !view.empty())
    fail(ErrorCode::argument, named() + " has elements but a null data pointer");
  taken.data = view.data;
  taken.dtype = view.dtype;
  taken.rank = view.rank - own;
  bool fits = taken.rank <= static_cast<int>(leading.size());
  for (int i = 0; fits && i < taken.rank; ++i) {
    fits = view.shape[i] == 1 || view.shape[i] == leading[static_cast<size_t>(i)];
    taken.lead_strides[i] = view.shape[i] == 1 ? 0 : view.strides[i];
  }
  if (!fits)
    fail(ErrorCode::shape, named() + " does not fit the first leading dimensions " +
                               to_string(leading) + "; each must be equal or 1");
  taken.row_stride = view.strides[taken.rank];
  taken.own_stride = own > 1 ? view.strides[taken.rank + 1] : 0;
}

// Calls visit(element) for every element of an int64 tensor.
template <class Visit>
void for_each_value(const TensorView& tensor, const Visit& visit, int dim = 0, int64_t at = 0) {
  if (dim == tensor.rank) return visit(static_cast<const int64_t*>(tensor.data)[at]);
  for (int64_t i = 0; i < tensor.shape[dim]; ++i)
    for_each_value(tensor, visit, dim + 1, at + i * tensor.strides[dim]);
}

// Checks that every position has a row in the caches.
void check_cached(const char* name, const RotaryPositions& positions, int64_t first, int64_t last,
                  int64_t counted, int64_t rows) {
  const auto refuse = [&](int64_t position) {
    fail(ErrorCode::argument, std::string(name) + ": position " + std::to_string(position) +
                                  " is not in the caches, which have the positions 0 to " +
                                  std::to_string(rows - 1));
  };
  const auto check = [&](int64_t position) {
    if (position < 0 || position >= rows) refuse(position);
  };
  if (positions.values.defined()) {
    for_each_value(positions.values, check);
  } else if (counted > 0) {
    check(first), check(last);
  }
}

}  // namespace

const Declaration Rotary::kDeclaration = {
    "rotary", "query and key rows turn by angles that grow with their positions",
    "Su et al. 2021, arXiv:2104.09864, section 3.2.2", kParameters};

int64_t check_rotary(const Rotary& r, int64_t head_dim) {
  check_parameters(Rotary::kDeclaration, &r);
  const int64_t dims = dims_of(r, head_dim);
  if (dims % 2 != 0 || dims > head_dim)
    fail(ErrorCode::argument, "dims = " + std::to_string(dims) + " of a head_dim of " +
                                  std::to_string(head_dim) +
                                  "; expected an even number up to it, pairs turn together");
  if (static_cast<unsigned>(r.axes) > 1) fail(ErrorCode::argument, "unknown kind of axes");
  if (has_sections(r)) check_sections(r, dims);
  if (r.scaling == RotaryScaling::yarn && !(r.theta > 1))
    fail(ErrorCode::argument, "yarn needs frequencies that differ; expected theta above 1");
  if (r.scaling == RotaryScaling::llama3 && !(r.low_frequency_factor < r.high_frequency_factor))
    fail(ErrorCode::argument, "low_frequency_factor " + std::to_string(r.low_frequency_factor) +
                                  " and high_frequency_factor " +
                                  std::to_string(r.high_frequency_factor) +
                                  "; expected the first to be smaller");
  if (r.cos_cache.defined() != r.sin_cache.defined())
    fail(ErrorCode::argument, "one cache without the other; expected cos_cache and sin_cache");
  if (r.cos_cache.defined() && has_sections(r))
    fail(ErrorCode::unsupported, "caches of several axes; expected one axis, or frequencies");
  return dims / 2;
}

RotaryPair pair_of(const Rotary& r, int64_t head_dim, int64_t i) noexcept {
  int64_t first = 0, dims = dims_of(r, head_dim), nth = i;
  int axis = 0;
  if (has_sections(r)) {  // the section of the pair
    for (first = 0; axis + 1 < kMostRotaryAxes && nth >= r.sections[axis] / 2; ++axis)
      nth -= r.sections[axis] / 2, first += r.sections[axis];
    if (r.axes == RotaryAxes::apart)
      dims = r.sections[axis];
    else
      first = 0, nth = i;
  }
  const bool halves = r.pairs == RotaryPairs::halves;
  const DimPair turning = halves ? DimPair{first + nth, first + nth + dims / 2}
                                 : DimPair{first + 2 * nth, first + 2 * nth + 1};
  return {turning, axis, frequency_of(r, dims, nth)};
}

void take_positions(const char* name, const Rotary& rotary, const RotaryPositions& positions,
                    int64_t pairs, Shape leading, int64_t length, int64_t counted, DType dtype,
                    RowPositions& taken) {
  taken = {};
  taken.start = positions.start, taken.step = positions.step;
  const TensorView& values = positions.values;
  const int axes = axes_of(rotary);
  int64_t last = positions.start;
  if (values.defined()) {
    if (positions.start != 0 || positions.step != 1)
      fail(ErrorCode::argument,
           std::string(name) + ": positions as a tensor beside a start or a step; expected one");
    if (values.dtype != DType::i64)
      fail(ErrorCode::dtype,
           std::string(name) + ": positions are " + name_of(values.dtype) + "; expected i64");
    take_per_row(name, "positions", values, axes > 1 ? 2 : 1, leading, taken.values);
    const int64_t rows = values.shape[taken.values.rank];
    if (rows != length || (axes > 1 && values.shape[taken.values.rank + 1] != axes))
      fail(ErrorCode::shape, std::string(name) + ": positions " + to_string(values.dims()) +
                                 "; expected [..., " + std::to_string(length) +
                                 (axes > 1 ? ", " + std::to_string(axes) + "]" : "]"));
  } else {
    if (axes > 1)
      fail(ErrorCode::argument, std::string(name) + ": positions on " + std::to_string(axes) +
                                    " axes need a tensor [..., " + std::to_string(length) + ", " +
                                    std::to_string(axes) + "]");
    // Integers that f64 represents exactly.
    constexpr int64_t kMost = int64_t{1} << 53;
    int64_t way;
    if (__builtin_mul_overflow(positions.step, std::max<int64_t>(counted - 1, 0), &way) ||
        __builtin_add_overflow(positions.start, way, &last) || last > kMost || last < -kMost ||
        positions.start > kMost || positions.start < -kMost)
      fail(ErrorCode::overflow, std::string(name) + ": positions from " +
                                    std::to_string(positions.start) + " in steps of " +
                                    std::to_string(positions.step) + "; expected all within 2^53");
  }
  if (!rotary.cos_cache.defined()) return;
  const auto take_cache = [&](const char* what, const TensorView& cache, PerRow& of) {
    const DType other = dtype == DType::f64 ? DType::f64 : DType::f32;
    if (cache.dtype != dtype && cache.dtype != other)
      fail(ErrorCode::dtype, std::string(what) + " is " + name_of(cache.dtype) + "; expected " +
                                 name_of(dtype) + " as the rows" +
                                 (dtype == other ? "" : ", or f32"));
    take_per_row(name, what, cache, 2, leading, of);
    if (cache.shape[cache.rank - 1] != pairs)
      fail(ErrorCode::shape, std::string(what) + " " + to_string(cache.dims()) + " has " +
                                 std::to_string(cache.shape[cache.rank - 1]) +
                                 " columns; expected one for each of the " + std::to_string(pairs) +
                                 " pairs");
    check_cached(what, positions, positions.start, last, counted, cache.shape[cache.rank - 2]);
  };
  take_cache("cos_cache", rotary.cos_cache, taken.cos_cache);
  take_cache("sin_cache", rotary.sin_cache, taken.sin_cache);
}

double rotary_magnitude(const Rotary& r) {
  if (r.scaling != RotaryScaling::yarn) return 1;
  if (r.attention_factor > 0) return r.attention_factor;
  return r.factor <= 1 ? 1 : 0.1 * std::log(r.factor) + 1;
}

Tensor rotary_frequencies(const Rotary& rotary, int64_t head_dim) {
  const int64_t pairs = check_rotary(rotary, head_dim);
  Tensor frequencies(DType::f64, {pairs});
  for (int64_t i = 0; i < pairs; ++i)
    frequencies.values<double>()[static_cast<size_t>(i)] = pair_of(rotary, head_dim, i).frequency;
  return frequencies;
}

TensorView split_heads(const TensorView& view, int64_t num_heads) {
  if (view.rank < 2 || view.rank >= kMaxRank || num_heads < 1 ||
      view.shape[view.rank - 1] % num_heads != 0)
    throw Error(ErrorCode::shape, "a tensor of shape " + to_string(view.dims()) + " in " +
                                      std::to_string(num_heads) +
                                      " heads; expected [..., n, num_heads * head_dim]");
  TensorView heads = view;
  const int rows = view.rank - 2;
  const int64_t head_dim = view.shape[rows + 1] / num_heads;
  heads.rank = view.rank + 1;
  heads.shape[rows] = num_heads, heads.strides[rows] = head_dim * view.strides[rows + 1];
  heads.shape[rows + 1] = view.shape[rows], heads.strides[rows + 1] = view.strides[rows];
  heads.shape[rows + 2] = head_dim, heads.strides[rows + 2] = view.strides[rows + 1];
  return heads;
}

}  // namespace rapt
