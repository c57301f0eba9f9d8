// Tests the contracts of DESIGN.md on normalisers of every kind: an online one, one without state,
// and one that needs whole rows and an extra output. The forward pass is compared with the
// formulas, the backward pass with finite differences. Both use the engine's loops and the scalar
// kernels of the catalogue.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "attention/tiles/lay_out_scratch.h"
#include "contracts/trial_kernels.h"
#include "rapt/mask/causal.h"
#include "rapt/rapt.h"

namespace rapt::trial {
namespace {

using isa_scalar::D;
using Matrix = std::vector<double>;

struct Case {
  int64_t heads = 2, q_len = 11, k_len = 21, head_dim = 3, value_dim = 5;
  bool causal = false;
  double spread =
      1;  // of scores: small values give entmax wide supports, large ones narrow supports
  bool softcap = false, distance = false;
  Matrix query, key, value;

  Case& fill() {
    uint64_t state = 7;
    const auto next = [&] {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<double>(state >> 40) / (1 << 23) - 1;
    };
    const auto make = [&](int64_t count, double scale) {
      Matrix m(static_cast<size_t>(count));
      for (double& x : m) x = scale * next();
      return m;
    };
    query = make(heads * q_len * head_dim, spread);
    key = make(heads * k_len * head_dim, 2);
    value = make(heads * k_len * value_dim, 1);
    return *this;
  }
};

struct State {
  Matrix output, statistic, extra;
};

template <class N>
const NormalizerKernels<double>& kernels_of() {
  return trial_table<D>().normalizers[index_in<N>(TrialNormalizers{})];
}

template <class N>
State forward(const Case& c) {
  const TensorView query(c.query.data(), {c.heads, c.q_len, c.head_dim});
  const TensorView key(c.key.data(), {c.heads, c.k_len, c.head_dim});
  const TensorView value(c.value.data(), {c.heads, c.k_len, c.value_dim});
  const Causal causal;
  const Mask* const masks[] = {&causal};
  AttentionOptions options;
  options.scale = 0.5;
  if (c.causal) options.masks = masks;
  const Problem p = make_problem(query, key, value, options);
  const KernelTable<double>& table = trial_table<D>();
  const NormalizerKernels<double>& n = kernels_of<N>();

  State s{Matrix(static_cast<size_t>(c.heads * c.q_len * c.value_dim), NAN),
          Matrix(static_cast<size_t>(c.heads * c.q_len), NAN),
          Matrix(static_cast<size_t>(c.heads * c.q_len * c.value_dim), NAN)};
  Outputs outputs;
  Operand extra;
  const auto rows = [&](Operand& o, Matrix& m, int64_t dims) {
    o.data = m.data();
    o.dtype = DType::f64;
    o.heads_per_group = 1;
    o.lead_strides[0] = c.q_len * dims;
    o.row_stride = dims;
    o.dim_stride = 1;
  };
  rows(outputs.output, s.output, c.value_dim);
  rows(outputs.statistic, s.statistic, 1);
  rows(extra, s.extra, c.value_dim);
  const SoftCap softcap;
  const Distance distance;
  std::vector<ScoreRef> scores;
  const auto add = [&](int index, const void* object) {
    ScoreRef score;
    score.index = index, score.object = object;
    scores.push_back(score);
  };
  if (c.softcap) add(0, &softcap);
  if (c.distance) add(1, &distance);
  const Kernels<double> kernels{table, *table.fma[static_cast<int>(DType::f64)], n};
  const Captures captures = {};
  const Tiling tiling = tiling_of(p, kernels, work_of(p), Workers{}, Memory::automatic);
  const ScratchLayout layout =
      layout_of(p, captures, tiling, kernels, static_cast<int64_t>(options.masks.size()));
  Tensor workspace(DType::u8, {static_cast<int64_t>(layout.bytes_for(1))});
  const N normalizer;
  const auto address = reinterpret_cast<uintptr_t>(workspace.data());
  const ForwardCall<double> call{
      .problem = p,
      .kernels = kernels,
      .normalizer_object = &normalizer,
      .score_functions = scores,
      .masks = std::span<const Mask* const>{options.masks.begin(), options.masks.size()},
      .captures = captures,
      .outputs = outputs,
      .extra = &extra,
      .tiling = tiling,
      .layout = layout,
      .workspace = static_cast<std::byte*>(workspace.data()) + (64 - address % 64) % 64};
  run_forward(call, {});
  return s;
}

double score(const Case& c, int64_t h, int64_t i, int64_t j) {
  double s = 0;
  for (int64_t d = 0; d < c.head_dim; ++d)
    s += c.query[static_cast<size_t>((h * c.q_len + i) * c.head_dim + d)] *
         c.key[static_cast<size_t>((h * c.k_len + j) * c.head_dim + d)];
  s *= 0.5;
  if (c.softcap) s = SoftCap::kCap * std::tanh(s / SoftCap::kCap);
  if (c.distance) s -= Distance{}.slope[h] * std::fabs(static_cast<double>(i - j));
  return s;
}

// Weights of one row, by the definition.
Matrix plain_weights(Softmax1, const Matrix& s) {
  double sum = 1;
  for (const double x : s) sum += std::exp(x);
  Matrix w;
  for (const double x : s) w.push_back(std::exp(x) / sum);
  return w;
}
Matrix plain_weights(Sigmoid, const Matrix& s) {
  Matrix w;
  for (const double x : s) w.push_back(1 / (1 + std::exp(-(x + Sigmoid::kBias))));
  return w;
}
Matrix plain_weights(Entmax15, const Matrix& s) {
  if (s.empty()) return {};
  double low = *std::max_element(s.begin(), s.end()) / 2 - 1, high = low + 1;
  for (int step = 0; step < 200; ++step) {  // bisection
    const double middle = (low + high) / 2;
    double f = -1;
    for (const double x : s) f += std::pow(std::max(0.0, x / 2 - middle), 2);
    (f > 0 ? low : high) = middle;
  }
  Matrix w;
  for (const double x : s) w.push_back(std::pow(std::max(0.0, x / 2 - low), 2));
  return w;
}

template <class N>
Matrix plain_output(const Case& c) {
  Matrix out(static_cast<size_t>(c.heads * c.q_len * c.value_dim));
  for (int64_t h = 0; h < c.heads; ++h)
    for (int64_t i = 0; i < c.q_len; ++i) {
      Matrix s;
      for (int64_t j = 0; j < (c.causal ? std::min(i + 1, c.k_len) : c.k_len); ++j)
        s.push_back(score(c, h, i, j));
      const Matrix w = plain_weights(N{}, s);
      for (size_t j = 0; j < w.size(); ++j)
        for (int64_t d = 0; d < c.value_dim; ++d)
          out[static_cast<size_t>((h * c.q_len + i) * c.value_dim + d)] +=
              w[j] * c.value[static_cast<size_t>(
                         (h * c.k_len + static_cast<int64_t>(j)) * c.value_dim + d)];
    }
  return out;
}

struct Gradients {
  Matrix query, key, value;
};

// The backward pass from the forward state alone, tile by tile, with the products and the hook of
// the kernel table: S^T = K Q^T and dP^T = V dO^T, the hook, then dV += P^T dO, dK += dS^T Q, dQ +=
// dS K. Masked pairs and lanes without a query have scores too; the statistic of such a lane is
// -inf.
template <class N>
Gradients backward(const Case& c, const State& state, const Matrix& d_output) {
  Gradients g{Matrix(c.query.size()), Matrix(c.key.size()), Matrix(c.value.size())};
  const KernelTable<double>& table = trial_table<D>();
  const int64_t queries = table.lanes, block = 8;
  const RouteKernels<double>& route = *table.fma[static_cast<int>(DType::f64)];
  const N normalizer;
  Tile<double> tile;
  tile.queries = queries;
  Matrix q_t(static_cast<size_t>(c.head_dim * queries)),
      do_t(static_cast<size_t>(c.value_dim * queries));
  Matrix s(static_cast<size_t>(block * queries)), dp(s.size()),
      ignored(static_cast<size_t>(queries));
  Matrix delta(static_cast<size_t>(queries)), statistic(static_cast<size_t>(queries));
  tile.scores = s.data();
  for (int64_t h = 0; h < c.heads; ++h)
    for (int64_t i0 = 0; i0 < c.q_len; i0 += queries) {
      const int64_t rows = std::min(queries, c.q_len - i0), row0 = h * c.q_len + i0;
      route.pack_queries(&c.query[static_cast<size_t>(row0 * c.head_dim)], c.head_dim, 1, rows,
                         c.head_dim, 0.5, queries, q_t.data());
      route.pack_queries(&d_output[static_cast<size_t>(row0 * c.value_dim)], c.value_dim, 1, rows,
                         c.value_dim, 1, queries, do_t.data());
      std::fill(statistic.begin(), statistic.end(), -INFINITY);
      for (int64_t i = 0; i < rows; ++i) {
        const Matrix& with = N::kDelta == Delta::extra ? state.extra : state.output;
        delta[static_cast<size_t>(i)] = 0;
        for (int64_t d = 0; d < c.value_dim && N::kDelta != Delta::none; ++d) {
          const auto at = static_cast<size_t>((row0 + i) * c.value_dim + d);
          delta[static_cast<size_t>(i)] += d_output[at] * with[at];
        }
        statistic[static_cast<size_t>(i)] = state.statistic[static_cast<size_t>(row0 + i)];
      }
      for (int64_t j0 = 0; j0 < c.k_len; j0 += block) {
        const int64_t keys = std::min(block, c.k_len - j0);
        const double* key = &c.key[static_cast<size_t>((h * c.k_len + j0) * c.head_dim)];
        const double* value = &c.value[static_cast<size_t>((h * c.k_len + j0) * c.value_dim)];
        route.products[0].scores(q_t.data(), key, c.head_dim, keys, c.head_dim, 1, s.data(),
                                 ignored.data());
        route.products[0].scores(do_t.data(), value, c.value_dim, keys, c.value_dim, 1, dp.data(),
                                 ignored.data());
        tile.keys = keys;
        kernels_of<N>().backward(&normalizer, tile, dp.data(), statistic.data(), delta.data());
        for (int64_t j = 0; j < keys; ++j)
          for (int64_t i = 0; i < rows; ++i) {
            if (c.causal && j0 + j > i0 + i) continue;
            const double p = s[static_cast<size_t>(j * queries + i)];
            const double ds = dp[static_cast<size_t>(j * queries + i)];
            const auto qi = static_cast<size_t>(row0 + i),
                       kj = static_cast<size_t>(h * c.k_len + j0 + j);
            const auto hd = static_cast<size_t>(c.head_dim), vd = static_cast<size_t>(c.value_dim);
            for (size_t d = 0; d < vd; ++d) g.value[kj * vd + d] += p * d_output[qi * vd + d];
            for (size_t d = 0; d < hd; ++d) {
              g.key[kj * hd + d] += 0.5 * ds * c.query[qi * hd + d];
              g.query[qi * hd + d] += 0.5 * ds * c.key[kj * hd + d];
            }
          }
      }
    }
  return g;
}

template <class N>
class Contracts : public testing::Test {};
using Kinds = testing::Types<Softmax1, Sigmoid, Entmax15>;
TYPED_TEST_SUITE(Contracts, Kinds);

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool causal : {false, true})
    for (const double spread : {0.2, 1.0, 8.0})
      for (const int64_t k_len : {0, 1, 21, 150, 300}) {  // no keys, and several key blocks
        Case c;
        c.causal = causal, c.spread = spread, c.k_len = k_len;
        all.push_back(c.fill());
      }
  for (const int axis : {1, 2, 3}) {
    Case c;
    c.softcap = axis & 1, c.distance = axis & 2, c.k_len = 40;
    all.push_back(c.fill());
  }
  return all;
}

TYPED_TEST(Contracts, ForwardIsTheDefinition) {
  for (const Case& c : cases()) {
    const State state = forward<TypeParam>(c);
    const Matrix expected = plain_output<TypeParam>(c);
    for (size_t x = 0; x < expected.size(); ++x)
      ASSERT_NEAR(state.output[x], expected[x], 1e-12)
          << "k_len " << c.k_len << " spread " << c.spread << " causal " << c.causal;
  }
}

TYPED_TEST(Contracts, BackwardFromTheStateIsTheDerivative) {
  ASSERT_NE(kernels_of<TypeParam>().backward, nullptr);
  for (const bool causal : {false, true})
    for (const double spread : {0.2, 2.0}) {
      Case c;
      c.causal = causal, c.spread = spread, c.fill();
      const State state = forward<TypeParam>(c);
      Matrix d_output(state.output.size());
      for (size_t x = 0; x < d_output.size(); ++x)
        d_output[x] = std::sin(static_cast<double>(3 * x + 1));
      const Gradients g = backward<TypeParam>(c, state, d_output);
      const auto loss = [&](const Case& at) {
        const State s = forward<TypeParam>(at);
        double sum = 0;
        for (size_t x = 0; x < d_output.size(); ++x) sum += d_output[x] * s.output[x];
        return sum;
      };
      const auto compare = [&](Matrix Case::*input, const Matrix& gradient, const char* name) {
        constexpr double h = 1e-5;  // second-order differences: error about h^2
        for (size_t x = 0; x < gradient.size(); x += 7) {
          Case up = c, down = c;
          (up.*input)[x] += h, (down.*input)[x] -= h;
          ASSERT_NEAR(gradient[x], (loss(up) - loss(down)) / (2 * h), 2e-7)
              << name << " " << x << " causal " << causal << " spread " << spread;
        }
      };
      compare(&Case::query, g.query, "d_query");
      compare(&Case::key, g.key, "d_key");
      compare(&Case::value, g.value, "d_value");
    }
}

// Lanes without a query, and queries without keys, have scores too.
TYPED_TEST(Contracts, BackwardIsZeroWhereThereIsNoKey) {
  const int64_t lanes = trial_table<D>().lanes;
  const auto queries = static_cast<size_t>(lanes);
  Matrix scores(3 * queries, 0.5), d_weights(3 * queries, 2), delta(queries, 1);
  const Matrix statistic(queries, -INFINITY);
  Tile<double> tile;
  tile.scores = scores.data();
  tile.keys = 3, tile.queries = lanes;
  const TypeParam normalizer;
  ASSERT_NE(kernels_of<TypeParam>().backward, nullptr);
  kernels_of<TypeParam>().backward(&normalizer, tile, d_weights.data(), statistic.data(),
                                   delta.data());
  EXPECT_EQ(scores, Matrix(3 * queries, 0));
  EXPECT_EQ(d_weights, Matrix(3 * queries, 0));
}

TEST(Contracts, StatisticsMeanWhatIsDeclared) {
  Case c;
  c.fill();
  const State softmax1 = forward<Softmax1>(c), entmax = forward<Entmax15>(c);
  for (int64_t row = 0; row < c.heads * c.q_len; ++row) {
    double sum = 1, weights = 0;
    for (int64_t j = 0; j < c.k_len; ++j) {
      const double s = score(c, row / c.q_len, row % c.q_len, j);
      sum += std::exp(s);
      weights += std::pow(std::max(0.0, s / 2 - entmax.statistic[static_cast<size_t>(row)]), 2);
    }
    EXPECT_NEAR(softmax1.statistic[static_cast<size_t>(row)], std::log(sum), 1e-12);
    EXPECT_NEAR(weights, 1, 1e-12);  // the threshold makes the weights sum to one
  }
  c.k_len = 0, c.fill();
  EXPECT_EQ(forward<Softmax1>(c).statistic[0], 0);  // log of the 1 alone: the normaliser decides
}

TEST(Contracts, MergeIsRefusedByName) {
  float output[2] = {}, lse[1] = {};
  AttentionState a{TensorView(output, {1, 2}), TensorView(lse, {1}), {}};
  const Entmax15 entmax;
  try {
    merge(a, a, entmax);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("entmax15"), std::string::npos);
  }
}

TEST(Contracts, NormalizersOutsideTheCatalogueAreRefusedByName) {
  float x[2] = {};
  const TensorView view(x, {1, 2});
  const Sigmoid sigmoid;
  AttentionOptions options;
  options.normalizer = sigmoid;
  try {
    scaled_dot_product_attention(view, view, view, options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("sigmoid"), std::string::npos);
  }
}

}  // namespace
}  // namespace rapt::trial
