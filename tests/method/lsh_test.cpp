// LSH attention against its definition with the buckets that the library found (lsh_reference.h).
#include "rapt/method/lsh.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "check/compare/gradient_comparison.h"
#include "check/problem/descriptor.h"
#include "check/tensors/arrays.h"
#include "method/lsh_reference.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "support/assertions.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using check::Random;
using rapt::AttentionOptions;
using rapt::AttentionResult;
using rapt::Context;
using rapt::DType;
using rapt::ErrorCode;
using rapt::Lsh;
using rapt::LshCut;
using rapt::LshDuplicates;
using rapt::LshKeys;
using rapt::Tensor;
using rapt::TensorView;

Context one_thread() {
  Context context;
  context.threads = 1;
  return context;
}

std::vector<double> numbers(const TensorView& t, int64_t begin, int64_t count) {
  std::vector<double> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = check::element_at(t, begin + i);
  return all;
}

// A problem [batch, heads, n, dims] and its options.
struct LshProblem {
  Lsh lsh;
  DType dtype = DType::f32;
  int64_t batch = 2, heads = 2, value_heads = 2, q_len = 60, k_len = 60, dims = 12, value_dim = 8;
  bool causal = false;
  std::vector<int64_t> lengths;  // empty: all keys

  // Weights and maps are compared as well, where they are not large.
  bool captures() const { return q_len > 0 && k_len > 0 && q_len <= 1000; }
  bool shared() const { return lsh.keys == LshKeys::shared; }
};

struct LshRun {
  LshProblem p;
  Tensor query, key, value, d_output, d_lse;
  rapt::Causal causal;
  rapt::Lengths lengths;
  AttentionOptions options;
  AttentionResult forward;
  rapt::Gradients gradients;
  rapt::LshBuckets buckets;

  explicit LshRun(const LshProblem& problem, Context context = one_thread()) : p(problem) {
    Random random(7);
    query = check::random_normal(random, p.dtype, {p.batch, p.heads, p.q_len, p.dims}, 2);
    if (!p.shared())
      key = check::random_normal(random, p.dtype, {p.batch, p.heads, p.k_len, p.dims}, 2);
    value = check::random_normal(random, p.dtype, {p.batch, p.value_heads, p.k_len, p.value_dim});
    const DType exact = p.dtype == DType::f64 ? DType::f64 : DType::f32;
    d_output = check::random_normal(random, exact, {p.batch, p.heads, p.q_len, p.value_dim});
    d_lse = check::random_normal(random, exact, {p.batch, p.heads, p.q_len});
    std::vector<const rapt::Mask*> masks;
    if (p.causal) masks.push_back(&causal);
    if (!p.lengths.empty()) {
      lengths.lengths = TensorView(p.lengths.data(), {p.batch});
      masks.push_back(&lengths);
    }
    options.masks = masks;
    options.output_dtype = exact;
    options.method = &p.lsh;
    buckets = lsh_buckets(query, key_view(), value, options);
    AttentionOptions capturing = options;
    if (p.captures()) {
      capturing.weights.emplace();
      capturing.map = rapt::MapRequest{(p.q_len + 3) / 4, (p.k_len + 2) / 3, rapt::Pool::max};
    }
    forward = scaled_dot_product_attention(query, key_view(), value, capturing, context);
    rapt::BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = d_output, inputs.d_statistic = d_lse;
    rapt::BackwardRequest request;
    request.key = !p.shared();
    request.dtype = exact;
    gradients = scaled_dot_product_attention_backward(query, key_view(), value, options, inputs,
                                                      request, context);
  }
  TensorView key_view() { return p.shared() ? query.view() : key.view(); }

  LshHead head(int64_t b, int64_t h) {
    const int64_t at = b * p.heads + h, of_value = b * p.value_heads + h * p.value_heads / p.heads;
    const auto matrix = [](const Tensor& t, int64_t index, int64_t count) {
      return numbers(t, index * count, count);
    };
    LshHead one;
    one.q_len = p.q_len, one.k_len = p.k_len, one.head_dim = p.dims, one.value_dim = p.value_dim;
    one.weights = p.captures();
    one.scale = 1 / std::sqrt(static_cast<double>(p.dims));
    one.query = matrix(query, at, p.q_len * p.dims);
    if (!p.shared()) one.key = matrix(key, at, p.k_len * p.dims);
    one.value = matrix(value, of_value, p.k_len * p.value_dim);
    one.d_output = matrix(d_output, at, p.q_len * p.value_dim);
    one.d_lse = matrix(d_lse, at, p.q_len);
    const auto of_head = [&](const Tensor& t, int64_t rows) {
      const int32_t* const from = t.values<int32_t>().data() + at * p.lsh.rounds * rows;
      return std::vector<int32_t>(from, from + p.lsh.rounds * rows);
    };
    one.query_buckets = of_head(buckets.query, p.q_len);
    if (!p.shared()) one.key_buckets = of_head(buckets.key, p.k_len);
    const int64_t keys = p.lengths.empty() ? p.k_len : p.lengths[static_cast<size_t>(b)];
    const bool is_causal = p.causal;
    one.end = [keys, is_causal](int64_t i) { return is_causal ? std::min(keys, i + 1) : keys; };
    return one;
  }
};

// At most twice the largest error of the plain loop of the same precision, and `floor` times the
// largest number.
void expect_close(const char* name, const std::vector<double>& got,
                  const std::vector<double>& plain, const std::vector<double>& truth,
                  double floor) {
  double error = 0, largest = 0;
  for (size_t i = 0; i < truth.size(); ++i)
    if (std::isfinite(truth[i]))
      error = std::max(error, std::abs(plain[i] - truth[i])),
      largest = std::max(largest, std::abs(truth[i]));
  const double tolerance = 2 * error + floor * largest;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (std::isfinite(truth[i]))
      ASSERT_LE(std::abs(got[i] - truth[i]), tolerance) << name << " " << i << ": " << truth[i];
    else
      ASSERT_EQ(got[i], truth[i]) << name << " " << i;
  }
}

// A cell of the map is the largest of its returned weights.
void expect_map(const LshRun& run, int64_t head) {
  const LshProblem& p = run.p;
  const int64_t rows = run.forward.map.dim(-2), columns = run.forward.map.dim(-1);
  std::vector<double> largest(static_cast<size_t>(rows * columns));
  const auto weights = numbers(run.forward.weights, head * p.q_len * p.k_len, p.q_len * p.k_len);
  for (int64_t a = 0; a < rows; ++a)
    for (int64_t b = 0; b < columns; ++b)
      for (int64_t i = a * p.q_len / rows; i < (a + 1) * p.q_len / rows; ++i)
        for (int64_t j = b * p.k_len / columns; j < (b + 1) * p.k_len / columns; ++j)
          largest[a * columns + b] = std::max(largest[a * columns + b], weights[i * p.k_len + j]);
  EXPECT_EQ(numbers(run.forward.map, head * rows * columns, rows * columns), largest);
}

void expect_reference(const LshProblem& problem) {
  LshRun run(problem);
  const LshProblem& p = run.p;
  const bool f64 = p.dtype == DType::f64;
  // Weights are e^(score - lse), where the plain loop divides: rounding lse is a relative error of
  // them. Each round rounds the sum once more.
  const double epsilon = f64 ? 0x1p-52 : 0x1p-23;
  double floor = static_cast<double>(p.lsh.rounds) * epsilon;
  for (const double lse : check::values_of(run.forward.statistic))
    if (std::isfinite(lse))
      floor = std::max(floor, (static_cast<double>(p.lsh.rounds) + std::abs(lse)) * epsilon);
  const int64_t group = p.heads / p.value_heads;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t g = 0; g < p.value_heads; ++g) {
      std::vector<double> d_value(static_cast<size_t>(p.k_len * p.value_dim)),
          plain_d_value = d_value;
      for (int64_t h = g * group; h < (g + 1) * group; ++h) {
        const int64_t at = b * p.heads + h;
        const LshHead one = run.head(b, h);
        const LshTruth truth = lsh_truth<long double>(p.lsh, one);
        const LshTruth plain = f64 ? lsh_truth<double>(p.lsh, one) : lsh_truth<float>(p.lsh, one);
        const auto compare = [&](const char* name, const Tensor& got, int64_t count,
                                 const std::vector<double>& by_plain,
                                 const std::vector<double>& exact) {
          expect_close(name, numbers(got, at * count, count), by_plain, exact, floor);
        };
        compare("output", run.forward.output, p.q_len * p.value_dim, plain.output, truth.output);
        compare("lse", run.forward.statistic, p.q_len, plain.lse, truth.lse);
        if (p.captures()) {
          compare("weights", run.forward.weights, p.q_len * p.k_len, plain.weights, truth.weights);
          expect_map(run, at);
        }
        compare("d_query", run.gradients.d_query, p.q_len * p.dims, plain.d_query, truth.d_query);
        if (!p.shared())
          compare("d_key", run.gradients.d_key, p.k_len * p.dims, plain.d_key, truth.d_key);
        for (size_t i = 0; i < d_value.size(); ++i)
          d_value[i] += truth.d_value[i], plain_d_value[i] += plain.d_value[i];
        if (testing::Test::HasFatalFailure()) return;
      }
      expect_close("d_value",
                   numbers(run.gradients.d_value, (b * p.value_heads + g) * p.k_len * p.value_dim,
                           p.k_len * p.value_dim),
                   plain_d_value, d_value, floor);
    }
}

TEST(Lsh, AgreesWithItsDefinition) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const LshCut cut : {LshCut::row, LshCut::bucket})
      for (const LshDuplicates duplicates : {LshDuplicates::count_once, LshDuplicates::count_all})
        for (const int masks : {0, 1, 2, 3})
          for (const int64_t rounds : {1, 3}) {
            LshProblem p;
            p.lsh.rounds = rounds, p.lsh.chunk = masks % 2 ? 8 : 5;
            p.lsh.cut = cut, p.lsh.duplicates = duplicates;
            p.dtype = dtype, p.causal = masks & 1;
            if (masks & 2) p.lengths = {41, 3}, p.value_heads = 1;
            SCOPED_TRACE(std::string(name_of(dtype)) + " cut " + std::to_string(int(cut)) +
                         " duplicates " + std::to_string(int(duplicates)) + " masks " +
                         std::to_string(masks) + " rounds " + std::to_string(rounds));
            expect_reference(p);
            p.lsh.keys = LshKeys::separate, p.q_len = 37;
            SCOPED_TRACE("separate");
            expect_reference(p);
            if (HasFatalFailure()) return;
          }
}

TEST(Lsh, AgreesWithItsDefinitionAcrossSegments) {
  for (const LshCut cut : {LshCut::row, LshCut::bucket})
    for (const int64_t chunk : {64, 100}) {
      LshProblem p;
      p.batch = 1, p.heads = p.value_heads = 1, p.q_len = p.k_len = 2500, p.dims = 64;
      p.value_dim = 64, p.causal = true;
      p.lsh.rounds = 2, p.lsh.chunk = chunk, p.lsh.cut = cut;
      SCOPED_TRACE(std::to_string(int(cut)) + " " + std::to_string(chunk));
      expect_reference(p);
    }
}

// The exact call with keys divided by their lengths, where a query attends to earlier keys alone.
template <class E>
AttentionResult exact_of_divided_keys(const LshHead& h, DType dtype) {
  Tensor query(dtype, {h.q_len, h.head_dim}), key(dtype, {h.q_len, h.head_dim}),
      value(dtype, {h.q_len, h.value_dim});
  std::copy(h.value.begin(), h.value.end(), value.values<E>().begin());
  for (int64_t i = 0; i < h.q_len; ++i) {
    double square = 0;
    for (int64_t d = 0; d < h.head_dim; ++d) square += std::pow(h.query[i * h.head_dim + d], 2);
    for (int64_t d = i * h.head_dim; d < (i + 1) * h.head_dim; ++d) {
      query.values<E>()[d] = static_cast<E>(h.query[d]);
      key.values<E>()[d] = static_cast<E>(h.query[d] / std::sqrt(square));
    }
  }
  const rapt::Causal earlier(rapt::Anchor::top_left, -1);
  return scaled_dot_product_attention(query, key, value, {.scale = h.scale, .masks = {&earlier}});
}

TEST(Lsh, OneChunkIsExactAttentionWithoutTheTokenItself) {
  LshProblem p;
  p.lsh.chunk = 1000, p.causal = true;
  LshRun run(p);
  const LshHead head = run.head(0, 0);
  const Tensor truth = exact_of_divided_keys<double>(head, DType::f64).output,
               plain = exact_of_divided_keys<float>(head, DType::f32).output;
  // The first query has its own value.
  const int64_t first = p.value_dim, rest = (p.q_len - 1) * p.value_dim;
  EXPECT_EQ(numbers(run.forward.output, 0, first), numbers(run.value, 0, first));
  // The factor 1 / length of a key is rounded, and the key is: an error of 2^-24 more.
  expect_close("output", numbers(run.forward.output, first, rest), numbers(plain, first, rest),
               numbers(truth, first, rest), 0x1p-23);
}

TEST(Lsh, OneBucketOfSeparateKeysIsExactAttention) {
  LshProblem p;
  p.lsh.keys = LshKeys::separate, p.lsh.rounds = 1, p.lsh.buckets = 2, p.causal = true;
  // A rotation by which all rows of positive numbers are in one bucket.
  const std::vector<float> ones(static_cast<size_t>(p.dims), 1);
  p.lsh.rotations = TensorView(ones.data(), {1, p.dims, 1});
  Random random(3);
  const auto positive = [&](int64_t rows) {
    Tensor t(DType::f32, {rows, p.dims});
    for (float& x : t.values<float>()) x = static_cast<float>(random.uniform());
    return t;
  };
  const Tensor query = positive(70), key = positive(90), value = positive(90);
  const rapt::Causal causal;
  AttentionOptions options{.masks = {&causal}};
  const AttentionResult exact = scaled_dot_product_attention(query, key, value, options);
  options.method = &p.lsh;
  const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
  EXPECT_TRUE(same_bits(got.output, exact.output));
  EXPECT_TRUE(same_bits(got.statistic, exact.statistic));
}

// The reference's gradients are those of its outputs.
TEST(Lsh, ReferenceAgreesWithFiniteDifferences) {
  for (const LshKeys keys : {LshKeys::shared, LshKeys::separate})
    for (const LshDuplicates duplicates : {LshDuplicates::count_once, LshDuplicates::count_all}) {
      LshProblem p;
      p.dtype = DType::f64, p.batch = p.heads = p.value_heads = 1, p.q_len = p.k_len = 14;
      p.dims = p.value_dim = 3, p.causal = true;
      p.lsh.keys = keys, p.lsh.chunk = 4, p.lsh.duplicates = duplicates;
      LshRun run(p);
      LshHead head = run.head(0, 0);
      const auto loss = [&] {
        const LshTruth t = lsh_truth<double>(p.lsh, head);
        double sum = 0;
        for (size_t i = 0; i < t.output.size(); ++i) sum += t.output[i] * head.d_output[i];
        for (size_t i = 0; i < t.lse.size(); ++i)
          if (std::isfinite(t.lse[i])) sum += t.lse[i] * head.d_lse[i];
        return sum;
      };
      const LshTruth truth = lsh_truth<double>(p.lsh, head);
      const auto expect_gradient = [&](const char* name, std::vector<double>& x,
                                       const std::vector<double>& expected) {
        for (size_t i = 0; i < x.size(); ++i) {
          const double at = x[i], step = 1e-5;
          x[i] = at + step;
          const double up = loss();
          x[i] = at - step;
          const double down = loss();
          x[i] = at;
          // step^2 / 6 times a third derivative of up to 1,000, and rounding divided by the step.
          EXPECT_NEAR((up - down) / (2 * step), expected[i], 1e-7) << name << " " << i;
        }
      };
      expect_gradient("query", head.query, truth.d_query);
      if (keys == LshKeys::separate) expect_gradient("key", head.key, truth.d_key);
      expect_gradient("value", head.value, truth.d_value);
    }
}

// The descriptors of the law grid: separate keys, as an exact problem over the pairs that meet.
TEST(Lsh, AgreesWithTheReferenceOfDescriptors) {
  for (const char* line :
       {"h2q50k70d5:method=lsh(2,8,keys=separate)", "q0k4d2:method=lsh(keys=separate)",
        "q3k0d2:method=lsh(keys=separate)",
        "b2h4/2q60k80d4v3:bf16:mask=causal(bottom-right,-2)&lengths:method=lsh(3,9,keys=separate)",
        "b2h4/2q90k70d4v3:f16:mask=causal(1):method=lsh(2,10,4,separate)",
        "b3h2q40k60d5:bf16>f32:key=[1,2]:value=[2]:mask=causal:method=lsh(2,8,keys=separate)",
        "b2h3q40k60d5:query=[1,1]:value=[2,1]:layout=strided:method=lsh(2,8,keys=separate)"}) {
    SCOPED_TRACE(line);
    const check::Case c(check::parse_descriptor(line));
    const check::Comparison forward = check::compare(c, check::run(c));
    EXPECT_TRUE(forward.ok()) << forward.failures();
    const check::GradientCase g(c);
    const check::Comparison backward = check::compare(g, check::run_backward(g));
    EXPECT_TRUE(backward.ok()) << backward.failures();
  }
}

// What queries before `t` get if the rows from t on are others: the rows that differ.
int64_t rows_that_differ(LshCut cut) {
  constexpr int64_t kRows = 300, kEdited = 200, kDims = 16;
  Random random(5);
  Tensor rows = check::random_normal(random, DType::f32, {kRows, kDims});
  const Tensor value = check::random_normal(random, DType::f32, {kRows, kDims});
  Lsh lsh(3);
  lsh.chunk = 16, lsh.cut = cut;
  const rapt::Causal causal;
  const AttentionOptions options{.masks = {&causal}, .method = &lsh};
  const Tensor before = scaled_dot_product_attention(rows, rows, value, options).output;
  for (int64_t i = kEdited * kDims; i < kRows * kDims; ++i)
    rows.values<float>()[i] = static_cast<float>(3 * random.normal());
  const Tensor after = scaled_dot_product_attention(rows, rows, value, options).output;
  int64_t differ = 0;
  for (int64_t i = 0; i < kEdited; ++i)
    differ +=
        !std::equal(&before.values<float>()[i * kDims], &before.values<float>()[i * kDims] + kDims,
                    &after.values<float>()[i * kDims]);
  return differ;
}

TEST(Lsh, CutByBucketIsCausalToTheBit) { EXPECT_EQ(rows_that_differ(LshCut::bucket), 0); }
// Later rows shift the borders of chunks: which earlier keys a query meets may change.
TEST(Lsh, CutByRowIsNot) { EXPECT_GT(rows_that_differ(LshCut::row), 0); }

TEST(Lsh, HasTheSameBitsForAnyNumberOfThreadsAndInBatches) {
  for (const LshKeys keys : {LshKeys::shared, LshKeys::separate}) {
    LshProblem p;
    p.q_len = p.k_len = 1500, p.dims = p.value_dim = 32, p.value_heads = 1, p.causal = true;
    p.lsh.keys = keys, p.lsh.chunk = 32;
    LshRun alone(p);
    Context two;
    two.threads = 2;
    LshRun together(p, two);
    EXPECT_TRUE(same_bits(together.forward.output, alone.forward.output));
    EXPECT_TRUE(same_bits(together.gradients.d_query, alone.gradients.d_query));
    EXPECT_TRUE(same_bits(together.gradients.d_value, alone.gradients.d_value));
    // The second of the batch alone.
    const auto second = [](const Tensor& t) { return t.view().slice(0, 1, 2); };
    const TensorView query = second(alone.query),
                     key = keys == LshKeys::shared ? query : second(alone.key);
    const AttentionResult got =
        scaled_dot_product_attention(query, key, second(alone.value), alone.options);
    EXPECT_TRUE(same_bits(got.output, second(alone.forward.output)));
  }
}

TEST(Lsh, NothingAndPaddingAlone) {
  for (const int64_t rows : {0, 1, 5}) {
    LshProblem p;
    p.q_len = p.k_len = rows;
    if (rows == 5) p.lengths = {0, 1};
    expect_reference(p);
    p.lsh.keys = LshKeys::separate;
    expect_reference(p);
  }
}

TEST(Lsh, RejectsWhatItCannotDo) {
  Random random(1);
  const Tensor x = check::random_normal(random, DType::f32, {10, 4}),
               other = check::random_normal(random, DType::f32, {10, 4});
  const auto expect = [&](ErrorCode code, const std::vector<std::string>& words, const Lsh& lsh,
                          const Tensor& key) {
    expect_error(code, words, [&] { scaled_dot_product_attention(x, key, x, {.method = &lsh}); });
  };
  Lsh lsh;
  lsh.rounds = 0;
  expect(ErrorCode::argument, {"rounds"}, lsh, x);
  lsh.rounds = 65;
  expect(ErrorCode::argument, {"rounds"}, lsh, x);
  lsh = Lsh();
  lsh.chunk = 0;
  expect(ErrorCode::argument, {"chunk"}, lsh, x);
  lsh = Lsh();
  lsh.buckets = 3;
  expect(ErrorCode::argument, {"3 buckets", "even"}, lsh, x);
  lsh = Lsh();
  expect(ErrorCode::argument, {"shared keys", "keys=separate"}, lsh, other);
  std::vector<float> rotations(4 * 4 * 2, 1);
  lsh.rotations = TensorView(rotations.data(), {4, 4, 2});
  expect(ErrorCode::shape, {"rotations", "[4, 4, 1]"}, lsh, x);
  lsh.rotations = TensorView(rotations.data(), {4, 4, 1});
  rotations[5] = INFINITY;
  expect(ErrorCode::argument, {"rotations", "finite"}, lsh, x);
  lsh = Lsh();
  AttentionOptions options{.method = &lsh};
  AttentionResult got = scaled_dot_product_attention(x, x, x, options);
  expect_error(ErrorCode::unsupported, {"d_key", "d_query"}, [&] {
    scaled_dot_product_attention_backward(x, x, x, options,
                                          {.state = got.state(), .d_output = got.output});
  });
}

}  // namespace
}  // namespace laws
