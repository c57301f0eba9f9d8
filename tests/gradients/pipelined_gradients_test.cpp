// Tile registers multiply one block of keys while the vectors work on another and a third is summed
// up. Gradients have the bits of one block after the other, as a call gets them that names rows of
// weights: gradients of these might come, and they need a block for themselves.
#include <gtest/gtest.h>

#include "gradients/gradient_problems.h"
#include "support/executors.h"

namespace laws {
namespace {

Descriptor random_problem(Random& random) {
  const auto length = [&](int64_t most) {
    return random.chance(0.3) ? random.pick<int64_t>({32, 64, 96, 128, 192, 384})
                              : random.between(30, most);
  };
  const std::string heads = random.pick({"", "h2", "h4/2", "[2]h2/1"});
  const std::string line =
      heads + "q" + std::to_string(length(200)) + "k" + std::to_string(length(600)) + "d" +
      std::to_string(2 * random.between(1, 35)) + "v" + std::to_string(random.between(1, 70)) +
      random.pick({"", ":bf16", ":bf16", ":f16"}) +
      random.pick({"", ":mask=causal", ":mask=causal(bottom-right)", ":mask=window(50,70)",
                   ":mask=boolean(0.6)", ":mask=boolean(0.9)&causal"}) +
      random.pick({"", "", ":norm=softmax_plus_one", ":norm=softmax_with_sink(0)"}) +
      random.pick({":precision=automatic", ":precision=fast"}) +
      random.pick({"", "", ":rows=rotary", ":rows=cosine"}) + random.pick({"", ":backward=lse"}) +
      ":seed=" + std::to_string(random.between(1, 1 << 20));
  return parse_descriptor(line);
}

// Some numbers that go other ways than most: in several parts, or beside the tiles.
void spoil(Random& random, const Tensor& t) {
  for (int64_t some = random.between(1, 3); some > 0; --some) {
    Dims at;
    for (int i = 0; i < t.rank(); ++i) at.push_back(random.between(0, t.dim(i) - 1));
    set(t, at, random.pick({std::nan(""), HUGE_VAL, -HUGE_VAL, 1e20, 1e-30}));
  }
}

// Which of two NaNs results is unspecified.
rapt::Gradients with_one_nan(const rapt::Gradients& all) {
  rapt::Gradients same;
  for (const auto& [name, tensor, output] : kGradientTensors)
    if (const Tensor& t = all.*tensor; t.defined())
      same.*tensor = mapped(t, [](double x, auto) { return std::isnan(x) ? std::nan("") : x; });
  return same;
}

// `c`: inputs as they are now.
void expect_same(const Case& c, const GradientCase& g, Random& random) {
  AttentionResult result = scaled_dot_product_attention(c.query, c.key, c.value, c.options);
  AttentionOptions alone = c.options;
  alone.weights.emplace().row_end = 1;
  BackwardRequest request = g.request();
  for (bool* wanted : {&request.query, &request.key, &request.value}) *wanted = random.chance(0.8);
  const auto gradients = [&](const AttentionOptions& options, const Context& context = {}) {
    return with_one_nan(scaled_dot_product_attention_backward(
        c.query, c.key, c.value, options, g.inputs(result.state()), request, context));
  };
  request.passes = BackwardPasses::one;
  const rapt::Gradients expected = gradients(alone);
  EXPECT_TRUE(same_gradients(gradients(c.options), expected));
  Threads three(3);
  Context context;
  context.executor = &three;
  EXPECT_TRUE(same_gradients(gradients(c.options, context), expected)) << "of three threads";
  request.passes = BackwardPasses::two;
  EXPECT_TRUE(same_gradients(gradients(c.options), expected)) << "in two passes";
}

TEST(PipelinedGradients, AreThoseOfOneBlockAfterTheOther) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(250) && !HasFailure(); ++n) {
    const Case c(random_problem(random));
    const GradientCase g(c);
    const std::string spoilt = random.pick({"", "", "query", "key", "value", "d_output"});
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "' " + spoilt);
    if (spoilt == "query") spoil(random, c.query);
    if (spoilt == "key") spoil(random, c.key);
    if (spoilt == "value") spoil(random, c.value);
    if (spoilt == "d_output") spoil(random, g.d_output);
    expect_same(c, g, random);
  }
}

// A key whose scores are all -inf. In lanes without a query its score is 0 * -inf = NaN, which must
// not spread.
TEST(PipelinedGradients, OfAKeyThatIsInfinitelyFar) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(20) && !HasFailure(); ++n) {
    const int64_t k_len = random.between(30, 400), far = random.between(0, k_len - 1);
    const Case c(parse_descriptor("q" + std::to_string(random.between(40, 200)) + "k" +
                                  std::to_string(k_len) + "d16:bf16:seed=" + std::to_string(n)));
    const GradientCase g(c);
    SCOPED_TRACE(to_string(c.descriptor) + ", key " + std::to_string(far));
    for (int64_t i = 0; i < c.descriptor.q_len; ++i) set(c.query, Dims{i, 0}, 1);
    set(c.key, Dims{far, 0}, -HUGE_VAL);
    expect_same(c, g, random);
  }
}

}  // namespace
}  // namespace laws
