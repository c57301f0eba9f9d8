// The lists of sparse normalisers overflow with scores that differ little: their rows are closed
// and collected again (src/attention/forward/sparse_rows.h). The grid of laws draws such problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "attention/plan/tiling.h"
#include "check/compare/comparison.h"
#include "check/draw/law_grid.h"
#include "rapt/variants.h"
#include "support/call.h"
#define RAPT_ISA isa_scalar
#include "kernels/simd/scalar.h"
#undef RAPT_ISA

namespace laws {
namespace {

constexpr const char* kSparse[] = {"sparsemax", "entmax15", "entmax", "top_k_softmax"};

using Lanes = rapt::isa_scalar::F;

// Collects a row of scores as the forward pass does, with a list of kShortList; returns whether the
// row is closed. Only lane 0 of the tile has a query.
template <class N>
bool closes(const N& normalizer, std::span<const float> scores) {
  constexpr int64_t kQueries = Lanes::kLanes;
  const auto k_len = static_cast<int64_t>(scores.size());
  const int64_t stride = rapt::list_stride(rapt::kShortList, static_cast<int>(kQueries));
  std::vector<float> state(static_cast<size_t>(N::kStateRows * kQueries)),
      list(static_cast<size_t>(stride * kQueries)), block, most(kQueries);
  std::vector<int32_t> keys(list.size()), counts(kQueries), enough(kQueries);
  const rapt::Head head{nullptr, 0, 1, k_len, nullptr};
  rapt::Tile<float> t;
  t.state = state.data(), t.queries = kQueries, t.head = &head;
  t.block_max = most.data();
  t.query_positions = {0, 1, 1};
  t.kept = {list.data(), keys.data(), counts.data(), enough.data(), rapt::kShortList, stride, 1};
  normalizer.template begin<Lanes>(t);
  for (int64_t begin = 0; begin < k_len && t.kept.open; begin += rapt::kMostBlockKeys) {
    t.keys = std::min<int64_t>(rapt::kMostBlockKeys, k_len - begin);
    t.key_positions = {begin, 1, t.keys};
    block.assign(static_cast<size_t>(t.keys * kQueries), 0);
    for (int64_t j = 0; j < t.keys; ++j)
      block[static_cast<size_t>(j * kQueries)] = scores[static_cast<size_t>(begin + j)];
    std::ranges::fill(most, 0.0f);
    most[0] = *std::max_element(scores.begin() + begin, scores.begin() + begin + t.keys);
    t.scores = block.data();
    normalizer.template collect<Lanes>(t);
  }
  return t.kept.open == 0;
}

template <class... N>
bool closes(const rapt::NormalizerRef& normalizer, std::span<const float> scores,
            rapt::TypeList<N...>) {
  bool closed = false;
  const auto try_one = [&]<class T>(const T*) {
    if constexpr (requires { &T::template settle<Lanes>; })
      if (normalizer.index == rapt::index_in<T>(rapt::Normalizers{}))
        closed = closes(*static_cast<const T*>(normalizer.object), scores);
  };
  (try_one(static_cast<const N*>(nullptr)), ...);
  return closed;
}

// How many rows of the case are closed.
int64_t closed_rows(const Case& c) {
  const Descriptor& d = c.descriptor;
  AttentionOptions options = c.options;
  options.weights.emplace();
  options.weights->stage = rapt::WeightsStage::scores;
  const AttentionResult result = scaled_dot_product_attention(c.query, c.key, c.value, options);
  const std::vector<double> found = values_of(result.weights);
  const std::vector<float> scores(found.begin(), found.end());
  int64_t closed = 0;
  for (size_t begin = 0; begin < scores.size(); begin += static_cast<size_t>(d.k_len))
    closed +=
        closes(c.options.normalizer, std::span(scores).subspan(begin, static_cast<size_t>(d.k_len)),
               rapt::Normalizers{});
  return closed;
}

TEST(ClosedRows, EqualScoresCloseAllRows) {
  for (const char* norm : {"sparsemax", "entmax15", "entmax(1.25)", "top_k_softmax(16)"})
    for (const char* line : {"h2q3k2049d2:keys=equal", "q2k2400d1:keys=rising:scale=0"}) {
      const Case c(parse_descriptor(std::string(line) + ":norm=" + norm));
      SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
      EXPECT_EQ(closed_rows(c), c.descriptor.heads() * c.descriptor.q_len);
      const Comparison comparison = compare(c, run(c));
      EXPECT_TRUE(comparison.ok()) << comparison.failures();
    }
}

// Lists overflow with steeply rising scores, too, but hardly any score stays in them.
TEST(ClosedRows, ScoresFarApartCloseNone) {
  for (const char* norm : {"sparsemax", "entmax15", "entmax(1.25)", "top_k_softmax(16)"}) {
    const Case c(parse_descriptor(std::string("q2k2400d1:keys=rising:scale=1e4:norm=") + norm));
    EXPECT_EQ(closed_rows(c), 0) << norm;
  }
}

// Packed sequences are left out, because their scores cannot be asked for, and those in a cache,
// because closed_rows() counts all keys of the shape.
TEST(ClosedRows, TheGridDrawsThem) {
  LawGrid grid(base_seed(), check::InputKinds::any);
  std::map<std::string_view, int64_t> closed;
  const auto all_drawn = [&] {
    return std::ranges::all_of(kSparse, [&](const char* name) { return closed[name] > 0; });
  };
  for (int n = 0; n < 40000 && !all_drawn(); ++n) {
    Descriptor d = grid.next();
    if (!is_sparse(d.normalizer) || d.k_len <= rapt::kShortList || d.packed > 0) continue;
    if (d.keys == check::Keys::drawn || d.cache) continue;
    d.captures = {};
    const Case c(d);
    SCOPED_TRACE("rapt check '" + to_string(d) + "'");
    closed[std::visit([](const auto& one) { return one.kName; }, d.normalizer)] += closed_rows(c);
  }
  for (const auto& [name, rows] : closed)
    std::printf("%s: %lld closed rows\n", std::string(name).c_str(), static_cast<long long>(rows));
  for (const char* name : kSparse) EXPECT_GT(closed[name], 0) << name;
}

}  // namespace
}  // namespace laws
