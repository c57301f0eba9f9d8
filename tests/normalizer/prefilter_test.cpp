// Long calls of sparse normalisers skip scores that cannot matter
// (src/attention/tiles/prefilter.h). No bit of any result or gradient changes.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "gradients/gradient_problems.h"
#include "support/call.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

constexpr const char* kNormalizers[] = {"sparsemax", "entmax15", "entmax(1.25)",
                                        "top_k_softmax(8)"};
constexpr double kSpreads[] = {0.05, 1, 8};  // of scores
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int64_t product(const Dims& dims) {
  int64_t all = 1;
  for (const int64_t n : dims) all *= n;
  return all;
}

// The scale by which scores of normal rows have a standard deviation of `spread`.
double scale_of(const Descriptor& d, double spread) {
  const double root = std::sqrt(static_cast<double>(d.head_dim));
  return d.rows.cosine ? spread * root : spread / (root * d.magnitude * d.magnitude);
}

// Queries that calls without a prefilter can have: fewer than 64 for each matrix of keys.
int64_t queries_without(const Descriptor& d) {
  return std::max<int64_t>(1, 63 * product(d.key.leading) / product(d.leading));
}

struct Part {  // of the queries of a call, and the keys of their sequence
  int64_t begin, end, first_key, last_key;
  int64_t place;  // of `begin` in its sequence
};

// At most `most` queries of a sequence at a time.
std::vector<Part> parts_of(const Case& c, int64_t most) {
  const Descriptor& d = c.descriptor;
  std::vector<Part> parts;
  const auto add = [&](int64_t begin, int64_t end, int64_t first_key, int64_t last_key) {
    for (int64_t i = begin; i < end; i += most)
      parts.push_back({i, std::min(i + most, end), first_key, last_key, i - begin});
  };
  if (d.packed == 0) add(0, d.q_len, 0, d.k_len);
  for (size_t s = 0; s < static_cast<size_t>(d.packed); ++s) {
    const auto queries = c.query_starts.values<int64_t>(), keys = c.key_starts.values<int64_t>();
    add(queries[s], queries[s + 1], keys[s], keys[s + 1]);
  }
  return parts;
}

// Compares the whole call with that of a part, of dense queries and keys. (Values as they are laid
// out: sums of many weighted rows are made of other parts where rows have to be packed.)
void expect_bits_of_part(const Case& c, const AttentionResult& whole, const TensorView& value,
                         const Part& part, AttentionOptions options) {
  options.packed = {};
  rapt::RotaryPositions& turn = options.rotary.query;
  if (options.rotary.embedding) turn.start += part.place * turn.step;
  const AttentionResult alone =
      scaled_dot_product_attention(c.query.view().slice(-2, part.begin, part.end),
                                   c.key.view().slice(-2, part.first_key, part.last_key),
                                   value.slice(-2, part.first_key, part.last_key), options);
  SCOPED_TRACE(testing::Message() << "queries from " << part.begin << " to " << part.end
                                  << (options.bias.defined() ? " with a bias" : ""));
  EXPECT_TRUE(same_bits(whole.output.view().slice(-2, part.begin, part.end), alone.output));
  EXPECT_TRUE(same_bits(whole.statistic.view().slice(-1, part.begin, part.end), alone.statistic));
  if (options.weights) {
    EXPECT_TRUE(same_bits(whole.weights.view().slice(-2, part.begin, part.end), alone.weights));
  }
}

// The whole call has the bits of calls that have no prefilter: of few queries, and with a bias of
// zeros. Under a mask only the latter: positions of parts are others.
void expect_bits_without_prefilter(const Case& c, const Case::Inputs& inputs) {
  const Descriptor& d = c.descriptor;
  const Tensor zero = filled(d.dtype, {1, 1}, 0);
  for (const char* text : kNormalizers)
    for (const double spread : kSpreads) {
      SCOPED_TRACE(testing::Message() << text << ", spread " << spread);
      const rapt::MadeNormalizer made = rapt::make_normalizer(text);
      AttentionOptions options = c.options;
      options.normalizer = made.ref;
      options.scale = scale_of(d, spread);
      if (d.packed == 0) options.weights.emplace();
      const AttentionResult whole =
          scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, options);
      if (d.masks.empty())
        for (const Part& part : parts_of(c, queries_without(d)))
          expect_bits_of_part(c, whole, inputs.value, part, options);
      options.bias = zero;
      for (const Part& part : parts_of(c, d.q_len))
        expect_bits_of_part(c, whole, inputs.value, part, options);
      if (testing::Test::HasFailure()) return;
    }
}

// Each has a prefilter, where the machine has one: q_len of all heads that share keys at least 64
// per sequence, k_len at least 128.
const char* const kProblems[] = {
    "q64k128d16v5:seed=1",
    "q130k700d64:seed=2",
    "q257k385d1v3:seed=3",
    "h2q100k300d70v9:f16:seed=4",
    "h2q100k333d24:bf16:precision=fma:seed=5",
    "h8/2q40k301d33v7:seed=6",
    "h8/2q70k260d64v16:f16:mask=causal:seed=7",
    "b2h8/2q21k150d16:bf16:precision=fma:mask=lengths:seed=8",
    "b3h2q45k200d20v6:key=[2]:value=[2]:seed=9",
    "b3h2q70k200d20v6:key=[1,2]:seed=10",
    "b3h2q70k137d20v6:layout=dense,broadcast(0),dense:seed=11",
    "b2h2q90k210d12v6:layout=padded,broadcast(1),transposed:mask=boolean(0.4):seed=12",
    "h2q128k400d30v8:layout=transposed:seed=13",
    "h2q80k259d17v8:layout=interleaved,strided,negative:seed=14",
    "h2q80k259d17v8:f16:layout=negative:seed=15",
    "h2q80k259d17v8:bf16:layout=strided:precision=fma:seed=16",
    "b2h4/2q90k300d32v8:rows=rotary(query=3+1i):seed=17",
    ("b2h4/"
     "2q90k300d32v8:f16:mask=causal:rows=rotary(interleaved,dims=8,query=5+2i,key=1+2i):seed=18"),
    "q90k300d32v8:bf16:precision=fma:rows=rotary(query-only):seed=19",
    "h2q90k300d32v8:layout=transposed:rows=rotary:seed=20",
    "h2q90k300d24v8:rows=cosine:seed=21",
    "h4/1q60k200d24v8:f16:rows=cosine+rotary:seed=22",
    "q300k300d16v8:mask=causal:seed=23",
    "h2q70k500d16v8:mask=causal(bottom-right):seed=24",
    "q200k350d16v8:mask=window(150,20):seed=25",
    "q200k650d16v8:mask=window(7,9,bottom-right)|prefix(3):seed=26",
    "b3h2q80k290d40v8:mask=causal&lengths:seed=27",
    "b2q100k290d40v8:mask=boolean(0.1):seed=28",
    "q200k400d40v8:mask=documents(3):seed=29",
    "q200k400d40v8:mask=documents_by_starts(4):seed=30",
    "q300k700d24v8:packed=3:seed=31",
    "h4/2q300k700d24v8:f16:mask=causal:packed=5:seed=32",
    "b2q500k400d24v8:mask=window(40,40):rows=rotary:packed=3:seed=33",
};

TEST(Prefilter, ShowsInNoBit) {
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    expect_bits_without_prefilter(c, c.laid_out());
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Rows for which a prefilter has no bound, and rows far from their neighbours in a key group, with
// and without masks.
TEST(Prefilter, StrangeRowsDoNotMatter) {
  Random random(base_seed());
  for (const char* line :
       {"q150k450d24v8:seed=1", "q150k450d24v8:mask=causal:seed=2",
        "h4/2q70k333d9v3:f16:mask=window(60,90):seed=3", "q300k300d16v8:packed=2:seed=4",
        "h4/1q50k200d40v8:bf16:mask=boolean(0.2):precision=fma:seed=5"}) {
    SCOPED_TRACE(line);
    Case c(parse_descriptor(line));
    const auto spoil = [&](Tensor& rows, double chance, std::initializer_list<double> numbers) {
      Dims at(static_cast<size_t>(rows.rank()), 0);
      const int64_t length = rows.dim(-2);
      for (int64_t row = 0; row < length; ++row) {
        if (!random.chance(chance)) continue;
        at[at.size() - 2] = row;
        const double number = random.pick(numbers);
        const bool all = random.chance(0.5);
        for (int64_t d = 0; d < rows.dim(-1); ++d) {
          at.back() = d;
          if (all || d == row % rows.dim(-1)) set(rows, at, number);
        }
      }
    };
    spoil(c.key, 0.2, {0.0, 1e-30, 1e-44, 300.0, -5e4});
    expect_bits_without_prefilter(c, {c.query, c.key, c.value, {}});
    spoil(c.query, 0.2, {0.0, 1e-30, 1e-44, 1e4, HUGE_VAL, kNaN});
    expect_bits_without_prefilter(c, {c.query, c.key, c.value, {}});
    spoil(c.key, 0.02, {-HUGE_VAL, HUGE_VAL, kNaN, FLT_MAX});
    expect_bits_without_prefilter(c, {c.query, c.key, c.value, {}});
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

const char* const kTrained[] = {
    "q80k140d16v8:seed=1",
    "q100k500d33v9:mask=causal(bottom-right):seed=2",
    "h4/2q40k200d24v8:f16:seed=3",
    "h2q70k180d24v8:bf16:precision=fma:mask=causal:seed=4",
    "b2q70k260d12v8:key=[1]:layout=transposed:seed=5",
    "b2h2q70k200d16v8:mask=lengths:rows=cosine+rotary:seed=6",
    "q220k400d16v8:mask=causal:packed=3:seed=7",
};

void for_trained(const std::function<void(const Case&, const GradientCase&)>& law) {
  for (const char* line : kTrained)
    for (const char* text : kNormalizers)
      for (const double spread : kSpreads) {
        if (RAPT_SANITIZED && spread != 1) continue;
        Descriptor d = parse_descriptor(std::string(line) + ":norm=" + text);
        d.scale = scale_of(d, spread);
        const Case c(d);
        SCOPED_TRACE("rapt check '" + to_string(d) + "'");
        const GradientCase g(c);
        law(c, g);
        if (testing::Test::HasFailure()) return;
      }
}

TEST(Prefilter, ResultsAndGradientsAgreeWithTheReference) {
  for_trained([](const Case& c, const GradientCase& g) {
    const Comparison forward = compare(c, run(c));
    EXPECT_TRUE(forward.ok()) << forward.failures();
    const Comparison backward = compare(g, run_backward(g));
    EXPECT_TRUE(backward.ok()) << backward.failures();
  });
}

TEST(Prefilter, GradientsHaveTheBitsOfAnyPassesAndThreads) {
  for_trained([](const Case& c, const GradientCase& g) {
    Forward f(c);
    BackwardRequest request = g.request();
    const BackwardInputs inputs = g.inputs(f.result.state());
    Context one, three;
    one.threads = 1, three.threads = 3;
    const rapt::Gradients expected = backward(f, inputs, request, one);
    EXPECT_TRUE(same_gradients(backward(f, inputs, request, three), expected)) << "three threads";
    request.passes = BackwardPasses::two;
    EXPECT_TRUE(same_gradients(backward(f, inputs, request, one), expected)) << "two passes";
    EXPECT_TRUE(same_gradients(backward(f, inputs, request, three), expected))
        << "two passes of three threads";
    for (const Context& context : {one, three})
      EXPECT_TRUE(same_results(
          scaled_dot_product_attention(f.in.query, f.in.key, f.in.value, f.options, context),
          f.result));
  });
}

}  // namespace
}  // namespace laws
