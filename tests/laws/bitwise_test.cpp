// Laws that hold bit by bit: on which inputs the bits of a row may depend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "support/call.h"

namespace laws {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

AttentionResult call(const TensorView& q, const TensorView& k, const TensorView& v,
                     const AttentionOptions& options) {
  return scaled_dot_product_attention(q, k, v, options);
}

AttentionResult rows_of(const AttentionResult& r, std::span<const int64_t> rows) {
  AttentionResult part;
  part.output = taken(r.output, -2, rows);
  part.statistic = taken(r.statistic, -1, rows);
  return part;
}

AttentionResult first_rows(const AttentionResult& r, int64_t count) {
  Dims rows(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) rows[static_cast<size_t>(i)] = i;
  return rows_of(r, rows);
}

Dims counted(int64_t begin, int64_t end) {
  Dims range;
  for (int64_t i = begin; i < end; ++i) range.push_back(i);
  return range;
}

TEST(Bitwise, QueryPermutation) {
  for_problems(40, unmasked(), [](const Case& c, Random& random) {
    const auto order = random.permutation(c.descriptor.q_len);
    EXPECT_TRUE(same_results(call(taken(c.query, -2, order), c.key, c.value, c.options),
                             rows_of(attend(c), order)));
  });
}

TEST(Bitwise, QuerySubset) {
  for_problems(40, unmasked(), [](const Case& c, Random& random) {
    auto some = random.permutation(c.descriptor.q_len);
    some.resize(static_cast<size_t>(random.between(0, c.descriptor.q_len)));
    EXPECT_TRUE(same_results(call(taken(c.query, -2, some), c.key, c.value, c.options),
                             rows_of(attend(c), some)));
  });
}

// With a mask and a bias that have a row per query, these move along.
TEST(Bitwise, QueryPermutationUnderMaskAndBias) {
  Wanted wanted = unmasked();
  wanted.leading = false;
  for_problems(40, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    Tensor allowed(DType::boolean, {p.q_len, p.k_len});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.6)); });
    const Tensor bias = random_normal(random, p.dtype, {p.q_len, p.k_len});
    const auto run = [&](const Tensor& q, const Tensor& mask_values, const Tensor& bias_values) {
      const rapt::Boolean mask(mask_values);
      const rapt::Mask* masks[] = {&mask};
      AttentionOptions options = c.options;
      options.masks = masks;
      options.bias = bias_values;
      return call(q, c.key, c.value, options);
    };
    const auto order = random.permutation(p.q_len);
    EXPECT_TRUE(same_results(
        run(taken(c.query, -2, order), taken(allowed, -2, order), taken(bias, -2, order)),
        rows_of(run(c.query, allowed, bias), order)));
  });
}

// The other rows of a tile, even with NaN and Inf, change no bit.
TEST(Bitwise, OtherRowsDoNotMatter) {
  for_problems(60, {}, [](const Case& c, Random& random) {
    if (c.descriptor.q_len < 2) return;
    const int64_t row = random.between(0, c.descriptor.q_len - 1);
    const double other = random.pick({kNan, HUGE_VAL, 0.0, 1e30});
    const Tensor query = mapped(
        c.query, [&](double x, auto index) { return index[index.size() - 2] == row ? x : other; });
    const Dims rows{row};
    EXPECT_TRUE(same_results(rows_of(call(query, c.key, c.value, c.options), rows),
                             rows_of(attend(c), rows)));
  });
}

TEST(Bitwise, HeadSlice) {
  for_problems(60, unmasked(), [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    if (p.leading.empty() || p.query.leading != p.leading || p.leading != p.key.leading ||
        p.leading != p.value.leading)
      return;
    const int dim = static_cast<int>(random.between(0, static_cast<int64_t>(p.leading.size()) - 1));
    const Dims one{random.between(0, p.leading[static_cast<size_t>(dim)] - 1)};
    const AttentionResult whole = attend(c);
    AttentionResult part;
    part.output = taken(whole.output, dim, one);
    part.statistic = taken(whole.statistic, dim, one);
    const AttentionResult alone =
        call(taken(c.query, dim, one), taken(c.key, dim, one), taken(c.value, dim, one), c.options);
    EXPECT_TRUE(same_results(alone, part));
  });
}

TEST(Bitwise, GroupedHeadsAreRepeatedHeads) {
  for_problems(60, {}, [](const Case& c, Random&) {
    const Descriptor& p = c.descriptor;
    if (p.leading.empty() || p.key.leading.empty() || p.value.leading.empty()) return;
    const auto repeated = [&](const Tensor& t) {
      const int64_t own = t.dim(-3), heads = p.leading.back();
      Dims order;
      for (int64_t h = 0; h < heads; ++h) order.push_back(h / (heads / own));
      return taken(t, -3, order);
    };
    EXPECT_TRUE(
        same_results(call(c.query, repeated(c.key), repeated(c.value), c.options), attend(c)));
  });
}

TEST(Bitwise, StridedIsContiguous) {
  for_problems(150, {}, [](const Case& c, Random&) {
    AttentionOptions options = c.options;
    options.weights.emplace();
    const AttentionResult dense = call(c.query, c.key, c.value, options);
    if (c.bias.defined()) options.bias = c.strided_bias;
    EXPECT_TRUE(
        same_results(call(c.strided_query, c.strided_key, c.strided_value, options), dense));
  });
}

// Stride 0 stands for equal entries.
TEST(Bitwise, ZeroStrideIsRepetition) {
  for_problems(40, {}, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    if (p.k_len == 0 || p.q_len == 0 || p.value_dim == 0) return;
    TensorView views[] = {c.query, c.key, c.value};
    TensorView& one = views[random.between(0, 2)];
    const int dim = static_cast<int>(random.between(0, one.rank - 1));
    const Dims zeros(static_cast<size_t>(one.shape[dim]), 0);
    const Tensor copies = taken(one, dim, zeros);
    one.strides[dim] = 0;
    const TensorView repeated = one;
    const AttentionResult by_stride = call(views[0], views[1], views[2], c.options);
    for (TensorView& view : views)
      if (view.data == repeated.data) view = copies;
    EXPECT_TRUE(same_results(by_stride, call(views[0], views[1], views[2], c.options)));
  });
}

TEST(Bitwise, PowerOfTwoOnValue) {
  for_problems(40, {}, [](const Case& c, Random& random) {
    const double factor = random.pick({8.0, 1024.0, 0.25, -2.0});
    const Tensor value = mapped(c.value, [&](double x, auto) { return factor * x; });
    AttentionResult expected = attend(c);
    // Zeros of rows without keys stay +0 under a negative factor.
    expected.output =
        mapped(expected.output, [&](double x, auto) { return x == 0 ? x : factor * x; });
    EXPECT_TRUE(same_results(call(c.query, c.key, value, c.options), expected));
  });
}

TEST(Bitwise, PowersOfTwoBetweenQueryAndKey) {
  for_problems(40, {}, [](const Case& c, Random& random) {
    const double factor = random.pick({2.0, 64.0, 0.125});
    const Tensor query = mapped(c.query, [&](double x, auto) { return x * factor; });
    const Tensor key = mapped(c.key, [&](double x, auto) { return x / factor; });
    EXPECT_TRUE(same_results(call(query, key, c.value, c.options), attend(c)));
  });
}

// Additional masked keys full of NaN change nothing, because key blocks start at key 0.
TEST(Bitwise, AppendedMaskedKeys) {
  for_problems(60, unmasked(), [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    const int64_t more = random.pick({1, 3, 16, 64, 130, 300});
    const auto appended = [&](const Tensor& t) {
      Dims dims(t.dims().begin(), t.dims().end());
      dims[dims.size() - 2] = more;
      return concatenated(t, filled(p.dtype, dims, kNan), -2);
    };
    Tensor allowed = filled(DType::boolean, {1, p.k_len + more}, 0);
    for (int64_t j = 0; j < p.k_len; ++j) set(allowed, Dims{0, j}, 1);
    const rapt::Boolean mask(allowed);
    const rapt::Mask* masks[] = {&mask};
    AttentionOptions options = c.options;
    options.masks = masks;
    EXPECT_TRUE(
        same_results(call(c.query, appended(c.key), appended(c.value), options), attend(c)));
  });
}

TEST(Bitwise, PaddingByLengths) {
  Wanted wanted = unmasked();
  wanted.leading = false;
  for_problems(60, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    const int64_t more = random.pick({1, 7, 64, 200});
    const auto padded = [&](const Tensor& t) {
      const Tensor rest = filled(p.dtype, {more, t.dim(-1)}, HUGE_VAL);
      Dims dims{1, p.k_len + more, t.dim(-1)};
      Tensor batch = concatenated(t, rest, -2);
      return Tensor::copy_of(TensorView(batch.view().data, p.dtype, dims, true));
    };
    const Tensor length = filled(DType::i64, {1}, static_cast<double>(p.k_len));
    const rapt::Lengths mask(length);
    const rapt::Mask* masks[] = {&mask};
    AttentionOptions options = c.options;
    options.masks = masks;
    const AttentionResult got = call(c.query, padded(c.key), padded(c.value), options);
    const AttentionResult expected = attend(c);
    const Dims out{p.q_len, p.value_dim}, row{p.q_len};
    EXPECT_TRUE(same_bits(TensorView(got.output.view().data, p.dtype, out, true), expected.output));
    EXPECT_TRUE(
        same_bits(TensorView(got.statistic.view().data, p.dtype, row, true), expected.statistic));
  });
}

// A prefix computed alone equals the prefix of the whole.
TEST(Bitwise, CausalPrefix) {
  for_problems(60, unmasked(), [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    const int64_t count = random.between(0, std::min(p.q_len, p.k_len));
    const rapt::Causal mask;
    const rapt::Mask* masks[] = {&mask};
    AttentionOptions options = c.options;
    options.masks = masks;
    const Dims prefix = counted(0, count);
    EXPECT_TRUE(same_results(call(taken(c.query, -2, prefix), taken(c.key, -2, prefix),
                                  taken(c.value, -2, prefix), options),
                             first_rows(call(c.query, c.key, c.value, options), count)));
  });
}

// Decoding step by step, with the keys so far and a bottom-right diagonal, equals one call, for any
// step length.
TEST(Bitwise, ChunkedPrefillIsOneShot) {
  Wanted wanted = unmasked();
  wanted.empty = false;
  for_problems(40, wanted, [](const Case& c, Random& random) {
    const int64_t n = std::min(c.descriptor.q_len, c.descriptor.k_len);
    const Dims all = counted(0, n);
    const Tensor query = taken(c.query, -2, all), key = taken(c.key, -2, all),
                 value = taken(c.value, -2, all);
    const rapt::Causal whole_mask, chunk_mask(rapt::Anchor::bottom_right);
    const rapt::Mask* whole_masks[] = {&whole_mask};
    const rapt::Mask* chunk_masks[] = {&chunk_mask};
    AttentionOptions options = c.options;
    options.masks = whole_masks;
    const AttentionResult whole = call(query, key, value, options);
    options.masks = chunk_masks;
    for (int64_t begin = 0, end; begin < n; begin = end) {
      end = std::min(n, begin + random.between(1, 40));
      const AttentionResult chunk =
          call(query.view().slice(-2, begin, end), key.view().slice(-2, 0, end),
               value.view().slice(-2, 0, end), options);
      EXPECT_TRUE(same_results(chunk, rows_of(whole, counted(begin, end)))) << begin << " " << end;
    }
  });
}

// The same under a window, which masks keys in front: the first key of a tile depends on its other
// queries, but the key blocks must not.
TEST(Bitwise, ChunkedWindowIsOneShot) {
  Random random(base_seed());
  for (const int64_t left : {0, 5, 40, 100, 150})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(left);
      const int64_t n = 400;
      const Tensor x = random_normal(random, dtype, {n, 6}, 3);
      const rapt::Window whole_mask(left, 0), chunk_mask(left, 0, rapt::Anchor::bottom_right);
      const rapt::Mask* whole_masks[] = {&whole_mask};
      const rapt::Mask* chunk_masks[] = {&chunk_mask};
      AttentionOptions options;
      options.invariant = true;
      options.masks = whole_masks;
      const AttentionResult whole = call(x, x, x, options);
      options.masks = chunk_masks;
      for (int64_t begin = 0, end; begin < n; begin = end) {
        end = std::min(n, begin + random.between(1, 40));
        const TensorView seen = x.view().slice(0, 0, end);
        EXPECT_TRUE(same_results(call(x.view().slice(0, begin, end), seen, seen, options),
                                 rows_of(whole, counted(begin, end))))
            << begin << " " << end;
      }
    }
}

// Distances on a log scale, or beyond the ends of a table, share rows. How many others a tile has
// beside these depends on its other queries, and the sum over those that share one must not.
TEST(Bitwise, ValueRowsOfSomeQueries) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t exact : {0, 2}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << exact);
      const int64_t n = 300;
      const Tensor x = random_normal(random, dtype, {n, 4}),
                   rows = random_normal(random, dtype, {exact > 0 ? 9 : 3, 4});
      const auto queries = [&](int64_t begin, int64_t end) {
        return x.view().slice(0, begin, end);
      };
      AttentionOptions options;
      options.invariant = true;
      options.relative.value_rows = rows;
      options.relative.exact = exact, options.relative.max_distance = 14 * exact;
      const AttentionResult whole = call(x, x, x, options);
      for (const int64_t count : {1, 5, 24, 37, 64, 150})
        EXPECT_TRUE(same_results(call(queries(0, count), x, x, options), first_rows(whole, count)))
            << "the first " << count;
      options.relative.anchor = rapt::Anchor::bottom_right;
      for (const int64_t count : {1, 5, 24, 37, 64, 150})
        EXPECT_TRUE(same_results(call(queries(n - count, n), x, x, options),
                                 rows_of(whole, counted(n - count, n))))
            << "the last " << count;
      const rapt::Causal mask(rapt::Anchor::bottom_right);
      const rapt::Mask* masks[] = {&mask};
      options.masks = masks;
      const AttentionResult causal = call(x, x, x, options);
      for (int64_t begin = 0, end; begin < n; begin = end) {
        end = std::min(n, begin + random.between(1, 40));
        EXPECT_TRUE(
            same_results(call(queries(begin, end), queries(0, end), queries(0, end), options),
                         rows_of(causal, counted(begin, end))))
            << begin << " " << end;
      }
    }
}

// The contents of masked keys in front and in the middle change no bit, like those at the end.
TEST(Bitwise, ValuesOfExcludedKeysDoNotMatter) {
  for_problems(60, {}, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    Tensor allowed = filled(DType::boolean, {1, p.k_len}, 1);
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(0.5)); });
    const rapt::Boolean mask(allowed);
    std::vector<const rapt::Mask*> masks = c.mask_pointers;
    masks.push_back(&mask);
    AttentionOptions options = c.options;
    options.masks = masks;
    const auto spoilt = [&](const Tensor& t, double with) {
      return mapped(t, [&](double x, auto index) {
        return get(allowed, Dims{0, index[index.size() - 2]}) != 0 ? x : with;
      });
    };
    EXPECT_TRUE(
        same_results(call(c.query, spoilt(c.key, kNan), spoilt(c.value, -HUGE_VAL), options),
                     call(c.query, spoilt(c.key, 0), spoilt(c.value, 1), options)));
  });
}

}  // namespace
}  // namespace laws
