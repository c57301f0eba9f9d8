// The backward call of multi-head attention in groups of heads: the gradients of all heads at once,
// the same bits for any number of threads, and less memory for long sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "nn/attention/head_groups.h"
#include "nn/attention/multi_head_problem.h"
#include "nn/elements.h"
#include "nn/same_bits.h"

namespace {

using namespace rapt;
using namespace nn_tests;

// Copies of all gradients of a call that adds to the inputs' gradients.
std::vector<Tensor> gradients_by_groups(MultiHeadProblem& p, int64_t key_heads) {
  nn::clear_gradients(nn::parameters_of(p.layer));
  uint64_t seed = 1;
  for (Tensor* d : {&p.d_x, &p.d_key_value, &p.d_value})
    if (d->defined()) fill_normal(*d, ++seed);
  p.in_memory([&](nn::Arena& states, const nn::Run& run) {
    const auto kept = p.state(states);
    forward(p.layer, p.x, p.y, kept, run, p.call);
    backward_by_groups(p.layer, p.x, p.d_y, kept, p.d_x, run, true, p.call, p.gradients, key_heads);
  });
  std::vector<Tensor> copies;
  for (const Checked& checked : p.checked())
    copies.push_back(Tensor::copy_of(checked.gradient->view()));
  return copies;
}

// Groups add the terms of inputs' gradients in another order, `terms` of them at most; the other
// gradients have the same bits. Each of the additions rounds by epsilon / 2 of the partial sum at
// most in either order, and a partial sum is taken to be as large as the largest result.
void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                 size_t inputs, int64_t terms) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t t = 0; t < found.size(); ++t) {
    const std::vector<double> a = values_of(found[t]), b = values_of(expected[t]);
    double largest = 0, error = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      error = std::max(error, std::abs(a[i] - b[i]));
    }
    const double tolerance = t < inputs ? static_cast<double>(terms) * DBL_EPSILON * largest : 0;
    EXPECT_LE(error, tolerance) << "tensor " << t;
  }
}

TEST(HeadGroups, HaveTheGradientsOfAllHeads) {
  const MultiHeadSizes self{.leading = {2}, .length = 5, .embed_dim = 12, .num_heads = 6};
  const MultiHeadSizes cross{.leading = {2},
                             .length = 5,
                             .k_len = 4,
                             .embed_dim = 12,
                             .num_heads = 6,
                             .value_apart = true};
  nn::MultiHeadAttentionSpec grouped, appended, learned, apart;
  grouped.num_kv_heads = 3, grouped.mask = "causal", grouped.dropout = 0.3;
  appended.add_bias_kv = true, appended.scores = {"alibi"};
  learned.scores = {"head_scale(learned)"}, learned.normalizer = "softmax_with_sink(learned)";
  apart.num_kv_heads = 3, apart.kdim = 7, apart.vdim = 5, apart.bias = false;
  const struct {
    MultiHeadSizes sizes;
    nn::MultiHeadAttentionSpec spec;
  } cases[] = {{self, {}},      {self, grouped}, {self, appended},
               {self, learned}, {cross, apart},  {cross, grouped}};
  for (size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    MultiHeadProblem problem(cases[i].sizes, cases[i].spec, DType::f64, 3);
    problem.training = true;
    const std::vector<Tensor> expected = gradients_by_groups(problem, 6);
    const size_t inputs = 1 + problem.key_value.defined() + problem.value.defined();
    const int64_t terms = problem.layer.inner() + 2 * problem.layer.kv() + 1;  // and what d_x held
    for (const int64_t key_heads : {1, 2}) {  // the last of groups of 2 of 3 has one
      SCOPED_TRACE(key_heads);
      expect_near(gradients_by_groups(problem, key_heads), expected, inputs, terms);
    }
  }
}

TEST(HeadGroups, HaveTheSameBitsForAnyThreads) {
  expect_same_bits([](const Context& context) {
    MultiHeadProblem problem({.leading = {2}, .length = 1100, .embed_dim = 32, .num_heads = 4}, {},
                             DType::f32, 5);
    problem.context = context;
    return gradients_by_groups(problem, 1);
  });
}

// Four threads share one of the five heads of the first group at a time. The four heads of the last
// group have a thread each, whose components take more than the gradients of the fifth head. The
// layer is narrow so that its products take less.
TEST(HeadGroups, FitTheMemoryThatWasCounted) {
  MultiHeadProblem problem({.length = 1100, .embed_dim = 8, .num_heads = 9}, {.head_dim = 8},
                           DType::f32, 11);
  laws::Threads four(4);
  problem.context.executor = &four;
  EXPECT_NO_THROW(gradients_by_groups(problem, 5));
}

// Bytes of scratch of a forward and a backward call of 12 heads, one thread.
size_t scratch_bytes(int64_t length) {
  nn::MultiHeadAttention layer = nn::make_multi_head_attention(768, 12);
  const int64_t shape[] = {1, length, 768};
  const TensorView x(static_cast<std::byte*>(nullptr), DType::f32, shape, false);
  Context context;
  context.threads = 1;
  nn::Arena states, scratch;
  const nn::Run run{.scratch = scratch, .context = context, .training = true};
  const auto state = make_state(layer, shape, states);
  forward(layer, x, x, state, run);
  backward(layer, x, x, state, x, run);
  return scratch.bytes();
}

TEST(HeadGroups, LimitTheMemoryOfLongSequences) {
  EXPECT_LE(scratch_bytes(16384), size_t{45} << 20);
  // The gradients of all projections.
  EXPECT_GE(scratch_bytes(2048), size_t{2048} * 3 * 768 * sizeof(float));
}

}  // namespace
