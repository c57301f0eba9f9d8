// The reference of the gradients against finite differences of the reference of the forward pass,
// element by element, and its own derivative (the Hessian) against second differences.
//
// Everything is long double: with a stencil of four points and a step of 2^-10 the truncation is
// some 1e-12 of the gradient and the rounding 1e-16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "check/compare/case.h"
#include "check/reference/backward_reference.h"

namespace check {
namespace {

constexpr double kStep = 0x1p-10;
constexpr double kAllowed = 1e-8;  // of the largest gradient of the tensor

// A case in f64 whose inputs, scale and cap may be moved, with random gradients of its results.
struct Loss {
  Case c;
  Problem problem;
  Incoming incoming;
  Tensor d_output, d_lse, d_weights;

  Loss(const std::string& line, double dropout = 0, bool with_lse = true, bool with_weights = true)
      : c(parse_descriptor(line)), problem(c.for_reference()) {
    const Descriptor& d = c.descriptor;
    Random random(d.seed + 77);
    Dims dims = d.leading;
    dims.push_back(d.q_len);
    d_lse = random_normal(random, DType::f64, dims);
    dims.push_back(d.value_dim);
    d_output = random_normal(random, DType::f64, dims);
    incoming.d_output = d_output;
    if (with_lse) incoming.d_lse = d_lse;
    if (with_weights) give_weights(random);
    problem.dropout = dropout;
    problem.dropout_seed = d.seed;
    problem.scale = d.scale.value_or(1 / std::sqrt(static_cast<double>(d.head_dim)));
  }

  // The variables of the loss: every element of every input, the scale, the cap.
  std::vector<double*> variables() {
    std::vector<double*> all;
    for (Tensor* t : {&c.query, &c.key, &c.value, &c.bias})
      if (t->defined())
        for (double& x : t->values<double>()) all.push_back(&x);
    all.push_back(&*problem.scale);
    for (const ScoreSpec& score : problem.scores)
      for (const LearnedParameter& parameter : score.learned)
        for (int64_t n = 0; n < parameter.numbers.count(); ++n)
          all.push_back(static_cast<double*>(parameter.numbers.data) + n);
    for (Tensor& table : c.relative_tables)
      for (double& x : table.values<double>()) all.push_back(&x);
    return all;
  }

  // In the order of variables().
  std::vector<long double> gradient() const {
    const Gradients<long double> g = gradients<long double>(problem, incoming);
    std::vector<long double> all;
    for (const auto* t : {&g.query, &g.key, &g.value, &g.bias})
      all.insert(all.end(), t->begin(), t->end());
    all.push_back(g.scale);
    all.insert(all.end(), g.numbers.begin(), g.numbers.end());
    for (const auto& table : g.relative) all.insert(all.end(), table.begin(), table.end());
    return all;
  }

  long double value() const {
    const Result<long double> r = attention<long double>(problem);
    long double sum = 0;
    const auto add = [&](const TensorView& t, const std::vector<long double>& of) {
      const std::vector<double> factors = values_of(t);
      for (size_t i = 0; i < of.size(); ++i)
        // A row without keys has an lse of -inf, and no gradient.
        if (std::isfinite(of[i])) sum += factors[i] * of[i];
    };
    add(incoming.d_output, r.output);
    if (incoming.d_lse.defined()) add(incoming.d_lse, r.lse);
    if (!incoming.d_weights.defined()) return sum;
    const WeightsWanted& w = incoming.weights;
    const Dims heads = w.heads.empty() ? counted(r.sizes.heads) : w.heads;
    Dims rows = w.rows;
    for (int64_t i = w.begin; w.rows.empty() && i < (w.end < 0 ? r.sizes.q_len : w.end); ++i)
      rows.push_back(i);
    size_t place = 0;
    const std::vector<double> factors = values_of(incoming.d_weights);
    for (const int64_t h : heads)
      for (const int64_t i : rows)
        for (int64_t j = 0; j < r.sizes.k_len; ++j)
          sum += factors[place++] *
                 r.weights[static_cast<size_t>((h * r.sizes.q_len + i) * r.sizes.k_len + j)];
    return sum;
  }

 private:
  static Dims counted(int64_t n) {
    Dims all;
    for (int64_t i = 0; i < n; ++i) all.push_back(i);
    return all;
  }

  void give_weights(Random& random) {
    const Descriptor& d = c.descriptor;
    incoming.weights = d.captures.weights.value_or(WeightsWanted{});
    const WeightsWanted& w = incoming.weights;
    const int64_t rows = !w.rows.empty() ? static_cast<int64_t>(w.rows.size())
                                         : (w.end < 0 ? d.q_len : w.end) - w.begin;
    Dims dims = w.heads.empty() ? d.leading : Dims{static_cast<int64_t>(w.heads.size())};
    dims.insert(dims.end(), {rows, d.k_len});
    d_weights = random_normal(random, DType::f64, dims);
    incoming.d_weights = d_weights;
  }
};

// The derivative at 0 of f(t), by four points.
template <class Function>
long double derivative(const Function& f) {
  const long double h = kStep;
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

long double largest(const std::vector<long double>& values) {
  long double most = 0;
  for (const long double x : values) most = std::max(most, std::abs(x));
  return most;
}

void expect_differences_agree(Loss& loss) {
  const std::vector<long double> gradient = loss.gradient();
  const std::vector<double*> variables = loss.variables();
  ASSERT_EQ(gradient.size(), variables.size());
  const long double most = largest(gradient);
  ASSERT_GT(most, 0);
  for (size_t n = 0; n < variables.size() && !testing::Test::HasFailure(); ++n) {
    const double at = *variables[n];
    if (std::isinf(at)) {  // the bias excludes the pair
      EXPECT_EQ(gradient[n], 0);
      continue;
    }
    // Exact but for the last bit of the double: 1e-13 of the step.
    const auto moved = [&](double by) {
      *variables[n] = at + by;
      const long double value = loss.value();
      *variables[n] = at;
      return value;
    };
    const long double difference =
        (8 * (moved(kStep) - moved(-kStep)) - (moved(2 * kStep) - moved(-2 * kStep))) /
        (12 * kStep);
    EXPECT_NEAR(static_cast<double>(gradient[n]), static_cast<double>(difference),
                kAllowed * static_cast<double>(most))
        << "variable " << n;
  }
}

const char* const kProblems[] = {
    "q3k4d2:f64:seed=1",
    "q3k4d2v5:f64:seed=2",
    "h4/2q3k3d2:f64:mask=causal:seed=3",
    "b2h3/1q2k3d2:f64:seed=4",
    "[2]h2q2k3d2:f64:query=[1,1]:seed=5",
    "[2]h2q2k3d2:f64:key=[2]:value=[1,2]:seed=6",
    "[2,1]h4/2q2k3d2:f64:mask=boolean(0.6):seed=7",
    "h2q4k5d3:f64:score=softcap(1.5):seed=8",
    "h2q4k5d3:f64:score=softcap(0.7):bias:scale=2:seed=9",
    "b2h2q4k5d3:f64:score=kerple_log(bottom-right):seed=33",
    "h2q4k5d3:f64:bias=0.3,before:score=softcap(0.7),head_scale:seed=22",
    "b2h2q3k4d2:f64:bias=[1,4],before:score=softcap(2):mask=causal(1):seed=23",
    "b2h2q3k4d2:f64:bias=[2,3,4]:seed=10",
    "b2h2q3k4d2:f64:bias=[2,1,3,4]:seed=11",
    "b2h2q3k4d2:f64:bias=[3,1]:seed=12",
    "b2h2q3k4d2:f64:bias=[1,4]:mask=window(1,1):seed=13",
    "h2q4k6d2:f64:bias=0.4:seed=14",
    "h2q4k5d2:f64:scale=-0.8:seed=15",
    "h2q4k5d2:f64:scale=0:seed=16",
    "h2q9k11d2:f64:mask=causal:packed=3:seed=17",
    "h2q5k3d2:f64:mask=causal(-2):seed=18",
    "h2q4k4d2:f64:weights(1..3):seed=19",
    "h3q4k4d2:f64:weights([3,0,3],heads=[2,2,0]):seed=20",
    "h2q4k5d2:f64:mask=documents(2)&!causal(-1):seed=21",
    "h2q4k5d2v3:f64:relative=keys+values(3):seed=22",
    "b2h4/2q3k5d2:f64:mask=causal(1):relative=keys[1]+queries[]+values[2,1](4):seed=23",
    "h2q4k4d2:f64:relative=keys+content+position[](4,center=3,bottom-right):seed=24",
    ("b2h2q3k2d2:f64:relative=keys[2,2]+queries+values+content[]+position[2,1](5):score=softcap(2):"
     "seed=25"),
    "h2q9k11d2:f64:mask=causal(bottom-right):packed=3:relative=keys+values(4,bottom-right):seed=26",
    "q9k12d2:f64:relative=keys+queries(9,log=2..12):seed=27",
    "h2q4k5d2:f64:relative=content:bias:seed=28",
    "h2q4k4d2:f64:weights(1..3):relative=keys+values+content(3,center=0):seed=29",
    "h4/2q3k5d4:f64:rows=rotary(query=3):mask=causal(1):seed=30",
    "b2h2q3k4d5:f64:rows=rotary(interleaved,dims=4,magnitude=1.5,key=-2+3i):seed=31",
    "h2q4k3d4:f64:rows=rotary(query=2,query-only):bias:seed=32",
    "h2q9k11d2:f64:rows=rotary(theta=3):mask=causal:packed=3:seed=33",
    "b2h3/1q2k3d3:f64:rows=cosine:scale=3:seed=34",
    "[2]h2q3k4d3:f64:query=[1,1]:rows=cosine(1.5):scale=3:score=softcap(2):seed=35",
    "h2q3k4d5:f64:rows=cosine(1)+rotary(dims=2,key=4):scale=3:weights(1..3):seed=36",
};

TEST(FiniteDifferences, OfEveryInputAndOption) {
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    Loss loss(line);
    // Weights of packed sequences are not returned.
    if (loss.c.descriptor.packed > 0) loss.incoming.d_weights = {};
    expect_differences_agree(loss);
  }
}

TEST(FiniteDifferences, OfEachGradientGiven) {
  for (const bool lse : {false, true})
    for (const bool weights : {false, true}) {
      SCOPED_TRACE(testing::Message() << "d_lse " << lse << ", d_weights " << weights);
      Loss loss("h2q4k5d3:f64:score=softcap(2):bias:mask=boolean(0.7):seed=31", 0, lse, weights);
      expect_differences_agree(loss);
    }
}

TEST(FiniteDifferences, OfDropout) {
  for (const char* line : {"h4/2q4k5d2:f64:mask=causal(1):seed=41", "h2q4k5d3v1:f64:bias:seed=42",
                           "h2q4k5d3:f64:score=softcap(1.2):seed=43"}) {
    SCOPED_TRACE(line);
    Loss loss(line, 0.3);
    expect_differences_agree(loss);
  }
}

// u H v by differences of the gradient along v equals v H u, and the second difference of the loss.
TEST(SecondOrder, HessianIsThatOfTheLoss) {
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    Loss loss(line, 0.2);
    if (loss.c.descriptor.packed > 0) loss.incoming.d_weights = {};
    const std::vector<double*> variables = loss.variables();
    std::vector<double> at;
    for (const double* x : variables) at.push_back(*x);
    Random random(5);
    std::vector<double> u, v;
    for (size_t n = 0; n < at.size(); ++n) {
      u.push_back(random.normal());
      v.push_back(random.normal());
    }
    const auto move = [&](long double by_u, long double by_v) {
      for (size_t n = 0; n < at.size(); ++n)
        *variables[n] = static_cast<double>(at[n] + by_u * u[n] + by_v * v[n]);
    };
    const auto along = [&](const std::vector<double>& direction) {
      long double sum = 0;
      const std::vector<long double> gradient = loss.gradient();
      for (size_t n = 0; n < at.size(); ++n) sum += gradient[n] * direction[n];
      return sum;
    };
    const long double u_of_v = derivative([&](long double t) {
      move(0, t);
      return along(u);
    });
    const long double v_of_u = derivative([&](long double t) {
      move(t, 0);
      return along(v);
    });
    const long double of_loss = derivative([&](long double s) {
      return derivative([&](long double t) {
        move(s, t);
        return loss.value();
      });
    });
    move(0, 0);
    const double allowed = 1e-7 * std::max(1.0, static_cast<double>(std::abs(u_of_v)));
    EXPECT_NEAR(static_cast<double>(u_of_v), static_cast<double>(v_of_u), allowed);
    EXPECT_NEAR(static_cast<double>(u_of_v), static_cast<double>(of_loss), allowed);
  }
}

}  // namespace
}  // namespace check
