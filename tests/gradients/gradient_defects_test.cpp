// Defects of other backward passes, and similar edge cases: masked NaN, masked blocks, offsets
// beyond 32 bits, tensors without elements, long sums of 16-bit numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "check/tolerance/gradient_tolerance.h"
#include "gradients/gradient_problems.h"
#include "hostile/far_tensors.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_right(const std::string& line) {
  SCOPED_TRACE("rapt check '" + line + "'");
  const Case c(parse_descriptor(line));
  const GradientCase g(c);
  const Comparison comparison = compare(g, run_backward(g));
  EXPECT_TRUE(comparison.ok()) << comparison.failures();
}

// The inputs of a backward call of one head; a test may spoil each of them.
struct Parts {
  DType dtype;
  Tensor query, key, value, bias, allowed, d_output, d_lse, d_weights;
  rapt::Dropout dropout;
  BackwardPasses passes = BackwardPasses::one;

  Parts(Random& random, DType of, int64_t q_len, int64_t k_len, int64_t head_dim, int64_t value_dim)
      : dtype(of) {
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    query = random_normal(random, dtype, {q_len, head_dim});
    key = random_normal(random, dtype, {k_len, head_dim});
    value = random_normal(random, dtype, {k_len, value_dim});
    bias = random_normal(random, dtype, {q_len, k_len});
    d_output = random_normal(random, dtype, {q_len, value_dim});
    d_lse = random_normal(random, wide, {q_len});
    d_weights = random_normal(random, wide, {q_len, k_len});
    allowed = Tensor(DType::boolean, {q_len, k_len});
    const double density = random.pick({0.05, 0.4, 0.9});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(density)); });
    passes = random.chance(0.5) ? BackwardPasses::one : BackwardPasses::two;
  }
  Parts(const Parts& other)
      : dtype(other.dtype),
        query(Tensor::copy_of(other.query)),
        key(Tensor::copy_of(other.key)),
        value(Tensor::copy_of(other.value)),
        bias(Tensor::copy_of(other.bias)),
        allowed(Tensor::copy_of(other.allowed)),
        d_output(Tensor::copy_of(other.d_output)),
        d_lse(Tensor::copy_of(other.d_lse)),
        d_weights(Tensor::copy_of(other.d_weights)),
        dropout(other.dropout),
        passes(other.passes) {}

  int64_t q_len() const { return query.dim(0); }
  int64_t k_len() const { return key.dim(0); }
  bool sees(int64_t i, int64_t j) const { return get(allowed, Dims{i, j}) != 0; }

  rapt::Gradients gradients() const {
    const rapt::Boolean mask(allowed);
    AttentionOptions options;
    options.masks = {&mask};
    options.bias = bias;
    options.dropout = dropout;
    options.weights.emplace();
    AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
    BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = d_output;
    inputs.d_statistic = d_lse;
    inputs.d_weights = d_weights;
    BackwardRequest request;
    request.bias = request.scale = true;
    request.passes = passes;
    return scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
  }
};

Parts random_parts(Random& random) {
  return Parts(random, random.pick({DType::f32, DType::f64, DType::bf16, DType::f16}),
               random.pick({1, 3, 17, 40, 130, 300}), random.pick({1, 4, 33, 128, 130, 290}),
               random.pick({1, 3, 8, 16, 21}), random.pick({1, 5, 8, 16}));
}

void spoil_row(const TensorView& t, int64_t row, double with) {
  for (int64_t d = 0; d < t.shape[t.rank - 1]; ++d) set(t, Dims{row, d}, with);
}

// PyTorch #101967 in the backward pass: 0 * NaN in any of the products. Whatever masked numbers
// are, the gradients have the same bits.
TEST(GradientDefects, reg_masked_nan_no_leak) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(120) && !HasFailure(); ++n) {
    Parts clean = random_parts(random);
    if (random.chance(0.3)) clean.dropout = {0.4, 7};
    const int64_t unseeing = random.between(0, clean.q_len() - 1),
                  unseen = random.between(0, clean.k_len() - 1);
    for (int64_t j = 0; j < clean.k_len(); ++j) set(clean.allowed, Dims{unseeing, j}, 0);
    for (int64_t i = 0; i < clean.q_len(); ++i) set(clean.allowed, Dims{i, unseen}, 0);
    Parts spoilt = clean;
    const double with = random.pick({kNan, kInfinity, -kInfinity});
    SCOPED_TRACE(testing::Message() << rapt::name_of(clean.dtype) << " " << clean.q_len() << " x "
                                    << clean.k_len() << ", " << with);
    spoil_row(spoilt.query, unseeing, with);
    spoil_row(spoilt.d_output, unseeing, with);
    set(spoilt.d_lse, Dims{unseeing}, with);
    spoil_row(spoilt.key, unseen, with);
    spoil_row(spoilt.value, unseen, with);
    for_each_index(clean.allowed.dims(), [&](auto i) {
      if (get(clean.allowed, i) != 0) return;
      set(spoilt.bias, i, with);
      set(spoilt.d_weights, i, with);
    });
    EXPECT_TRUE(same_gradients(spoilt.gradients(), clean.gradients()));
  }
}

// The same where some queries attend to the key: the NaN reaches their gradients and no others.
TEST(GradientDefects, reg_masked_nan_of_some) {
  Random random(base_seed() + 1);
  const char* const kSpoilt[] = {"query", "key", "value", "d_output", "bias", "d_weights", "d_lse"};
  for (int n = 0; n < problem_count(200) && !HasFailure(); ++n) {
    const Parts clean = random_parts(random);
    const int64_t row = random.between(0, clean.q_len() - 1),
                  key = random.between(0, clean.k_len() - 1);
    Parts spoilt = clean;
    const int64_t which = random.between(0, 6);
    SCOPED_TRACE(testing::Message()
                 << rapt::name_of(clean.dtype) << " " << clean.q_len() << " x " << clean.k_len()
                 << ", " << kSpoilt[which] << ", row " << row << ", key " << key);
    const bool by_key = which == 1 || which == 2, pair = which == 4 || which == 5;
    switch (which) {
      case 0:
        spoil_row(spoilt.query, row, kNan);
        break;
      case 1:
        spoil_row(spoilt.key, key, kNan);
        break;
      case 2:
        spoil_row(spoilt.value, key, kNan);
        break;
      case 3:
        spoil_row(spoilt.d_output, row, kNan);
        break;
      case 4:
        set(spoilt.bias, Dims{row, key}, kNan);
        break;
      case 5:
        set(spoilt.d_weights, Dims{row, key}, kNan);
        break;
      default:
        set(spoilt.d_lse, Dims{row}, kNan);
    }
    // Which queries attend to it, and which keys these attend to.
    std::vector<char> bad(static_cast<size_t>(clean.q_len()), 0),
        met(static_cast<size_t>(clean.k_len()), 0);
    for (int64_t i = 0; i < clean.q_len(); ++i) {
      bad[static_cast<size_t>(i)] =
          by_key ? clean.sees(i, key) : i == row && (!pair || clean.sees(row, key));
      for (int64_t j = 0; j < clean.k_len(); ++j)
        if (bad[static_cast<size_t>(i)] && clean.sees(i, j)) met[static_cast<size_t>(j)] = 1;
    }
    const rapt::Gradients got = spoilt.gradients(), expected = clean.gradients();
    const auto expect_rows = [&](const char* name, const Tensor& x, const Tensor& y,
                                 const std::vector<char>& shows) {
      for (int64_t r = 0; r < x.dim(0); ++r) {
        const Dims one{r};
        if (!shows[static_cast<size_t>(r)]) {
          EXPECT_TRUE(same_bits(taken(x, 0, one), taken(y, 0, one))) << name << " " << r;
          continue;
        }
        for (const double number : values_of(taken(x, 0, one)))
          EXPECT_TRUE(std::isnan(number)) << name << " " << r;
      }
    };
    // A row without keys has a gradient of 0, spoilt or not.
    std::vector<char> shown = bad;
    for (int64_t i = 0; i < clean.q_len(); ++i) {
      bool any = false;
      for (int64_t j = 0; j < clean.k_len(); ++j) any = any || clean.sees(i, j);
      shown[static_cast<size_t>(i)] = static_cast<char>(any && bad[static_cast<size_t>(i)]);
    }
    expect_rows("d_query", got.d_query, expected.d_query, shown);
    expect_rows("d_key", got.d_key, expected.d_key, met);
    // d_value depends on weights and d_output alone.
    const bool in_weights = which == 0 || which == 1 || which == 4 || which == 3;
    expect_rows("d_value", got.d_value, expected.d_value,
                in_weights ? met : std::vector<char>(met.size(), 0));
  }
}

// The same with NaN in the keys beyond a length. No tile reads these keys, but tiles do read the
// last key before them.
TEST(GradientDefects, reg_masked_nan_behind_a_length) {
  Random random(base_seed() + 4);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const int64_t length : {1, 4, 5, 95, 97, 131})
      for (const BackwardPasses passes : {BackwardPasses::one, BackwardPasses::two}) {
        SCOPED_TRACE(testing::Message() << rapt::name_of(dtype) << " " << length);
        const Dims dims{1, length + 3, 8};
        const Tensor query = random_normal(random, dtype, dims),
                     d_output = random_normal(random, dtype, dims),
                     key = random_normal(random, dtype, dims),
                     value = random_normal(random, dtype, dims);
        const Tensor spoilt_key = Tensor::copy_of(key), spoilt_value = Tensor::copy_of(value);
        for (int64_t j = length; j < length + 3; ++j)
          for (int64_t d = 0; d < 8; ++d) {
            set(spoilt_key, Dims{0, j, d}, kNan);
            set(spoilt_value, Dims{0, j, d}, kInfinity);
          }
        Tensor lengths(DType::i64, {1});
        set(lengths, Dims{0}, static_cast<double>(length));
        const rapt::Lengths mask(lengths);
        AttentionOptions options;
        options.masks = {&mask};
        BackwardRequest request;
        request.scale = true;
        request.passes = passes;
        const auto gradients = [&](const Tensor& k, const Tensor& v) {
          AttentionResult forward = scaled_dot_product_attention(query, k, v, options);
          BackwardInputs inputs;
          inputs.state = forward.state();
          inputs.d_output = d_output;
          return scaled_dot_product_attention_backward(query, k, v, options, inputs, request);
        };
        EXPECT_TRUE(same_gradients(gradients(spoilt_key, spoilt_value), gradients(key, value)));
      }
}

// A key whose scores are all -inf has no weight and no gradients, nor has its bias. The numbers of
// queries leave incomplete vectors and pairs.
TEST(GradientDefects, reg_scores_of_minus_infinity) {
  Random random(base_seed() + 5);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const int64_t q_len : {1, 2, 15, 16, 17, 67})
      for (const Dims& of_bias : {Dims{}, Dims{1, 9}, Dims{1, 1}}) {
        SCOPED_TRACE(testing::Message() << rapt::name_of(dtype) << " " << q_len);
        const Tensor query = filled(dtype, {q_len, 4}, 1),
                     key = random_normal(random, dtype, {9, 4}),
                     value = random_normal(random, dtype, {9, 3}),
                     d_output = random_normal(random, dtype, {q_len, 3});
        spoil_row(key, 6, -kInfinity);
        AttentionOptions options;
        BackwardRequest request;
        const Tensor bias = filled(dtype, of_bias, 1);
        if (!of_bias.empty()) options.bias = bias, request.bias = true;
        AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
        BackwardInputs inputs;
        inputs.state = forward.state();
        inputs.d_output = d_output;
        const rapt::Gradients got =
            scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
        for (const Tensor* gradient : {&got.d_key, &got.d_value})
          for (const double number : values_of(taken(*gradient, 0, Dims{6}))) EXPECT_EQ(number, 0);
        if (of_bias.empty()) continue;
        for (const double number : values_of(got.d_bias)) EXPECT_TRUE(std::isfinite(number));
      }
}

// PyTorch #127055: whole blocks of masked keys. #103963: rows whose keys are all masked.
TEST(GradientDefects, reg_whole_blocks_masked) {
  for (const char* line :
       {"q640k640d8:mask=window(50,0)", "q640k640d8:mask=window(0,3):bf16",
        "q300k640d8:mask=!window(100,100)", "q300k640d8:bias=0.999", "q300k640d8:bias=1",
        "q300k640d8:mask=boolean(0)", "h2q300k400d16:mask=causal(-150):f16",
        "b3h2q200k500d8:mask=lengths", "q700k100d8:mask=causal(bottom-right)",
        "q500k500d8:mask=documents(9):backward=two:dropout=0.3,4"})
    expect_right(line);
}

// Lengths of several chunks of keys and segments of queries: the sums between chunks, and those
// over all chunks.
TEST(GradientDefects, reg_several_chunks) {
  constexpr const char* kLines[] = {
      "q1100k1200d4:bias=[1100,1]:score=softcap(5):backward=lse:seed=1",
      "q1500k1100d4:bf16:bias=[1,1100]:score=softcap(5):backward=two:seed=2",
      "h2/1q1030k1030d3:mask=causal:bias=[1,1]:dropout=0.2,3:seed=3",
      "q2100k2100d2:f64:mask=window(300,9):packed=2:seed=4",
      "q1100k1100d2:mask=window(9,9):weights(600..1100):backward=two:seed=5"};
  // Sanitizers take long for the reference, which all lines share.
  for (const char* line : std::span(kLines).first(RAPT_SANITIZED ? 2 : std::size(kLines)))
    expect_right(line);
}

// Weights that were returned twice have two gradients.
TEST(GradientDefects, reg_weights_returned_twice) {
  for (const char* line : {"h3q20k30d4:weights([3,0,3],heads=[2,2,0]):seed=1",
                           "q40k200d4:weights([39,0,39,39]):backward=two:seed=2",
                           "h2q10k20d4:weights(2..5,heads=[1,1]):mask=causal(5):seed=3"})
    expect_right(line);
}

// A row of -inf in the bias excludes its pairs as a mask does, to the bit.
TEST(GradientDefects, reg_bias_of_minus_infinity_is_a_mask) {
  Random random(base_seed() + 2);
  for (int n = 0; n < problem_count(40) && !HasFailure(); ++n) {
    const Parts by_mask = random_parts(random);
    Parts by_bias = by_mask;
    by_bias.allowed = filled(DType::boolean, {by_mask.q_len(), by_mask.k_len()}, 1);
    for_each_index(by_mask.allowed.dims(), [&](auto i) {
      if (get(by_mask.allowed, i) == 0) set(by_bias.bias, i, -kInfinity);
    });
    EXPECT_TRUE(same_gradients(by_bias.gradients(), by_mask.gradients()));
  }
}

// Gradients of bf16 inputs are summed in f32: 3,000 queries add to every key.
TEST(GradientDefects, reg_long_sums_of_16_bits) {
  for (const char* line :
       {"q3000k3d4:bf16:seed=1", "q3000k3d4:f16:seed=2", "h64/1q60k5d4:bf16:seed=3",
        "[300]h2q4k5d4:bf16:key=[1,2]:value=[2]:seed=4", "q2k3000d4:bf16:seed=5",
        "q2000k30d4:bf16:bias=[1,30]:score=softcap(3):backward=lse,f32:seed=6"})
    expect_right(line);
}

TEST(GradientDefects, reg_value_dim_is_not_head_dim) {
  for (const char* line :
       {"q70k90d16v3", "q70k90d3v33", "h2q70k90d64v8:bf16", "h4/2q40k50d5v40:f64:dropout=0.3,1",
        "q20k30d1v1", "q20k30d128v1:f16", "q20k30d1v128"})
    expect_right(line);
}

TEST(GradientDefects, reg_tensors_without_elements) {
  for (const char* line :
       {"q5k7d4v0", "q5k7d4v0:backward=lse:weights", "q5k0d4", "h2q5k0d4:bias=[5,1]", "q0k7d4",
        "b2h2q0k7d4:mask=causal", "q0k0d4v0", "h0q5k7d4", "[0]h2q5k7d4:key=[2]:value=[1,2]",
        "b2h0q3k4d2:query=[2,1]:bias=[3,4]:score=softcap(2)"})
    expect_right(line);
}

// k_len = 0: the gradients that have elements are 0.
TEST(GradientDefects, reg_no_keys_is_zero) {
  const Case c(parse_descriptor("h2q5k0d4:bias=[5,1]:backward=lse"));
  const GradientCase g(c);
  const rapt::Gradients got = run_backward(g);
  EXPECT_TRUE(same_bits(got.d_query, filled(DType::f32, {2, 5, 4}, 0)));
  EXPECT_TRUE(same_bits(got.d_bias, filled(DType::f32, {5, 1}, 0)));
  EXPECT_EQ(get(got.d_scale, {}), 0);
}

// PyTorch #162588: offsets beyond 32 bits, of inputs, state and gradients.
TEST(GradientDefects, reg_more_than_2p31_elements) {
  const Reserved memory(kFarRowsBytes), for_query(kFarRowsBytes), for_key(kFarRowsBytes),
      for_value(kFarRowsBytes);
  for (const Reserved* space : {&memory, &for_query, &for_key, &for_value})
    if (!space->available()) GTEST_SKIP() << "no address space";
  Random random(base_seed());
  const Tensor q = random_rows(random), k = random_rows(random), v = random_rows(random),
               d = random_rows(random);
  AttentionResult forward = scaled_dot_product_attention(q, k, v);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = d;
  const rapt::Gradients expected = scaled_dot_product_attention_backward(q, k, v, {}, inputs);

  const TensorView query = far_rows(memory), key = far_rows(memory, 100),
                   value = far_rows(memory, 200), output = far_rows(memory, 300),
                   d_output = far_rows(memory, 400);
  copy_into(query, q);
  copy_into(key, k);
  copy_into(value, v);
  copy_into(output, forward.output);
  copy_into(d_output, d);
  inputs.state.output = output;
  inputs.d_output = d_output;
  // Not with rows between those of others: address ranges would overlap.
  GradientOutputs outputs;
  outputs.d_query = far_rows(for_query);
  outputs.d_key = far_rows(for_key);
  outputs.d_value = far_rows(for_value);
  std::vector<std::byte> workspace(rapt::backward_workspace_bytes(query, key, value));
  scaled_dot_product_attention_backward(query, key, value, {}, inputs, {}, outputs, workspace);
  EXPECT_TRUE(same_bits(outputs.d_query, expected.d_query));
  EXPECT_TRUE(same_bits(outputs.d_key, expected.d_key));
  EXPECT_TRUE(same_bits(outputs.d_value, expected.d_value));
}

// MLX #2894: a boolean mask of more than 2^31 elements; the queries are those of its last rows.
TEST(GradientDefects, reg_mask_over_2p31) {
  constexpr int64_t kLen = HugeMask::kLen;
  const Dims pairs[] = {{kLen - 2, 7}, {kLen - 2, kLen - 1}, {kLen - 1, 7}, {kLen - 1, kLen - 2}};
  const HugeMask huge(pairs);
  if (!huge.available()) GTEST_SKIP() << "no address space";
  const rapt::Boolean mask(huge.last_rows(2));
  Random random(base_seed());
  const Tensor query = filled(DType::f32, {2, 2}, 0), d_output = filled(DType::f32, {2, 3}, 1);
  const Tensor key = random_normal(random, DType::f32, {kLen, 2});
  const Tensor value = random_normal(random, DType::f32, {kLen, 3});
  AttentionOptions options;
  options.masks = {&mask};
  AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = d_output;
  const rapt::Gradients got =
      scaled_dot_product_attention_backward(query, key, value, options, inputs);
  // Two keys of weight 1/2 each for every query.
  for (int64_t j = 0; j < kLen; ++j) {
    const double weight = j == 7 ? 1 : j >= kLen - 2 ? 0.5 : 0;
    ASSERT_FLOAT_EQ(static_cast<float>(get(got.d_value, Dims{j, 1})), static_cast<float>(weight))
        << j;
  }
}

// PyTorch #187225: q_len * k_len > 2^32. A window keeps the work small, and scale = 0 makes the
// weights known: every query attends to its own key and the one before.
TEST(GradientDefects, reg_qk_over_2p32) {
  constexpr int64_t kLen = 70000;  // kLen^2 > 2^32
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {kLen, 2});
  const rapt::Window window(1, 0);
  AttentionOptions options;
  options.masks = {&window};
  options.scale = 0;
  AttentionResult forward = scaled_dot_product_attention(x, x, x, options);
  BackwardInputs inputs;
  inputs.state = forward.state();
  inputs.d_output = x;
  for (const BackwardPasses passes : {BackwardPasses::one, BackwardPasses::two}) {
    BackwardRequest request;
    request.passes = passes;
    const rapt::Gradients got =
        scaled_dot_product_attention_backward(x, x, x, options, inputs, request);
    for (int64_t j = 1; j + 1 < kLen; j += 997)
      EXPECT_NEAR(get(got.d_value, Dims{j, 1}), (get(x, Dims{j, 1}) + get(x, Dims{j + 1, 1})) / 2,
                  1e-6)
          << j;
    EXPECT_EQ(get(got.d_query, Dims{kLen - 1, 0}), 0) << "the scale is 0";
  }
}

// f32 scores of hundreds: weights of 0 and 1, and no overflow on the way back.
TEST(GradientDefects, reg_large_scores) {
  for (const char* line :
       {"q40k50d8:magnitude=30:seed=1", "q40k50d8:magnitude=100:bias:seed=2",
        "q40k50d8:scale=-50:seed=3", "q40k50d8:bf16:magnitude=20:score=softcap(30):seed=4",
        "q40k50d8:magnitude=1e-20:seed=5"})
    expect_right(line);
}

}  // namespace
}  // namespace laws
