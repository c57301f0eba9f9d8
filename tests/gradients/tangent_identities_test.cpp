// Identities of tangents: they are adjoint to the gradients, the Hessian is symmetric, both are
// linear. A masked NaN never propagates, threads change no bit, and bad input is rejected.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "gradients/gradient_problems.h"
#include "gradients/tangent_reference.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/tangents.h"
#include "support/executors.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Results {
  rapt::StateTangents state;
  rapt::Gradients gradients;
};

// A case, its forward pass, and all that tangents give.
struct Moves {
  const GradientCase& g;
  const check::Case& c;
  AttentionResult forward;

  explicit Moves(const GradientCase& of, const Context& context = {})
      : g(of),
        c(of.c),
        forward(scaled_dot_product_attention(c.query, c.key, c.value, c.options, context)) {}

  Results along(const Motion& motion, const Context& context = {}) {
    return {
        rapt::attention_jvp(c.query, c.key, c.value, c.options, forward.state(), motion.inputs(),
                            context),
        rapt::attention_backward_jvp(c.query, c.key, c.value, c.options, g.inputs(forward.state()),
                                     motion.inputs(), motion.outputs(), request_of(g), context)};
  }
  rapt::Gradients gradients() {
    return scaled_dot_product_attention_backward(c.query, c.key, c.value, c.options,
                                                 g.inputs(forward.state()), request_of(g));
  }
};

// A sum of products, and how far it may be off: by the errors of its factors' partners.
struct Dot {
  double sum = 0, allowed = 0;

  void add(const Tensor& a, const Tensor& b, const std::vector<double>& error_of_b) {
    if (!a.defined() || !b.defined()) return;
    const std::vector<double> x = values_of(a), y = values_of(b);
    ASSERT_EQ(x.size(), y.size());
    ASSERT_EQ(x.size(), error_of_b.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (error_of_b[i] == 0 && y[i] == 0) continue;
      sum += x[i] * y[i];
      allowed += std::abs(x[i]) * error_of_b[i] + std::abs(x[i] * y[i]) * 0x1p-50;
    }
  }
  void add(double a, double b, double error_of_b) {
    sum += a * b;
    allowed += std::abs(a) * error_of_b;
  }
};
// The inputs' motion and gradients with these errors.
template <class ErrorOf>
Dot dot_of_inputs(const Motion& motion, const rapt::Gradients& g, const Moved<long double>& m,
                  const ErrorOf& error_of) {
  const auto errors = [&](const std::vector<Dual<long double>>& numbers) {
    std::vector<double> all;
    for (const auto& x : numbers) all.push_back(error_of(x));
    return all;
  };
  Dot dot;
  dot.add(motion.query, g.d_query, errors(m.query));
  dot.add(motion.key, g.d_key, errors(m.key));
  dot.add(motion.value, g.d_value, errors(m.value));
  dot.add(motion.bias, g.d_bias, errors(m.bias));
  dot.add(motion.scale, g.d_scale.values<double>()[0], error_of(m.scale));
  for (size_t n = 0; n < motion.numbers.size(); ++n)
    dot.add(motion.numbers[n], g.d_score_parameters.values<double>()[n], error_of(m.numbers[n]));
  return dot;
}
double value_error_of(const Dual<long double>& x) { return x.value_error; }
double tangent_error_of(const Dual<long double>& x) { return x.tangent_error; }

bool can_be_exact(Descriptor& d) {  // of f64: identities hold to its rounding
  d.captures = {};
  return has_tangents(d) && d.dtype == DType::f64 && d.work() <= 1e5;
}

// <O', dO> + <lse', dlse> = <Q', dQ> + <K', dK> + ...: forward mode is the transpose of reverse.
TEST(TangentIdentities, ForwardModeIsAdjointToReverse) {
  for_gradient_problems(
      40, can_be_exact, [](const check::Case&, const GradientCase& g, Random& random) {
        const Motion motion(g, random);
        Moves moves(g);
        const Results got = moves.along(motion);
        const auto m = moved<long double>(g, motion, true);
        const auto errors = [](const std::vector<Dual<long double>>& numbers) {
          std::vector<double> all;
          for (const auto& x : numbers) all.push_back(x.tangent_error);
          return all;
        };
        Dot results;
        results.add(g.d_output, got.state.output, errors(m.output));
        results.add(g.d_lse, got.state.statistic, errors(m.lse));
        const Dot inputs = dot_of_inputs(motion, moves.gradients(), m, value_error_of);
        EXPECT_NEAR(results.sum, inputs.sum, results.allowed + inputs.allowed);
      });
}

// <u, H v> = <v, H u>, with the loss <dO, O> + <dlse, lse>.
TEST(TangentIdentities, HessianIsSymmetric) {
  for_gradient_problems(
      40, can_be_exact, [](const check::Case&, const GradientCase& g, Random& random) {
        Motion u(g, random), v(g, random);
        for (Motion* m : {&u, &v}) m->d_output = Tensor(), m->d_lse = Tensor();
        Moves moves(g);
        const Dot a = dot_of_inputs(u, moves.along(v).gradients, moved<long double>(g, v, true),
                                    tangent_error_of);
        const Dot b = dot_of_inputs(v, moves.along(u).gradients, moved<long double>(g, u, true),
                                    tangent_error_of);
        EXPECT_NEAR(a.sum, b.sum, a.allowed + b.allowed);
      });
}

// Calls visit(got, scaled) for every tensor of the results.
template <class Visit>
void for_each_result(const Results& a, const Results& b, const Visit& visit) {
  visit("output", a.state.output, b.state.output);
  visit("lse", a.state.statistic, b.state.statistic);
  visit("d_query", a.gradients.d_query, b.gradients.d_query);
  visit("d_key", a.gradients.d_key, b.gradients.d_key);
  visit("d_value", a.gradients.d_value, b.gradients.d_value);
  visit("d_bias", a.gradients.d_bias, b.gradients.d_bias);
  visit("d_scale", a.gradients.d_scale, b.gradients.d_scale);
  visit("d_score_parameters", a.gradients.d_score_parameters, b.gradients.d_score_parameters);
}

// Twice a direction, minus it, and every part of it alone: f32 is exact for a power of 2, and an
// absent tangent is one of zeros.
TEST(TangentIdentities, AreLinear) {
  const auto fits = [](Descriptor& d) {
    d.captures = {};
    return has_tangents(d) && d.dtype == DType::f32 && d.work() <= 3e5;
  };
  for_gradient_problems(40, fits, [](const check::Case&, const GradientCase& g, Random& random) {
    Motion motion(g, random);
    const auto scaled = [](const Tensor& t, double factor) {
      return t.defined() ? mapped(t, [&](double x, auto) { return factor * x; }) : Tensor();
    };
    const auto times = [&](const Motion& m, double factor, Random& unused) {
      Motion other(g, unused);
      other.query = scaled(m.query, factor), other.key = scaled(m.key, factor);
      other.value = scaled(m.value, factor), other.bias = scaled(m.bias, factor);
      other.d_output = scaled(m.d_output, factor), other.d_lse = scaled(m.d_lse, factor);
      other.scale = factor * m.scale, other.numbers = m.numbers;
      for (double& number : other.numbers) number *= factor;
      return other;
    };
    Moves moves(g);
    const Results one = moves.along(motion);
    for (const double factor : {2.0, -0.5})
      for_each_result(moves.along(times(motion, factor, random)), one,
                      [&](const char* name, const Tensor& got, const Tensor& expected) {
                        if (!got.defined()) return;
                        const std::vector<double> a = values_of(got), b = values_of(expected);
                        // Equal, except where subnormal numbers contribute: they are multiples of
                        // 2^-149, and a few thousand are multiplied by factors below 2^6.
                        for (size_t i = 0; i < a.size(); ++i)
                          ASSERT_NEAR(a[i], factor * b[i], 0x1p-130) << name << "[" << i << "]";
                      });
    // Absent, or zeros.
    Motion some = times(motion, 1, random), zeros = times(motion, 1, random);
    for (Tensor Motion::*part : {&Motion::query, &Motion::key, &Motion::value, &Motion::bias,
                                 &Motion::d_output, &Motion::d_lse})
      if ((motion.*part).defined() && random.chance(0.5))
        some.*part = Tensor(), zeros.*part = scaled(motion.*part, 0);
    for_each_result(moves.along(some), moves.along(zeros),
                    [&](const char* name, const Tensor& got, const Tensor& expected) {
                      if (got.defined()) {
                        EXPECT_EQ(values_of(got), values_of(expected)) << name;
                      }
                    });
  });
}

// A query without keys, and a key that is masked for every query: NaN in them and in all their
// tangents changes no bit of any other result, and their own results are 0.
TEST(TangentNaN, MaskedNeverShows) {
  Tensor allowed(DType::boolean, {70, 210});
  Random random(3);
  for_each_index(allowed.dims(), [&](auto at) {
    set(allowed, at, at[0] != 66 && at[1] != 199 && random.chance(0.6));
  });
  const rapt::Boolean mask(allowed);
  const Tensor clean[] = {random_normal(random, DType::f32, {2, 70, 6}),
                          random_normal(random, DType::f32, {2, 210, 6}),
                          random_normal(random, DType::f32, {2, 210, 5}),
                          random_normal(random, DType::f32, {2, 70, 5}),
                          random_normal(random, DType::f32, {2, 70, 6}),
                          random_normal(random, DType::f32, {2, 210, 6}),
                          random_normal(random, DType::f32, {2, 210, 5}),
                          random_normal(random, DType::f32, {2, 70, 5})};
  const Tensor bias = random_normal(random, DType::f32, {70, 210});
  const auto run = [&](const Tensor(&t)[8]) {
    AttentionOptions options;
    options.masks = {&mask};
    options.bias = bias;
    rapt::Softcap softcap(3);
    options.scores = {softcap};
    AttentionResult forward = scaled_dot_product_attention(t[0], t[1], t[2], options);
    rapt::InputTangents tangents;
    tangents.query = t[4], tangents.key = t[5], tangents.value = t[6], tangents.bias = bias;
    tangents.scale = 0.3;
    const double cap[] = {0.7};
    tangents.score_parameters = cap;
    rapt::BackwardInputs inputs{forward.state(), t[3], {}, {}};
    rapt::BackwardRequest request;
    request.bias = request.scale = request.score_parameters = true;
    return Results{rapt::attention_jvp(t[0], t[1], t[2], options, forward.state(), tangents),
                   rapt::attention_backward_jvp(t[0], t[1], t[2], options, inputs, tangents,
                                                {t[7], {}}, request)};
  };
  const auto poisoned = [&](const Tensor& t) {
    const int64_t row = t.dim(1) == 70 ? 66 : 199;
    return mapped(t, [&](double x, auto at) { return at[1] == row ? kNaN : x; });
  };
  const Tensor spoilt[] = {poisoned(clean[0]), poisoned(clean[1]), poisoned(clean[2]),
                           poisoned(clean[3]), poisoned(clean[4]), poisoned(clean[5]),
                           poisoned(clean[6]), poisoned(clean[7])};
  const Results got = run(spoilt), expected = run(clean);
  for_each_result(got, expected, [](const char* name, const Tensor& a, const Tensor& b) {
    EXPECT_TRUE(same_bits(a, b)) << name;
  });
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t d = 0; d < 5; ++d) {
      EXPECT_EQ(get(got.state.output, std::array{h, int64_t{66}, d}), 0);
      EXPECT_EQ(get(got.gradients.d_value, std::array{h, int64_t{199}, d}), 0);
    }
    EXPECT_EQ(get(got.state.statistic, std::array{h, int64_t{66}}), 0);
    EXPECT_EQ(get(got.gradients.d_query, std::array{h, int64_t{66}, int64_t{0}}), 0);
    EXPECT_EQ(get(got.gradients.d_key, std::array{h, int64_t{199}, int64_t{0}}), 0);
  }
}

// A NaN in one row of an input or of a tangent shows in the results of the queries that use the row
// and of the keys that these queries attend to, and in no other number.
TEST(TangentNaN, SeenShowsWhereItIsSeen) {
  Random random(4);
  const rapt::Causal causal;
  AttentionOptions options;
  options.masks = {&causal};
  const int64_t n = 130, at = 70;
  Tensor t[8];
  for (Tensor& x : t) x = random_normal(random, DType::f32, {n, 4});
  const auto run = [&] {
    AttentionResult forward = scaled_dot_product_attention(t[0], t[1], t[2], options);
    rapt::InputTangents tangents;
    tangents.query = t[4], tangents.key = t[5], tangents.value = t[6];
    return Results{
        rapt::attention_jvp(t[0], t[1], t[2], options, forward.state(), tangents),
        rapt::attention_backward_jvp(t[0], t[1], t[2], options, {forward.state(), t[3], {}, {}},
                                     tangents, {t[7], {}}, {})};
  };
  const Results clean = run();
  for (int spoilt = 0; spoilt < 8; ++spoilt) {
    SCOPED_TRACE(spoilt);
    float& number = t[spoilt].values<float>()[static_cast<size_t>(at * 4)];
    const float before = number;
    number = static_cast<float>(kNaN);
    const Results got = run();
    number = before;
    const bool query_side = spoilt % 4 == 0 || spoilt % 4 == 3;
    int64_t differ = 0;
    for (int64_t i = 0; i < n; ++i) {
      // Queries before the key do not attend to it; a NaN in a query affects that query alone.
      const bool hit = query_side ? i == at : i >= at;
      for (int64_t d = 0; d < 4; ++d) {
        const int64_t index[] = {i, d};
        const auto same = [&](const Tensor& a, const Tensor& b) {
          const auto bits = [&](const Tensor& of) {
            return std::bit_cast<uint32_t>(of.values<float>()[static_cast<size_t>(i * 4 + d)]);
          };
          return bits(a) == bits(b);
        };
        if (!hit) {
          ASSERT_TRUE(same(got.state.output, clean.state.output)) << i;
          ASSERT_TRUE(same(got.gradients.d_query, clean.gradients.d_query)) << i;
        }
        // With a NaN in query `at`, the keys after it are masked for it.
        if (query_side && i > at) {
          ASSERT_TRUE(same(got.gradients.d_key, clean.gradients.d_key)) << i;
          ASSERT_TRUE(same(got.gradients.d_value, clean.gradients.d_value)) << i;
        }
        differ += std::isnan(get(got.gradients.d_query, index));
      }
    }
    EXPECT_GT(differ, 0);
  }
}

TEST(TangentBits, AreThoseOfAnyNumberOfThreads) {
  for (const char* line :
       {"h3q300k500d16:f32:mask=causal:dropout=0.1:score=softcap(9):seed=1",
        "b2h4/2q100k200d8:bf16:key=[1,2]:bias=[1,200]:seed=2", "h2q200k150d4:f64:packed=5:seed=3",
        "q500k700d8:f32:bias=[1,1]:seed=4"}) {
    SCOPED_TRACE(line);
    const check::Case c(parse_descriptor(line));
    const GradientCase g(c);
    Random random(1);
    const Motion motion(g, random);
    Moves moves(g);
    Context one;
    one.threads = 1;
    const Results alone = moves.along(motion, one);
    for (const int threads : {2, 3, 7}) {
      if (RAPT_SANITIZED && threads != 3) continue;
      Threads executor(threads);
      Context context;
      context.executor = &executor;
      for_each_result(moves.along(motion, context), alone,
                      [&](const char* name, const Tensor& got, const Tensor& expected) {
                        if (got.defined()) {
                          EXPECT_TRUE(same_bits(got, expected)) << name;
                        }
                      });
    }
  }
}

// Three numbers per query and what blocks need: far less than the matrix.
TEST(TangentMemory, IsLinear) {
  const int64_t n = RAPT_SANITIZED ? 1024 : 4096;
  const std::string length = std::to_string(n);
  const check::Case c(parse_descriptor("q" + length + "k" + length + "d8:f32:seed=1"));
  const GradientCase g(c);
  Random random(1);
  const Motion motion(g, random);
  Moves moves(g);
  Context context;
  context.threads = 1;
  const int64_t results = 3 * n * 8 * 4, numbers = 3 * n * 4, scratch = 1 << 20;
  context.memory_limit = results + numbers + scratch;
  moves.along(motion, context);
  context.memory_limit = results;
  EXPECT_THROW(moves.along(motion, context), rapt::Error);
}

// A valid call, one part of which a test makes invalid.
struct Call {
  Tensor q = filled(DType::f32, {2, 5, 8}, 1), k = filled(DType::f32, {2, 7, 8}, 1),
         v = filled(DType::f32, {2, 7, 3}, 1), b = filled(DType::f32, {5, 7}, 0),
         d = filled(DType::f32, {2, 5, 3}, 1), l = filled(DType::f32, {2, 5}, 1);
  rapt::Softcap softcap{5};
  double cap[2] = {1, 1};
  AttentionOptions options;
  AttentionResult forward;
  rapt::BackwardInputs inputs;
  rapt::InputTangents tangents;
  rapt::OutputTangents outputs;
  rapt::BackwardRequest request;
  Context context;

  Call() {
    options.bias = b;
    options.scores = {softcap};
    forward = scaled_dot_product_attention(q, k, v, options);
    inputs = {forward.state(), d, l, {}};
    tangents.query = q, tangents.key = k, tangents.value = v, tangents.bias = b;
    tangents.score_parameters = {cap, 1};
    outputs = {d, l};
  }
  void forward_mode() const {
    rapt::attention_jvp(q, k, v, options, inputs.state, tangents, context);
  }
  void second() const {
    rapt::attention_backward_jvp(q, k, v, options, inputs, tangents, outputs, request, context);
  }
};

enum class Verbs : uint8_t { both, second };

void expect_refused(rapt::ErrorCode code, const char* fragment,
                    const std::function<void(Call&)>& spoil, Verbs verbs = Verbs::both) {
  SCOPED_TRACE(fragment);
  Call call;
  spoil(call);
  if (verbs == Verbs::both) expect_error(code, {fragment}, [&] { call.forward_mode(); });
  expect_error(code, {fragment}, [&] { call.second(); });
}

TEST(TangentBadInput, IsRefused) {
  using rapt::ErrorCode;
  Call().forward_mode();
  Call().second();
  static const Tensor wrong = filled(DType::f32, {2, 5, 4}, 0),
                      wide = filled(DType::f64, {2, 5, 8}, 0),
                      weights = filled(DType::f32, {2, 5, 7}, 0);
  expect_refused(ErrorCode::shape, "tangents.query", [](Call& c) { c.tangents.query = wrong; });
  expect_refused(ErrorCode::shape, "tangents.key", [](Call& c) { c.tangents.key = wrong; });
  expect_refused(ErrorCode::shape, "tangents.value", [](Call& c) { c.tangents.value = wrong; });
  expect_refused(ErrorCode::shape, "tangents.bias", [](Call& c) { c.tangents.bias = wrong; });
  expect_refused(ErrorCode::dtype, "tangents.query", [](Call& c) { c.tangents.query = wide; });
  expect_refused(ErrorCode::argument, "null data pointer",
                 [](Call& c) { c.tangents.query.data = nullptr; });
  expect_refused(ErrorCode::argument, "the options have no bias",
                 [](Call& c) { c.options.bias = {}; });
  expect_refused(ErrorCode::argument, "tangents.score_parameters has 2",
                 [](Call& c) { c.tangents.score_parameters = c.cap; });
  expect_refused(ErrorCode::argument, "tangents.score_parameters has 1",
                 [](Call& c) { c.options.scores = {}; });
  expect_refused(ErrorCode::argument, "tangents.scale", [](Call& c) { c.tangents.scale = kNaN; });
  expect_refused(ErrorCode::argument, "state.statistic is missing",
                 [](Call& c) { c.inputs.state.statistic = {}; });
  expect_refused(ErrorCode::argument, "state.output is missing",
                 [](Call& c) { c.inputs.state.output = {}; });
  expect_refused(ErrorCode::shape, "state.output", [](Call& c) { c.inputs.state.output = wrong; });
  expect_refused(ErrorCode::memory_limit, "the limit is 1",
                 [](Call& c) { c.context.memory_limit = 1; });
  expect_refused(
      ErrorCode::unsupported, "d_weights", [](Call& c) { c.inputs.d_weights = weights; },
      Verbs::second);
  expect_refused(
      ErrorCode::argument, "d_output is missing", [](Call& c) { c.inputs.d_output = {}; },
      Verbs::second);
  expect_refused(
      ErrorCode::shape, "output_tangents.d_output", [](Call& c) { c.outputs.d_output = wrong; },
      Verbs::second);
  expect_refused(
      ErrorCode::shape, "output_tangents.d_statistic",
      [](Call& c) { c.outputs.d_statistic = wrong; }, Verbs::second);
}

TEST(TangentsOfNothing, AreEmptyOrZero) {
  for (const char* line : {"h2q0k5d3:f32", "h2q5k0d3:f32", "b0h2q4k4d3:f32", "h2q4k4d3v0:f32"}) {
    SCOPED_TRACE(line);
    const check::Case c(parse_descriptor(line));
    const GradientCase g(c);
    Random random(1);
    const Results got = Moves(g).along(Motion(g, random));
    for (const Tensor* t : {&got.state.output, &got.state.statistic, &got.gradients.d_key})
      for (const double x : values_of(*t)) EXPECT_EQ(x, line[3] == '5' ? 0 : x);
  }
}

}  // namespace
}  // namespace laws
