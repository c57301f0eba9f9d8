// Rotary embedding within a call equals the call with rows that rotary_embedding() has rotated, bit
// for bit. Gradients are those of that call, rotated back.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "check/draw/law_grid.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/score/softcap.h"
#include "rapt/tangents.h"
#include "support/call.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

using check::Layout;
using check::Strided;
using rapt::BackwardInputs;
using rapt::BackwardPasses;
using rapt::BackwardRequest;
using rapt::ErrorCode;
using rapt::FusedRotary;
using rapt::Precision;
using rapt::Rotary;
using rapt::rotary_embedding;
using rapt::rotary_embedding_backward;
using rapt::RotaryPairs;
using rapt::RotaryScaling;

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

Rotary drawn_rotary(Random& random, int64_t head_dim) {
  Rotary rotary;
  rotary.dims = random.chance(0.5) ? 0 : 2 * random.between(1, head_dim / 2);
  rotary.pairs = random.pick({RotaryPairs::halves, RotaryPairs::interleaved});
  rotary.scaling = random.pick({RotaryScaling::none, RotaryScaling::yarn, RotaryScaling::llama3});
  rotary.factor = 4, rotary.original_length = 64;
  return rotary;
}

struct RotaryInputs {
  Tensor query, key, value;

  RotaryInputs(Random& random, DType dtype, const Dims& query_dims, const Dims& key_dims)
      : query(random_normal(random, dtype, query_dims)),
        key(random_normal(random, dtype, key_dims)),
        value(random_normal(random, dtype, key_dims)) {}
};

Tensor integers(const Dims& dims, const std::function<int64_t(std::span<const int64_t>)>& value) {
  Tensor tensor(DType::i64, dims);
  check::for_each_index(dims, [&](auto i) { set(tensor, i, static_cast<double>(value(i))); });
  return tensor;
}

// A sanitizer takes a hundred times as long.
constexpr int64_t kLongest = RAPT_SANITIZED ? 50 : 300;

TEST(FusedRotary, has_the_bits_of_rotated_rows) {
  Random random(1);
  for (const DType dtype : kTypes)
    for (const Precision precision : {Precision::automatic, Precision::fma})
      for (int layout = 0; layout < check::kLayouts; ++layout) {
        const int64_t head_dim = 2 * random.between(1, 40), kv_heads = random.between(1, 2);
        const int64_t q_len = random.between(1, kLongest), k_len = random.between(1, kLongest);
        const RotaryInputs in(random, dtype, {2, 4, q_len, head_dim},
                              {2, kv_heads, k_len, head_dim});
        const Strided query(in.query, static_cast<Layout>(layout));
        const Strided key(in.key, static_cast<Layout>(layout));
        const Rotary rotary = drawn_rotary(random, head_dim);
        const rapt::Causal causal(rapt::Anchor::bottom_right);
        const rapt::Softcap softcap(5);
        AttentionOptions options;
        options.precision = precision;
        if (random.chance(0.5)) options.masks = {&causal};
        if (random.chance(0.3)) options.scores = {softcap};
        options.weights = rapt::WeightsRequest{};
        options.received = true;
        FusedRotary fused;
        fused.embedding = &rotary;
        fused.query.start = random.between(-50, 1000), fused.key.step = random.between(1, 3);
        const Tensor query_after = rotary_embedding(query, rotary, fused.query);
        const Tensor key_after = rotary_embedding(key, rotary, fused.key);
        const AttentionResult expected =
            scaled_dot_product_attention(query_after, key_after, in.value, options);
        options.rotary = fused;
        SCOPED_TRACE(std::string(name_of(dtype)) + ", layout " + std::to_string(layout));
        const AttentionResult got = scaled_dot_product_attention(query, key, in.value, options);
        EXPECT_TRUE(same_results(got, expected));
        EXPECT_TRUE(same_bits(got.received, expected.received));
        // Keys that are rotated already.
        options.rotary.rotate_key = false, options.rotary.key = {};
        EXPECT_TRUE(same_results(scaled_dot_product_attention(query, key_after, in.value, options),
                                 expected));
      }
}

// Row i of sequence s is row i - starts[s] within that sequence.
Tensor own_positions(const Tensor& starts, const rapt::RotaryPositions& counted, int64_t length) {
  Tensor positions(DType::i64, {length});
  int64_t s = 0;
  for (int64_t i = 0; i < length; ++i) {
    while (i >= static_cast<int64_t>(get(starts, Dims{s + 1}))) ++s;
    const double own = static_cast<double>(i) - get(starts, Dims{s});
    set(positions, Dims{i},
        static_cast<double>(counted.start) + static_cast<double>(counted.step) * own);
  }
  return positions;
}

// With other options of the call.
TEST(FusedRotary, has_the_bits_of_rotated_rows_in_any_problem) {
  check::LawGrid grid(base_seed() + 51);
  int64_t turned = 0, packed = 0;
  // A short run goes on to its first packed problem.
  for (int n = 0; n < 2000 && !HasFailure(); ++n) {
    if (n >= problem_count(2000) && packed > 0) break;
    const check::Descriptor drawn = grid.next();
    if (!drawn.rows.rotary || drawn.rows.cosine || drawn.cache) continue;
    const Case c(drawn);
    SCOPED_TRACE("rapt check '" + to_string(drawn) + "'");
    ++turned;
    AttentionOptions options = c.wanted_options();
    const FusedRotary fused = std::exchange(options.rotary, {});
    rapt::RotaryPositions of_queries = fused.query, of_keys = fused.key;
    Tensor query_positions, key_positions;
    if (drawn.packed > 0) {
      ++packed;
      query_positions = own_positions(c.query_starts, of_queries, drawn.q_len);
      key_positions = own_positions(c.key_starts, of_keys, drawn.k_len);
      of_queries = {query_positions}, of_keys = {key_positions};
    }
    const Tensor query = rotary_embedding(c.query, *fused.embedding, of_queries),
                 key = fused.rotate_key ? rotary_embedding(c.key, *fused.embedding, of_keys)
                                        : Tensor::copy_of(c.key);
    const AttentionResult expected = scaled_dot_product_attention(query, key, c.value, options);
    options.rotary = fused;
    EXPECT_TRUE(
        same_results(scaled_dot_product_attention(c.query, c.key, c.value, options), expected));
  }
  EXPECT_GT(turned, 0);
  EXPECT_GT(packed, 0);
}

// Positions per batch, though the batches share their keys, and several axes.
TEST(FusedRotary, takes_positions_per_batch) {
  Random random(2);
  const RotaryInputs in(random, DType::f32, {3, 4, 50, 12}, {2, 70, 12});
  Rotary rotary;
  rotary.sections[0] = 8, rotary.sections[1] = 4;
  const Tensor of_queries = integers({3, 50, 2}, [&](auto) { return random.between(0, 1000); });
  const Tensor of_keys = integers({3, 70, 2}, [&](auto) { return random.between(0, 1000); });
  AttentionOptions options;
  options.rotary.embedding = &rotary;
  options.rotary.query.values = of_queries, options.rotary.key.values = of_keys;
  const AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
  TensorView repeated(nullptr, DType::f32, Dims{3, 2, 70, 12}, Dims{0, 70 * 12, 12, 1}, true);
  repeated.data = const_cast<void*>(in.key.data());
  const AttentionResult expected = scaled_dot_product_attention(
      rotary_embedding(in.query, rotary, options.rotary.query),
      rotary_embedding(repeated, rotary, options.rotary.key), in.value);
  EXPECT_TRUE(same_results(got, expected));
  // d_key would be a sum over copies of a key that are rotated by different angles.
  Tensor d_output = random_normal(random, DType::f32, {3, 4, 50, 12});
  BackwardInputs inputs;
  inputs.state.output = got.output, inputs.state.statistic = got.statistic;
  inputs.d_output = d_output;
  expect_error(ErrorCode::unsupported, {"d_key", "leading dimension 0", "positions differ"}, [&] {
    scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs);
  });
  BackwardRequest request;
  request.key = false;
  EXPECT_NO_THROW(
      scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs, request));
}

TEST(FusedRotary, counts_packed_sequences_from_their_own_starts) {
  Random random(3);
  const int64_t starts_of[] = {0, 5, 5, 105, 300};
  const Tensor starts = integers({5}, [&](auto i) { return starts_of[i[0]]; });
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RotaryInputs in(random, dtype, {2, 300, 16}, {2, 300, 16});
    const Rotary rotary;
    AttentionOptions options;
    options.invariant = true;
    options.rotary.embedding = &rotary;
    options.rotary.key.start = 3;
    AttentionOptions packed = options;
    packed.packed.query_starts = starts;
    const AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, packed);
    for (int s = 0; s < 4; ++s) {
      const auto part = [&](const Tensor& t) {
        return t.view().slice(1, starts_of[s], starts_of[s + 1]);
      };
      const AttentionResult alone =
          scaled_dot_product_attention(part(in.query), part(in.key), part(in.value), options);
      EXPECT_TRUE(same_bits(part(got.output), alone.output)) << s;
    }
    // A tensor of positions has them for the whole.
    const Tensor values = integers({300}, [&](auto i) {
      int64_t s = 0;
      while (i[0] >= starts_of[s + 1]) ++s;
      return i[0] - starts_of[s];
    });
    packed.rotary.query.values = values;
    EXPECT_TRUE(same_bits(scaled_dot_product_attention(in.query, in.key, in.value, packed).output,
                          got.output));
  }
}

// Bits do not depend on threads or executors, also with the caller's memory.
TEST(FusedRotary, has_the_same_bits_for_any_number_of_threads) {
  Random random(4);
  const RotaryInputs in(random, DType::f32, {2, 1, 1500, 32}, {2, 1, 1500, 32});
  const Rotary rotary;
  AttentionOptions options;
  options.rotary.embedding = &rotary;
  Context one, two;
  one.threads = 1, two.threads = 2;
  const AttentionResult expected =
      scaled_dot_product_attention(in.query, in.key, in.value, options, one);
  EXPECT_TRUE(same_results(scaled_dot_product_attention(in.query, in.key, in.value, options, two),
                           expected));
  AttentionOptions plain;
  const size_t with = workspace_bytes(in.query, in.key, in.value, options, one);
  const size_t without = workspace_bytes(in.query, in.key, in.value, plain, one);
  EXPECT_GE(with - without, 2 * 1500 * 32 * sizeof(float));  // the keys
  EXPECT_LE(with - without, 2 * 1500 * 32 * sizeof(float) + 100000);
  Tensor workspace(DType::u8, {static_cast<int64_t>(with)});
  Tensor output(DType::f32, {2, 1, 1500, 32});
  rapt::AttentionOutputs outputs;
  outputs.state.output = output;
  scaled_dot_product_attention(in.query, in.key, in.value, options, outputs,
                               std::as_writable_bytes(workspace.values<uint8_t>()), one);
  EXPECT_TRUE(same_bits(output, expected.output));
}

// What turning a gradient back before it is scaled, and not after it was stored, may change: it
// rounds the cosine, product and sum of either, and the scaling.
testing::AssertionResult near(const Tensor& got, const Tensor& expected, double u,
                              int64_t head_dim) {
  const auto a = check::values_of(got), b = check::values_of(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    double row = 0;
    const size_t begin = i - i % static_cast<size_t>(head_dim);
    for (size_t d = begin; d < begin + static_cast<size_t>(head_dim); ++d)
      row = std::max(row, std::fabs(b[d]));
    if (!(std::fabs(a[i] - b[i]) <= 16 * u * row))
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  }
  return testing::AssertionSuccess();
}

TEST(FusedRotary, has_the_gradients_of_rotated_rows_turned_back) {
  Random random(5);
  for (const DType dtype : kTypes)
    for (const BackwardPasses passes : {BackwardPasses::one, BackwardPasses::two})
      for (const int layout : {0, 2, 5}) {
        const int64_t head_dim = 2 * random.between(1, 40);
        const int64_t q_len = random.between(1, 4 * kLongest);
        const int64_t k_len = random.between(1, 4 * kLongest);
        const RotaryInputs in(random, dtype, {4, q_len, head_dim}, {2, k_len, head_dim});
        const Strided query(in.query, static_cast<Layout>(layout));
        const Strided key(in.key, static_cast<Layout>(layout));
        const Rotary rotary = drawn_rotary(random, head_dim);
        const rapt::Causal causal;
        AttentionOptions options;
        if (random.chance(0.5)) options.masks = {&causal};
        FusedRotary fused;
        fused.embedding = &rotary, fused.query.start = random.between(0, 1000);
        BackwardRequest request;
        request.passes = passes, request.scale = true;
        request.dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
        const Tensor query_after = rotary_embedding(query, rotary, fused.query);
        const Tensor key_after = rotary_embedding(key, rotary, fused.key);
        const AttentionResult forward =
            scaled_dot_product_attention(query_after, key_after, in.value, options);
        const Tensor d_output = random_normal(random, dtype, {4, q_len, head_dim});
        BackwardInputs inputs;
        inputs.state.output = forward.output, inputs.state.statistic = forward.statistic;
        inputs.d_output = d_output;
        const rapt::Gradients expected = scaled_dot_product_attention_backward(
            query_after, key_after, in.value, options, inputs, request);
        options.rotary = fused;
        const rapt::Gradients got =
            scaled_dot_product_attention_backward(query, key, in.value, options, inputs, request);
        const double u = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(q_len) + " x " +
                     std::to_string(k_len) + " x " + std::to_string(head_dim));
        EXPECT_TRUE(near(got.d_query,
                         rotary_embedding_backward(expected.d_query, rotary, fused.query), u,
                         head_dim));
        EXPECT_TRUE(near(got.d_key, rotary_embedding_backward(expected.d_key, rotary, fused.key), u,
                         head_dim));
        EXPECT_TRUE(same_bits(got.d_value, expected.d_value));
        EXPECT_TRUE(same_bits(got.d_scale, expected.d_scale));
        // Stored in the inputs' dtype, they are these, rounded.
        request.dtype = {};
        const rapt::Gradients stored =
            scaled_dot_product_attention_backward(query, key, in.value, options, inputs, request);
        const auto rounded = [&](const Tensor& t) {
          Tensor r(dtype, t.dims());
          check::for_each_index(t.dims(), [&](auto i) { set(r, i, get(t, i)); });
          return r;
        };
        EXPECT_TRUE(same_bits(stored.d_query, rounded(got.d_query)));
        EXPECT_TRUE(same_bits(stored.d_key, rounded(got.d_key)));
      }
}

TEST(FusedRotary, has_the_same_gradients_for_any_number_of_threads_and_packed) {
  Random random(6);
  const RotaryInputs in(random, DType::f32, {1, 2500, 16}, {1, 2500, 16});
  const Tensor starts = integers({4}, [](auto i) { return std::vector{0, 40, 1500, 2500}[i[0]]; });
  const Rotary rotary;
  AttentionOptions options;
  options.rotary.embedding = &rotary;
  options.packed.query_starts = starts;
  const AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
  const Tensor d_output = random_normal(random, DType::f32, {1, 2500, 16});
  const auto gradients = [&](int threads, BackwardPasses passes) {
    BackwardInputs inputs;
    inputs.state.output = forward.output, inputs.state.statistic = forward.statistic;
    inputs.d_output = d_output;
    BackwardRequest request;
    request.passes = passes;
    Context context;
    context.threads = threads;
    return scaled_dot_product_attention_backward(in.query, in.key, in.value, options, inputs,
                                                 request, context);
  };
  const rapt::Gradients expected = gradients(1, BackwardPasses::one);
  for (const int threads : {1, 2})
    for (const BackwardPasses passes : {BackwardPasses::one, BackwardPasses::two}) {
      const rapt::Gradients got = gradients(threads, passes);
      EXPECT_TRUE(same_bits(got.d_query, expected.d_query));
      EXPECT_TRUE(same_bits(got.d_key, expected.d_key));
    }
  // A sequence is a problem of its own.
  const auto part = [](const Tensor& t, int dim) { return t.view().slice(dim, 40, 1500); };
  AttentionOptions alone = options;
  alone.packed = {};
  BackwardInputs inputs;
  inputs.state.output = part(forward.output, 1),
  inputs.state.statistic = part(forward.statistic, 1);
  inputs.d_output = part(d_output, 1);
  const rapt::Gradients of_one = scaled_dot_product_attention_backward(
      part(in.query, 1), part(in.key, 1), part(in.value, 1), alone, inputs);
  EXPECT_TRUE(same_bits(part(expected.d_query, 1), of_one.d_query));
  EXPECT_TRUE(same_bits(part(expected.d_key, 1), of_one.d_key));
}

TEST(FusedRotary, refuses_what_has_no_meaning) {
  Random random(7);
  const RotaryInputs in(random, DType::f32, {2, 8, 6}, {2, 9, 6});
  Rotary rotary;
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& words,
                           const FusedRotary& fused) {
    AttentionOptions options;
    options.rotary = fused;
    expect_error(code, words,
                 [&] { scaled_dot_product_attention(in.query, in.key, in.value, options); });
    expect_error(code, words, [&] { plan(in.query, in.key, in.value, options); });
  };
  FusedRotary fused;
  const Tensor eight = integers({8}, [](auto i) { return i[0]; });
  fused.query.values = eight;
  refused(ErrorCode::argument, {"positions", "without an embedding"}, fused);
  fused.query = {}, fused.key.start = 512;
  refused(ErrorCode::argument, {"positions", "without an embedding"}, fused);
  fused.key.start = 0, fused.query.step = 2;
  refused(ErrorCode::argument, {"positions", "without an embedding"}, fused);
  fused.query.step = 1, fused.rotate_key = false;
  refused(ErrorCode::argument, {"rotated keys without an embedding"}, fused);
  // Positions for keys that are not rotated.
  fused.embedding = &rotary, fused.key.step = 2;
  refused(ErrorCode::argument, {"rotary of keys", "keys that come rotated"}, fused);
  fused.key.step = 1, fused.key.start = -1;
  refused(ErrorCode::argument, {"rotary of keys", "keys that come rotated"}, fused);
  fused.key.start = 0, fused.key.values = eight;
  refused(ErrorCode::argument, {"rotary of keys", "keys that come rotated"}, fused);
  fused = {};
  fused.query.values = eight;
  fused.embedding = &rotary, fused.key.values = eight;
  refused(ErrorCode::shape, {"rotary of keys", "[8]", "[..., 9]"}, fused);
  rotary.dims = 5;
  refused(ErrorCode::argument, {"dims = 5"}, fused);
  rotary.dims = 0;
  AttentionOptions options;
  options.rotary.embedding = &rotary;
  expect_error(ErrorCode::unsupported, {"tangents of options.rotary", "rotary_embedding()"}, [&] {
    AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
    rapt::InputTangents tangents;
    tangents.query = in.query;
    attention_jvp(in.query, in.key, in.value, options, forward.state(), tangents);
  });
  // Positions that the output would write over.
  Tensor memory = integers({100}, [](auto) { return 0; });
  options.rotary.query.values = memory.view().slice(0, 0, 8);
  rapt::AttentionOutputs outputs;
  outputs.state.output = TensorView(static_cast<float*>(memory.data()), {2, 8, 6});
  Tensor workspace(DType::u8, {1 << 20});
  expect_error(ErrorCode::overlap, {"output overlaps the positions of rows"}, [&] {
    scaled_dot_product_attention(in.query, in.key, in.value, options, outputs,
                                 std::as_writable_bytes(workspace.values<uint8_t>()));
  });
  options.rotary.query = {};
  // Empty calls succeed.
  const RotaryInputs none(random, DType::f32, {2, 0, 6}, {2, 0, 6});
  EXPECT_NO_THROW(scaled_dot_product_attention(none.query, none.key, none.value, options));
  EXPECT_NO_THROW(scaled_dot_product_attention(in.query, none.key, none.value, options));
}

}  // namespace
}  // namespace laws
