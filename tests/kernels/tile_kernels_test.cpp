// The kernels of the tiles routes give the same bits by instructions and by emulation. Both agree
// with plain sums in double within the derived error. Machines with AMX run the instructions; on
// other machines with AVX-512 the trap emulates them.
#include "kernels/tile_routes.h"

namespace rapt {
namespace {

using TileKernelsDeathTest = TileKernelsTest;

// ---- Scores ----

TEST_F(TileKernelsTest, Scores) {
  for_routes(60, [](const Routes& routes, Random& random) {
    const int64_t head_dim = drawn_length(random, 130), queries = 32;
    StoredRows query(random, routes.dtype, random.between(1, queries), head_dim);
    StoredRows key(random, routes.dtype, drawn_length(random, 128), head_dim);
    for (StoredRows* rows : {&query, &key}) {
      rows->fill(random);
      if (random.chance(0.3))
        rows->set_some(random, 3, {kNaN, kInfinity, 1e30f, -1e-30f, 1e-41f, 0x1p40f, -0x1p-48f});
    }
    const int64_t first = 32 * random.between(0, (key.count - 1) / 32), keys = key.count - first;
    const auto factor = random.pick({1.0f, 0.125f * 1.442695f, -3.0f});
    const Made made = both(routes, [&](const Route& route) {
      const Block<std::byte> query_t(queries * padded(head_dim) * route.element_size);
      // The scale 12345 must be ignored: tiles routes scale the scores, not the queries.
      route.pack_queries(query.data, query.row_stride, query.dim_stride, query.count, head_dim,
                         12345, queries, query_t.data());
      const Packed rows = packed(route, route.pack_keys, key);
      const Block<float> scores(padded(keys) * queries), most(queries);
      route.products[queries / 16 - 1].scores(query_t.data(), rows.from(route, first), rows.stride,
                                              keys, head_dim, factor, scores.data(), most.data());
      Made result{query_t.image(), scores.image()};
      append(result.operands, rows.block.image());
      result.numbers.resize(at(keys * queries));
      append(result.numbers, most.image());
      return result;
    });
    const auto number = [&](int64_t i) { return std::bit_cast<float>(made.numbers[at(i)]); };
    for (int64_t i = 0; i < queries; ++i) {
      float most = -kInfinity;
      bool nan = false;
      for (int64_t j = 0; j < keys; ++j) {
        const float result = number(j * queries + i);
        most = std::max(most, result), nan |= std::isnan(result);
        if (i >= query.count && std::isfinite(result)) {
          ASSERT_EQ(result, 0) << "a lane without a query";
          continue;
        }
        Sum sum;
        for (int64_t d = 0; d < head_dim; ++d)
          sum.add(i < query.count ? query.multiplied(i, d) : 0, key.multiplied(first + j, d));
        const double error = routes.scores.error(sum.count, sum.size, sum.largest);
        ASSERT_EQ(off(result, factor * sum.value,
                      std::fabs(factor) * (error + 0x1.01p-24 * std::fabs(sum.value))),
                  "")
            << "query " << i << ", key " << j << " of " << keys << " from " << first
            << ", head_dim " << head_dim;
      }
      if (!nan) {
        ASSERT_EQ(number(keys * queries + i), most) << "query " << i;
      }
    }
  });
}

// ---- Outputs ----

// The operands of an output product, and the bits of the pairs that attend.
struct OutputProblem {
  int64_t queries, first, keys;
  StoredRows value;
  Block<float> weights, output, rescale;
  Block<uint64_t> bits;
  bool rescales;

  OutputProblem(Random& random, DType dtype, int64_t most_dims, int64_t most_keys)
      : queries(32),
        first(0),
        keys(0),
        value(random, dtype, drawn_length(random, most_keys), drawn_length(random, most_dims)),
        weights(0),
        output(value.dims * queries),
        rescale(queries),
        bits(0),
        rescales(random.chance(0.5)) {
    first = 32 * random.between(0, (value.count - 1) / 32), keys = value.count - first;
    value.fill(random);
    weights = drawn_weights(random, keys, queries);
    bits = Block<uint64_t>(keys);
    const double share = random.pick({0.1, 0.5, 0.9});
    for (int64_t j = 0; j < keys; ++j) {
      bits[j] = 0;
      for (int64_t i = 0; i < queries; ++i) bits[j] |= uint64_t{random.chance(share)} << i;
    }
    for (int64_t x = 0; x < value.dims * queries; ++x)
      output[x] = static_cast<float>(random.normal());
    for (int64_t i = 0; i < queries; ++i) rescale[i] = static_cast<float>(random.uniform());
  }
  bool allowed(int64_t i, int64_t j) const { return bits[j] >> i & 1; }

  // Multiplies all pairs, or only those that attend (`of_bits`). With `zeroed`, masked pairs have
  // weight 0.
  Made make(const Route& route, bool of_bits, bool zeroed) const {
    const Packed rows = packed(route, route.pack_values, value);
    const Block<std::byte> rounded(padded(keys) * queries * route.weight_size);
    const Block<float> some(keys * queries), to(value.dims * queries);
    for (int64_t x = 0; x < keys * queries; ++x)
      some[x] = zeroed && !allowed(x % queries, x / queries) ? 0 : weights[x];
    std::copy_n(output.data(), value.dims * queries, to.data());
    route.round_weights(some.data(), keys, queries, rounded.data());
    const float* const factor = rescales ? rescale.data() : nullptr;
    const std::byte* const from = rows.from(route, first);
    if (of_bits)
      route.output_of_bits(rounded.data(), bits.data(), from, rows.stride, keys, value.dims, factor,
                           queries, to.data());
    else
      route.products[queries / 16 - 1].output(rounded.data(), from, rows.stride, keys, value.dims,
                                              factor, to.data());
    Made made{rows.block.image(), to.image()};
    append(made.operands, rounded.image());
    return made;
  }
  void check(const Routes& routes, const Image& results, bool of_bits) const {
    for (int64_t d = 0; d < value.dims; ++d)
      for (int64_t i = 0; i < queries; ++i) {
        Sum sum;
        for (int64_t j = 0; j < keys; ++j)
          if (!of_bits || allowed(i, j))
            sum.add(value.multiplied(first + j, d), routes.taken(weights[j * queries + i]));
        const double before = (rescales ? double{rescale[i]} : 1) * double{output[d * queries + i]};
        const double expected = before + sum.value;
        const double error = routes.output.error(keys, sum.size, sum.largest);
        ASSERT_EQ(off(std::bit_cast<float>(results[at(d * queries + i)]), expected,
                      1.01 * error + 0x1.01p-24 * std::fabs(expected)),
                  "")
            << "query " << i << " of " << queries << ", dim " << d << " of " << value.dims << ", "
            << keys << " keys from " << first;
      }
  }
};

TEST_F(TileKernelsTest, Outputs) {
  for_routes(60, [](const Routes& routes, Random& random) {
    OutputProblem problem(random, routes.dtype, 130, 128);
    if (random.chance(0.3))
      problem.value.set_some(random, 3, {kNaN, kInfinity, -1e30f, 1e-30f, -1e-41f});
    const Made made =
        both(routes, [&](const Route& route) { return problem.make(route, false, false); });
    problem.check(routes, made.numbers, false);
  });
}

// Masked pairs add nothing, whatever their weight and value are. The result has the same bits as a
// product in which masked pairs have weight 0.
TEST_F(TileKernelsTest, OutputsOfSomePairs) {
  for_routes(8, [](const Routes& routes, Random& random) {
    OutputProblem problem(random, routes.dtype, 70, 100);
    const Made made =
        both(routes, [&](const Route& route) { return problem.make(route, true, false); });
    problem.check(routes, made.numbers, true);
    const RouteThread<float> thread(routes.emulated());
    const Made all = problem.make(routes.emulated(), false, true);
    EXPECT_EQ(difference(made.numbers, all.numbers, false), "");

    problem.value.set_some(random, 4, {kNaN, kInfinity, -kInfinity});
    const Made others =
        both(routes, [&](const Route& route) { return problem.make(route, true, false); });
    problem.check(routes, others.numbers, true);
  });
}

// ---- Sums over queries ----

// One to three query tiles, the last of which may be short.
struct GradientProblem {
  struct Tile {
    int64_t queries, count;
    Block<float> weights;
    Block<uint64_t> bits;
    bool partial;
  };
  std::vector<Tile> tiles;
  int64_t keys, stride;
  std::unique_ptr<StoredRows> rows;
  Block<float> gradient;

  GradientProblem(Random& random, DType dtype, int64_t most_dims, int64_t most_keys)
      : keys(drawn_length(random, most_keys)), stride(0), gradient(0) {
    int64_t count = 0;
    const int64_t last = random.between(0, 2), dims = drawn_length(random, most_dims);
    for (int64_t t = 0; t <= last; ++t) {
      const int64_t queries = 32;
      const int64_t some = t == last ? random.between(1, queries) : queries;
      Tile tile{queries, some, drawn_weights(random, keys, queries), Block<uint64_t>(keys),
                random.chance(0.7)};
      for (int64_t j = 0; j < keys; ++j) {
        tile.bits[j] = random.next() & random.next();
        for (int64_t i = some; i < queries; ++i) tile.weights[j * queries + i] = 0;
      }
      tiles.push_back(std::move(tile));
      count += some;
    }
    rows = std::make_unique<StoredRows>(random, dtype, count, dims);
    rows->fill(random);
    stride = dims + random.between(0, 3);
    gradient = Block<float>((keys - 1) * stride + dims);
    for (int64_t x = 0; x < (keys - 1) * stride + dims; ++x)
      gradient[x] = static_cast<float>(random.normal());
  }

  static bool allowed(const Tile& tile, int64_t i, int64_t j) {
    return !tile.partial || (tile.bits[j] >> i & 1);
  }
  Made make(const Route& route, bool of_bits, bool zeroed) const {
    const int64_t dims = rows->dims;
    const Packed from = packed(route, route.pack_rows, *rows);
    Made made{from.block.image(), {}};
    std::vector<GradientSpan<float>> spans;
    std::vector<Block<std::byte>> rounded;
    int64_t before = 0;
    for (const Tile& tile : tiles) {
      const Block<float> some(keys * tile.queries);
      for (int64_t x = 0; x < keys * tile.queries; ++x)
        some[x] =
            zeroed && !allowed(tile, x % tile.queries, x / tile.queries) ? 0 : tile.weights[x];
      rounded.emplace_back(padded(keys) * tile.queries * route.weight_size);
      route.round_for_keys(some.data(), keys, tile.queries, rounded.back().data());
      append(made.operands, rounded.back().image());
      spans.push_back({rounded.back().data(), tile.queries, from.from(route, before), from.stride,
                       tile.count, tile.partial ? tile.bits.data() : nullptr});
      before += tile.count;
    }
    const int64_t length = (keys - 1) * stride + dims;
    const Block<float> to(length);
    std::copy_n(gradient.data(), length, to.data());
    const auto& [add, add_of_bits] = route.key_gradients;
    (of_bits ? add_of_bits : add)(spans.data(), static_cast<int64_t>(spans.size()), keys, dims,
                                  to.data(), stride);
    made.numbers = to.image();
    return made;
  }
  void check(const Routes& routes, const Image& results, bool of_bits) const {
    int64_t length = 0;  // that is summed
    for (const Tile& tile : tiles) length += padded(tile.count);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < stride && j * stride + d < static_cast<int64_t>(results.size());
           ++d) {
        const float result = std::bit_cast<float>(results[at(j * stride + d)]);
        const float before = gradient[j * stride + d];
        if (d >= rows->dims) {
          ASSERT_EQ(result, before) << "behind key " << j;
          continue;
        }
        Sum sum;
        int64_t first = 0;
        for (const Tile& tile : tiles) {
          for (int64_t i = 0; i < tile.count; ++i)
            if (!of_bits || allowed(tile, i, j))
              sum.add(routes.taken(tile.weights[j * tile.queries + i]),
                      rows->multiplied(first + i, d));
          first += tile.count;
        }
        const double expected = double{before} + sum.value;
        const double error = routes.gradient().error(length, sum.size, sum.largest);
        ASSERT_EQ(off(result, expected, 1.01 * error + 0x1.01p-24 * std::fabs(expected)), "")
            << "key " << j << " of " << keys << ", dim " << d << " of " << rows->dims << ", "
            << tiles.size() << " tiles, " << rows->count << " queries";
      }
  }
};

TEST_F(TileKernelsTest, SumsOverQueries) {
  for_routes(40, [](const Routes& routes, Random& random) {
    GradientProblem problem(random, routes.dtype, 130, 128);
    if (random.chance(0.3))
      problem.rows->set_some(random, 3, {kNaN, kInfinity, -1e30f, 1e-30f, -1e-41f});
    const Made made =
        both(routes, [&](const Route& route) { return problem.make(route, false, false); });
    problem.check(routes, made.numbers, false);
  });
}

TEST_F(TileKernelsTest, SumsOverSomeQueries) {
  for_routes(8, [](const Routes& routes, Random& random) {
    GradientProblem problem(random, routes.dtype, 70, 70);
    const Made made =
        both(routes, [&](const Route& route) { return problem.make(route, true, false); });
    problem.check(routes, made.numbers, true);
    const RouteThread<float> thread(routes.emulated());
    const Made all = problem.make(routes.emulated(), false, true);
    EXPECT_EQ(difference(made.numbers, all.numbers, false), "");

    problem.rows->set_some(random, 4, {kNaN, kInfinity, -kInfinity});
    const Made others =
        both(routes, [&](const Route& route) { return problem.make(route, true, false); });
    problem.check(routes, others.numbers, true);
  });
}

// ---- Elements that are not finite or have no parts ----

// bf16 rows keep elements that are not finite. Other dtypes leave them out, so that all_finite() is
// true.
TEST_F(TileKernelsTest, AllFinite) {
  for_routes(60, [](const Routes& routes, Random& random) {
    StoredRows rows(random, routes.dtype, drawn_length(random, 128), drawn_length(random, 130));
    rows.fill(random);
    const bool spoilt = random.chance(0.6);
    if (spoilt) rows.set_some(random, 1, {kNaN, kInfinity, -kInfinity});
    for (const bool summed_by_key : {false, true})
      both(routes, [&](const Route& route) {
        const Packed at = packed(route, summed_by_key ? route.pack_rows : route.pack_values, rows);
        const bool finite = route.all_finite(at.block.data(), at.stride, rows.count, rows.dims);
        EXPECT_EQ(finite, !spoilt || routes.dtype != DType::bf16);
        return Made{at.block.image(), {}};
      });
  });
}

TEST_F(TileKernelsTest, ElementsThatAreLeftOut) {
  for_routes(60, [](const Routes& routes, Random& random) {
    if (routes.dtype == DType::bf16) {
      EXPECT_EQ(routes.emulated().find_outside, nullptr);
      EXPECT_EQ(routes.emulated().take_outside, nullptr);
      return;
    }
    StoredRows rows(random, routes.dtype, drawn_length(random, 128), drawn_length(random, 130));
    rows.fill(random);
    const float below = std::nextafter(0x1p-48f, 0.0f), above = std::nextafter(0x1p40f, kInfinity);
    rows.set_some(random, random.between(0, 20),
                  {kNaN, kInfinity, -kInfinity, 1e-45f, -0x1p-126f, 0x1p-48f, -0x1p-48f, below,
                   -below, 0x1p40f, -0x1p40f, above, -above, FLT_MAX, 0.0f, -0.0f});
    const Made made = both(routes, [&](const Route& route) {
      const Block<uint64_t> bits((rows.count + 63) / 64);
      const Block<float> outside(rows.count * rows.dims);
      route.find_outside(rows.data, rows.row_stride, rows.dim_stride, rows.count, rows.dims,
                         bits.data());
      route.take_outside(rows.data, rows.row_stride, rows.dim_stride, rows.count, rows.dims,
                         outside.data());
      return Made{bits.image(), outside.image()};
    });
    for (int64_t i = 0; i < padded(rows.count) + 32 && i / 32 < std::ssize(made.operands); ++i) {
      bool any = false;
      for (int64_t d = 0; i < rows.count && d < rows.dims; ++d) {
        const bool left_out = rows.left_out(i, d);
        const float expected = left_out ? rows.get(i, d) : 0;
        any |= left_out;
        ASSERT_EQ(difference({made.numbers[at(i * rows.dims + d)]},
                             {std::bit_cast<uint32_t>(expected)}, true),
                  "")
            << "row " << i << ", dim " << d;
      }
      ASSERT_EQ(made.operands[at(i / 32)] >> (i % 32) & 1, any) << "row " << i;
    }
  });
}

// ---- Threads ----

// RouteThread nests, as when a hook of a call makes a call itself. The inner one leaves the
// registers empty.
TEST_F(TileKernelsTest, ThreadsNest) {
  for_routes(3, [](const Routes& routes, Random& random) {
    const OutputProblem one(random, routes.dtype, 70, 70), other(random, routes.dtype, 70, 70);
    const auto make = [](const OutputProblem& problem, const Route& route, Image& all) {
      append(all, problem.make(route, false, false).numbers);
    };
    const Made nested = both(routes, [&](const Route& route) {
      Made made;
      make(one, route, made.numbers);
      {
        const RouteThread<float> inner(route);
        make(other, route, made.numbers);
        const RouteThread<float> innermost(route);
        make(one, route, made.numbers);
      }
      make(other, route, made.numbers);
      return made;
    });
    Image alone;
    for (const OutputProblem* problem : {&one, &other, &one, &other}) {
      const RouteThread<float> thread(routes.emulated());
      make(*problem, routes.emulated(), alone);
    }
    EXPECT_EQ(difference(nested.numbers, alone, false), "");
  });
}

TEST_F(TileKernelsDeathTest, ThreadsThatHaveNotBegun) {
  Random random(1);
  const OutputProblem problem(random, DType::f32, 32, 32);
  std::vector<const Route*> tested = {&kRoutes[0].emulated()};
  if (has_vectors_of_amx()) tested.push_back(&kRoutes[0].real());
  for (const Route* route : tested) {
    RAPT_EXPECT_REFUSED(problem.make(*route, false, false));
    { const RouteThread<float> thread(*route); }
    RAPT_EXPECT_REFUSED(problem.make(*route, false, false));
  }
}

}  // namespace
}  // namespace rapt
