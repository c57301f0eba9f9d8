// A stage of the backward pass gives the same bits as its pieces one after the other: for every
// storage type, with masked pairs, short query tiles and key blocks, and with some gradients not
// wanted.
#include "kernels/tile_routes.h"
#include "rapt/normalizer/softmax.h"
#include "rapt/variants.h"

namespace rapt {
namespace {

constexpr int kSoftmax = index_in<Softmax>(Normalizers{});

// One query tile and the key blocks that it is multiplied with.
struct Walk {
  int64_t head_dim, value_dim, queries, count;
  float factor;
  StoredRows query, d_output;  // [count, head_dim], [count, value_dim]
  Block<float> statistic, delta;
  bool of_query, of_key, of_value;  // which gradient sums are wanted

  struct Keys {
    StoredRows key, value;  // [keys, head_dim], [keys, value_dim]
    Block<uint64_t> bits;
    bool partial;
    int64_t count() const { return key.count; }
  };
  std::vector<Keys> blocks;

  Walk(Random& random, DType dtype)
      : head_dim(drawn_length(random, 70)),
        value_dim(drawn_length(random, 70)),
        queries(32),
        count(random.chance(0.5) ? queries : random.between(1, queries)),
        factor(random.pick({1.442695f, 0.125f * 1.442695f, -3.0f})),
        query(random, dtype, count, head_dim),
        d_output(random, dtype, count, value_dim),
        statistic(queries),
        delta(queries),
        of_query(random.chance(0.8)),
        of_key(!of_query || random.chance(0.8)),
        of_value(random.chance(0.8)) {
    query.fill(random), d_output.fill(random);
    for (int64_t i = 0; i < queries; ++i) {
      statistic[i] = random.chance(0.1) ? -kInfinity : static_cast<float>(random.normal());
      delta[i] = static_cast<float>(random.normal());
    }
    for (int64_t b = random.between(1, 4); b > 0; --b) {
      const int64_t keys = drawn_length(random, 96);
      Keys block{{random, dtype, keys, head_dim},
                 {random, dtype, keys, value_dim},
                 Block<uint64_t>(keys),
                 random.chance(0.5)};
      block.key.fill(random), block.value.fill(random);
      if (random.chance(0.2)) block.key.set_some(random, 2, {kNaN, kInfinity, 1e30f});
      for (int64_t j = 0; j < keys; ++j)
        block.bits[j] =
            (block.partial ? random.next() : ~uint64_t{0}) & (~uint64_t{0} >> (64 - count));
      blocks.push_back(std::move(block));
    }
  }
};

// The operands and results of a Walk on one route.
class WalkOfRoute {
 public:
  WalkOfRoute(const Walk& walk, const Route& route, const NormalizerKernels<float>* normalizers)
      : w_(walk),
        route_(route),
        n_((route.normalizers ? route.normalizers : normalizers)[kSoftmax]),
        query_t_(columns(walk.query)),
        d_output_t_(columns(walk.d_output)),
        query_(packed(route, route.pack_rows, walk.query)),
        d_output_(packed(route, route.pack_rows, walk.d_output)),
        d_query_t_(walk.head_dim * walk.queries) {
    std::fill_n(d_query_t_.data(), walk.head_dim * walk.queries, 0.5f);
    for (const Walk::Keys& keys : walk.blocks) {
      const int64_t n = keys.count(), all = padded(n) * walk.queries;
      blocks_.push_back(
          {packed(route, route.pack_keys, keys.key),
           packed(route, route.pack_keys, keys.value),
           packed(route, route.pack_values, keys.key),
           Block<float>(all),
           Block<float>(all),
           {Block<std::byte>(all * route.weight_size), Block<std::byte>(all * route.weight_size),
            Block<std::byte>(all * route.weight_size)},
           Block<float>(n * walk.head_dim),
           Block<float>(n * walk.value_dim),
           {}});
      std::fill_n(blocks_.back().d_key.data(), n * walk.head_dim, 0.25f);
      std::fill_n(blocks_.back().d_value.data(), n * walk.value_dim, -1.0f);
    }
  }

  // Runs piece after piece, as the backward pass does without a pipeline.
  void make_pieces() {
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const StageProducts<float> products = products_of(b);
      const StageGradients<float> g = gradients_of(b);
      const auto& kernels = route_.products[w_.queries / 16 - 1];
      const Block<float> unused(w_.queries);
      const auto multiply = [&](const StageDots<float>& dots, float factor) {
        kernels.scores(dots.columns, dots.rows, dots.row_stride, products.keys, dots.dims, factor,
                       dots.dots, unused.data());
      };
      multiply(products.scores, w_.factor);
      multiply(products.d_weights, 1);
      Tile<float> tile;
      tile.scores = products.scores.dots;
      tile.keys = g.keys, tile.queries = w_.queries;
      tile.log2_units = true;
      float* const d = products.d_weights.dots;
      const Softmax softmax;
      n_.backward(&softmax, tile, d, g.statistic, g.delta);
      const auto keep = isa_amx_emulated::tables().f32->dropout.keep;
      if (g.bits) keep(tile.scores, g.bits, g.keys, w_.queries, 1);
      if (g.bits) keep(d, g.bits, g.keys, w_.queries, 1);
      if (g.weights) route_.round_for_keys(tile.scores, g.keys, w_.queries, g.weights);
      if (g.d_scores) route_.round_for_keys(d, g.keys, w_.queries, g.d_scores);
      if (g.d_scores_of_query) route_.round_weights(d, g.keys, w_.queries, g.d_scores_of_query);
      const StageSums<float> sums = sums_of(b);
      const StageOutput<float>& q = sums.d_query;
      if (q.output_t)
        kernels.output(q.rounded, q.value, q.value_stride, q.keys, q.value_dim, nullptr,
                       q.output_t);
      for (const StageKeySums<float>& sum : {sums.d_value, sums.d_key})
        if (sum.gradient)
          route_.key_gradients.add(sum.spans, 1, sum.keys, sum.dims, sum.gradient, sum.stride);
    }
  }

  // Pipelines three blocks at a time. With `alone`, each piece runs in a stage of its own.
  void make_stages(bool alone) {
    const GradientStage<float> stage = route_.gradient_stages[kSoftmax];
    const size_t count = blocks_.size();
    for (size_t s = 0; s < count + 2; ++s) {
      StageProducts<float> products;
      StageGradients<float> gradients;
      StageSums<float> sums = {};
      if (s < count) products = products_of(s);
      if (s >= 1 && s - 1 < count) gradients = gradients_of(s - 1);
      if (s >= 2) sums = sums_of(s - 2);
      const auto* const next = s < count ? &products : nullptr;
      const auto* const now = s >= 1 && s - 1 < count ? &gradients : nullptr;
      const auto* const before = s >= 2 ? &sums : nullptr;
      if (!alone) {
        stage(next, now, before);
        continue;
      }
      // `first` sums the first two panels, `others` the rest.
      StageSums<float> first = sums, others = sums;
      others.d_query = {};
      for (const auto sum : {&StageSums<float>::d_value, &StageSums<float>::d_key})
        (first.*sum).end = (others.*sum).begin = std::min<int64_t>(2, (sums.*sum).end);
      stage(nullptr, nullptr, before ? &first : nullptr);
      stage(nullptr, nullptr, before ? &others : nullptr);
      stage(nullptr, now, nullptr);
      stage(next, nullptr, nullptr);
    }
  }

  Image rounded() const {
    Image all;
    for (const OfBlock& block : blocks_)
      for (const Block<std::byte>& one : block.rounded) append(all, one.image());
    return all;
  }
  Image sums() const {
    Image all = d_query_t_.image();
    for (const OfBlock& block : blocks_) {
      append(all, block.d_key.image());
      append(all, block.d_value.image());
    }
    return all;
  }

 private:
  struct OfBlock {
    Packed key, value, summed_key;
    Block<float> scores, d_weights;
    Block<std::byte> rounded[3];
    Block<float> d_key, d_value;
    GradientSpan<float> spans[2];
  };

  Block<std::byte> columns(const StoredRows& rows) const {
    Block<std::byte> to(w_.queries * padded(rows.dims) * route_.element_size);
    route_.pack_queries(rows.data, rows.row_stride, rows.dim_stride, rows.count, rows.dims, 1,
                        w_.queries, to.data());
    return to;
  }
  StageProducts<float> products_of(size_t b) const {
    const OfBlock& block = blocks_[b];
    const int64_t keys = w_.blocks[b].count();
    return {{query_t_.data(), block.key.block.data(), block.key.stride, w_.head_dim,
             block.scores.data()},
            {d_output_t_.data(), block.value.block.data(), block.value.stride, w_.value_dim,
             block.d_weights.data()},
            keys};
  }
  StageGradients<float> gradients_of(size_t b) const {
    const OfBlock& block = blocks_[b];
    const Walk::Keys& keys = w_.blocks[b];
    const bool some = keys.partial || w_.count < w_.queries;
    return {block.scores.data(),
            block.d_weights.data(),
            w_.factor,
            w_.statistic.data(),
            w_.delta.data(),
            some ? keys.bits.data() : nullptr,
            keys.count(),
            w_.of_value ? block.rounded[0].data() : nullptr,
            w_.of_key ? block.rounded[1].data() : nullptr,
            w_.of_query ? block.rounded[2].data() : nullptr};
  }
  StageSums<float> sums_of(size_t b) {
    OfBlock& block = blocks_[b];
    const int64_t keys = w_.blocks[b].count();
    StageSums<float> sums = {};
    if (w_.of_query)
      sums.d_query = {block.rounded[2].data(),
                      block.summed_key.block.data(),
                      block.summed_key.stride,
                      keys,
                      w_.head_dim,
                      nullptr,
                      d_query_t_.data()};
    const auto sum_of = [&](GradientSpan<float>& span, const Block<std::byte>& rounded,
                            const Packed& rows, int64_t dims, const Block<float>& gradient) {
      span = {rounded.data(), w_.queries, rows.block.data(), rows.stride, w_.count, nullptr};
      const int64_t panels = padded(keys) / 32 * (padded(dims) / 32);
      return StageKeySums<float>{&span, 1, keys, dims, gradient.data(), dims, 0, panels};
    };
    if (w_.of_value)
      sums.d_value =
          sum_of(block.spans[0], block.rounded[0], d_output_, w_.value_dim, block.d_value);
    if (w_.of_key)
      sums.d_key = sum_of(block.spans[1], block.rounded[1], query_, w_.head_dim, block.d_key);
    return sums;
  }

  const Walk& w_;
  const Route& route_;
  const NormalizerKernels<float>& n_;
  Block<std::byte> query_t_, d_output_t_;
  Packed query_, d_output_;
  Block<float> d_query_t_;
  std::vector<OfBlock> blocks_;
};

TEST_F(TileKernelsTest, StagesOfGradients) {
  for_routes(30, [](const Routes& routes, Random& random) {
    const Walk walk(random, routes.dtype);
    const NormalizerKernels<float>* const normalizers = isa_amx_emulated::tables().f32->normalizers;
    both(routes, [&](const Route& route) {
      WalkOfRoute pieces(walk, route, normalizers);
      pieces.make_pieces();
      for (const bool alone : {false, true}) {
        SCOPED_TRACE(alone ? "each piece in a stage of its own" : "three blocks at a time");
        WalkOfRoute staged(walk, route, normalizers);
        staged.make_stages(alone);
        EXPECT_EQ(difference(staged.rounded(), pieces.rounded(), false), "");
        EXPECT_EQ(difference(staged.sums(), pieces.sums(), false), "");
      }
      return Made{{}, pieces.sums()};
    });
  });
}

}  // namespace
}  // namespace rapt
