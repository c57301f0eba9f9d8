// First the sizes, then how the inputs are shaped, laid out and masked.
#include "check/draw/random_descriptor.h"

#include <algorithm>

#include "check/draw/drawn_mask.h"
#include "check/draw/sizes.h"

namespace check {
namespace {

int64_t random_length(Random& random, const Wanted& wanted) {
  if (wanted.empty && random.chance(0.02)) return 0;
  // Small lengths are more frequent, because they allow other sizes to be large.
  if (random.chance(0.4)) return kLengths[static_cast<size_t>(random.between(0, 19))];
  return random.pick(kLengths);
}

int64_t random_head_dim(Random& random) {
  if (random.chance(0.5)) return random.between(1, 20);
  return random.pick(kHeadDims);
}

// The leading dimensions of key or value for those of an output: some are 1 instead, some missing,
// some have fewer heads.
Dims broadcast_from(Random& random, const Dims& leading, int64_t kv_heads) {
  Dims dims = leading;
  if (!dims.empty()) dims.back() = kv_heads;
  for (int64_t& length : dims)
    if (random.chance(0.15)) length = 1;
  const auto missing =
      random.chance(0.2) ? random.between(0, static_cast<int64_t>(dims.size())) : 0;
  dims.erase(dims.begin(), dims.begin() + missing);
  return dims;
}

Dims broadcast_of_all(const Dims& a, const Dims& b) {
  Dims longer = a.size() >= b.size() ? a : b;
  const Dims& other = a.size() >= b.size() ? b : a;
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t& length = longer[longer.size() - other.size() + i];
    if (length == 1)
      length = other[i];
    else if (other[i] != 1)
      length = std::max(length, other[i]);  // grouped heads
  }
  return longer;
}

void draw_leading(Random& random, Descriptor& p) {
  const int64_t rank = random.pick({0, 0, 1, 1, 2, 2, 2, 3, 4});
  Dims leading(static_cast<size_t>(rank));
  for (int64_t& length : leading) length = random.pick({1, 2, 2, 3});
  int64_t kv_heads = 1;
  if (rank > 0) {
    kv_heads = random.pick({1, 2, 3});
    leading.back() = kv_heads * random.pick({1, 1, 2, 3, 4});
  }
  p.key.leading = broadcast_from(random, leading, kv_heads);
  p.value.leading = broadcast_from(random, leading, kv_heads);
  p.query.leading = leading;
  if (random.chance(0.15)) {  // the query is broadcast: one query, many keys
    for (int64_t& length : p.query.leading)
      if (random.chance(0.5)) length = 1;
    if (!p.query.leading.empty() && p.query.leading.back() == 1 && p.key.leading.size() > 0 &&
        p.value.leading.size() > 0)
      p.value.leading.back() = p.key.leading.back();
  }
  p.leading = broadcast_of_all(p.query.leading, broadcast_of_all(p.key.leading, p.value.leading));
}

Side laid_out(Random& random, Side side) {
  if (random.chance(0.5)) side.layout = static_cast<Layout>(random.between(0, kLayouts - 1));
  return side;
}

void draw_rows(Random& random, Descriptor& p) {
  if (random.chance(0.5)) p.rows.cosine = RowSpec::kEpsilon;
  if (p.head_dim >= 2 && random.chance(0.6)) {
    RotarySpec& rotary = p.rows.rotary.emplace();
    rotary.dims = random.chance(0.5) && p.head_dim > 2 ? 2 : p.head_dim / 2 * 2;
    if (rotary.dims == p.head_dim) rotary.dims = 0;
    rotary.interleaved = random.chance(0.5);
    rotary.query.start = 3;
  }
}

void draw_scale(Random& random, Descriptor& p) {
  switch (random.between(0, 7)) {
    case 0:
      p.scale = 0.0;
      break;
    case 1:
      p.scale = -0.3;
      break;
    case 2:
      p.scale = 7.0;
      break;
    case 3:
      p.scale = 1.0;
      break;
    default:
      break;
  }
}

}  // namespace

Descriptor random_descriptor(Random& random, const Wanted& wanted) {
  Descriptor p;
  do {
    p = Descriptor{};
    p.seed = random.next() >> 32;
    p.dtype = wanted.dtype ? *wanted.dtype : random.chance(0.15) ? DType::f64 : DType::f32;
    p.q_len = random_length(random, wanted);
    p.k_len = random_length(random, wanted);
    if (random.chance(0.1)) {  // decoding: few queries, many keys
      p.q_len = random.chance(0.7) ? 1 : random.between(2, 8);
      p.k_len = random.between(64, 300);
    }
    p.head_dim = random_head_dim(random);
    p.value_dim = random.chance(0.5) ? p.head_dim : random_head_dim(random);
    if (wanted.empty && random.chance(0.01)) p.value_dim = 0;
    if (wanted.leading) draw_leading(random, p);
  } while (p.work() > wanted.max_work);

  p.invariant = wanted.invariant;
  if (wanted.masks) {
    const int64_t count = random.pick({0, 0, 1, 1, 1, 2, 3});
    for (int64_t m = 0; m < count; ++m) p.masks.push_back(drawn_leaf(random, p, true));
  }
  if (wanted.bias && random.chance(0.25)) {
    p.has_bias = true;
    p.bias_dims = drawn_matrix_dims(random, p);
    p.bias = laid_out(random, {});
    p.excluded_by_bias = random.pick({0.0, 0.0, 0.2, 0.9, 1.0});
  }
  if (wanted.layouts) {
    p.query = laid_out(random, p.query);
    p.key = laid_out(random, p.key);
    p.value = laid_out(random, p.value);
    for (Side* side : {&p.query, &p.key, &p.value})
      if (random.chance(0.1))
        side->repeated =
            static_cast<int>(random.between(0, static_cast<int64_t>(side->leading.size()) + 1));
  }
  if (wanted.rows) draw_rows(random, p);
  draw_scale(random, p);
  p.magnitude = random.pick({1.0, 1.0, 1.0, 0.01, 4.0});
  return p;
}

}  // namespace check
