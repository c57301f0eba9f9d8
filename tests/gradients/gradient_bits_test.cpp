// Laws of gradients that hold bit by bit: neither threads, nor passes, nor the rest of the batch
// change a bit.
#include <gtest/gtest.h>

#include "gradients/gradient_problems.h"
#include "support/executors.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

bool any(Descriptor&) { return true; }

// The gradients that both numbers of passes support: not those of relative positions, nor that of
// the scale where query_rows take part in it.
BackwardRequest request_of_two_passes(const GradientCase& g) {
  BackwardRequest request = g.request();
  request.relative = false;
  request.scale &= !g.c.descriptor.relative[RelativeSpec::queries].there;
  return request;
}

// One thread that works as two workers in turn, and says whether there were tasks for both.
class TwoInTurn final : public rapt::Executor {
 public:
  int concurrency() const noexcept override { return 2; }
  void run(int64_t tasks, Task task, void* argument) override {
    shared_ |= tasks > 1;
    for (int64_t t = 0; t < tasks; ++t) task(argument, t, static_cast<int>(t % 2));
  }
  bool shared() const { return shared_; }

 private:
  bool shared_ = false;
};

// PyTorch #88718, FlashAttention #384: gradients that depended on threads, or changed between runs.
TEST(GradientBits, reg_thread_count_bits) {
  // Few others have several tasks: a head is one, up to a thousand keys or so, and heads that share
  // a table are one, too.
  const auto mostly_shared = [](Descriptor& d) {
    return (d.heads() > 1 && !d.relative.any()) || d.seed % 8 == 0;
  };
  int shared = 0;
  const auto law = [&](const Case& c, const GradientCase& g, Random& random) {
    Forward f(c);
    Context one;
    one.threads = 1;
    const rapt::Gradients alone = backward(f, g, one);
    TwoInTurn two;
    Context in_turn;
    in_turn.executor = &two;
    EXPECT_TRUE(same_gradients(backward(f, g, in_turn), alone)) << "by two workers in turn";
    shared += two.shared();
    for_each_executor(random, [&](const Context& context) {
      EXPECT_TRUE(same_gradients(backward(f, g, context), alone));
    });
    EXPECT_TRUE(same_gradients(backward(f, g), alone)) << "by the library's own threads";
    EXPECT_TRUE(same_gradients(backward(f, g), alone)) << "not the same again";
  };
  for_gradient_problems(40, mostly_shared, law, Work::shared);
  if (!HasFailure() && problem_count(40) >= 40) {
    EXPECT_GE(shared, 20) << "too little work";
  }
}

// Lengths of several chunks of keys and segments of queries, for all numbers of threads.
const char* const kLong[] = {
    "q700k900d16:mask=causal(bottom-right):dropout=0.1,7:score=softcap(20):seed=1",
    "h1q1500k1500d8:bias=[1,1500]:seed=2",
    "h4/2q300k777d12v5:bf16:mask=window(200,40):seed=3",
    "h3/1q1030k17d8:f16:backward=f32:seed=4",
    "b2h2q500k600d4:f64:packed=7:mask=causal:backward=lse:seed=5",
    "[2]h2q400k300d8:query=[1,1]:mask=boolean(0.3,[1,300]):weights(10..20):seed=6",
    "q1100k1301d13v7:bf16:mask=window(200,41):seed=7",
    "q1031k1057d16v5:bf16:mask=causal(bottom-right):dropout=0.1,7:score=softcap(20):bias=[1,1057]:"
    "seed=8",
    "h4/2q1537k1793d2v3:bf16:mask=window(201,40):backward=lse:seed=9",
    "h4/2q500k700d8:relative=keys[]+values(33):mask=causal(bottom-right):seed=10",
    "h1q1100k1301d16:bf16:relative=keys+content[]+position(1301,center=1300,bottom-right):seed=11",
    "b2h2q600k500d4v3:f16:packed=3:relative=keys[2]+queries[]+values(64,log=8..128):seed=12",
    "q1100k1102d8:mask=window(9,9):relative=keys+queries(2201):seed=13",
    "h4/2q700k1100d6v5:relative=keys+queries+values+content+position(65):mask=causal(bottom-right):"
    "seed=14",
};

TEST(GradientBits, OfAllNumbersOfThreads) {
  for (const char* line : kLong) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const GradientCase g(c);
    Forward f(c);
    Context one;
    one.threads = 1;
    const rapt::Gradients alone = backward(f, g, one);
    for (const int threads : {2, 3, 4, 5, 7, 8, 12, 16, 31, 33, 64}) {
      if (RAPT_SANITIZED && threads != 3) continue;
      Threads executor(threads);
      Context context;
      context.executor = &executor;
      EXPECT_TRUE(same_gradients(backward(f, g, context), alone)) << threads << " threads";
    }
    Shuffled shuffled(5, 13);
    Context context;
    context.executor = &shuffled;
    EXPECT_TRUE(same_gradients(backward(f, g, context), alone)) << "in another order";
    context = {};  // the library's own threads
    EXPECT_TRUE(same_gradients(backward(f, g, context), alone));

    BackwardRequest request = request_of_two_passes(g);
    const rapt::Gradients in_one = backward(f, g.inputs(f.result.state()), request);
    request.passes = BackwardPasses::two;
    EXPECT_TRUE(same_gradients(backward(f, g.inputs(f.result.state()), request), in_one))
        << "in two passes";
    Threads four(4);
    context.executor = &four;
    EXPECT_TRUE(same_gradients(backward(f, g.inputs(f.result.state()), request, context), in_one))
        << "in two passes of four threads";
  }
}

TEST(GradientBits, OfTwoPassesAreThoseOfOne) {
  for_gradient_problems(400, any, [](const Case& c, const GradientCase& g, Random&) {
    Forward f(c);
    BackwardRequest request = request_of_two_passes(g);
    request.passes = BackwardPasses::one;
    const rapt::Gradients one = backward(f, g.inputs(f.result.state()), request);
    request.passes = BackwardPasses::two;
    EXPECT_TRUE(same_gradients(backward(f, g.inputs(f.result.state()), request), one));
  });
}

// Requesting other gradients changes no bit of one.
TEST(GradientBits, OfSomeAreThoseOfAll) {
  for_gradient_problems(150, any, [](const Case& c, const GradientCase& g, Random& random) {
    Forward f(c);
    const BackwardInputs inputs = g.inputs(f.result.state());
    rapt::Gradients all = backward(f, g);
    BackwardRequest request = g.request();
    for (bool* wanted :
         {&request.query, &request.key, &request.value, &request.bias, &request.scale,
          &request.score_parameters, &request.normalizer_parameters, &request.relative})
      *wanted = *wanted && random.chance(0.5);
    const rapt::Gradients some = backward(f, inputs, request);
    const auto same = [](const char* name, const Tensor& got, const Tensor& of_all, bool wanted) {
      ASSERT_EQ(got.defined(), wanted) << name;
      if (wanted) {
        EXPECT_TRUE(same_bits(got, of_all)) << name;
      }
    };
    same("d_query", some.d_query, all.d_query, request.query);
    same("d_key", some.d_key, all.d_key, request.key);
    same("d_value", some.d_value, all.d_value, request.value);
    same("d_bias", some.d_bias, all.d_bias, request.bias);
    same("d_scale", some.d_scale, all.d_scale, request.scale);
    same("d_score_parameters", some.d_score_parameters, all.d_score_parameters,
         request.score_parameters);
    same("d_normalizer_parameters", some.d_normalizer_parameters, all.d_normalizer_parameters,
         request.normalizer_parameters);
    for (const auto& [name, tensor, output] : std::span(kGradientTensors).last<5>())
      same(name, some.*tensor, all.*tensor, request.relative && (all.*tensor).defined());
  });
}

// The caller's memory: workspace of the promised size at any address and full of NaN, gradients
// full of NaN. Nothing beside them is touched.
TEST(GradientBits, IntoTheCallersMemory) {
  for_gradient_problems(200, any, [](const Case& c, const GradientCase& g, Random& random) {
    Forward f(c);
    const rapt::Gradients expected = backward(f, g);
    rapt::Gradients got = spoilt_like(expected);
    Threads threads(static_cast<int>(random.between(1, 4)));
    Context context;
    if (random.chance(0.7)) context.executor = &threads;
    const size_t bytes = rapt::backward_workspace_bytes(f.in.query, f.in.key, f.in.value, f.options,
                                                        g.request(), context);
    constexpr size_t kCanary = 64;
    const auto shift = static_cast<size_t>(random.between(0, 63));
    std::vector<std::byte> memory(bytes + shift + 2 * kCanary, std::byte{0xff});
    const std::span<std::byte> workspace(memory.data() + kCanary + shift, bytes);
    const auto call = [&](std::span<std::byte> scratch) {
      scaled_dot_product_attention_backward(f.in.query, f.in.key, f.in.value, f.options,
                                            g.inputs(f.result.state()), g.request(),
                                            outputs_of(got), scratch, context);
    };
    if (bytes > 0) {
      EXPECT_THROW(call(workspace.first(bytes - 1)), rapt::Error);
      EXPECT_TRUE(same_gradients(got, spoilt_like(expected))) << "written in spite of the error";
    }
    call(workspace);
    EXPECT_TRUE(same_gradients(got, expected));
    for (size_t i = 0; i < memory.size(); ++i)
      if (i < kCanary + shift || i >= kCanary + shift + bytes) {
        ASSERT_EQ(memory[i], std::byte{0xff}) << "byte " << i << " of " << bytes;
      }
  });
}

// Sums must read only what the call has written: an addition turns the signalling NaNs that fill
// the workspace into quiet ones, so a sum beyond the end of its array is detected.
TEST(GradientBits, NothingIsAddedToWhatNobodyWrote) {
  constexpr uint32_t kSignalling = 0x7fa00000, kQuiet = 0x7fe00000;  // f32
  for (const char* line : {"q8k10d64:relative=keys+queries(33):seed=1",
                           "h2q70k101d8:relative=keys+queries+values(200):mask=causal:seed=2",
                           "q13k3d5:bf16:relative=queries(64,center=20,bottom-right):seed=3"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const GradientCase g(c);
    Forward f(c);
    rapt::Gradients got = spoilt_like(backward(f, g));
    std::vector<uint32_t> workspace(
        rapt::backward_workspace_bytes(f.in.query, f.in.key, f.in.value, f.options, g.request()) /
                sizeof(uint32_t) +
            1,
        kSignalling);
    scaled_dot_product_attention_backward(f.in.query, f.in.key, f.in.value, f.options,
                                          g.inputs(f.result.state()), g.request(), outputs_of(got),
                                          std::as_writable_bytes(std::span(workspace)));
    EXPECT_EQ(std::ranges::count(workspace, kQuiet), 0);
  }
}

// Inputs of any strides, and gradients, state and d_output too.
TEST(GradientBits, StridedIsContiguous) {
  for_gradient_problems(200, any, [](const Case& c, const GradientCase& g, Random& random) {
    Forward f(c);
    const rapt::Gradients expected = backward(f, g);
    const auto layout = [&] { return static_cast<Layout>(random.between(0, kLayouts - 1)); };
    const Strided output(f.result.output, layout()), lse(f.result.statistic, layout()),
        d_output(g.d_output, layout());
    BackwardInputs inputs = g.inputs(f.result.state());
    inputs.state.output = output;
    inputs.state.statistic = lse;
    inputs.d_output = d_output;
    AttentionOptions options = c.options;  // over the dense bias and tables
    options.weights = f.options.weights;
    EXPECT_TRUE(same_gradients(scaled_dot_product_attention_backward(c.query, c.key, c.value,
                                                                     options, inputs, g.request()),
                               expected))
        << "dense inputs, strided state";
    const auto spread = [&](const Tensor& t) { return Strided(t, layout()); };
    const rapt::Gradients nan = spoilt_like(expected);
    const Strided d_query = spread(nan.d_query), d_key = spread(nan.d_key),
                  d_value = spread(nan.d_value);
    rapt::Gradients rest = spoilt_like(expected);
    GradientOutputs outputs = outputs_of(rest);
    outputs.d_query = d_query;
    outputs.d_key = d_key;
    outputs.d_value = d_value;
    for (TensorView* t : {&outputs.d_query, &outputs.d_key, &outputs.d_value}) t->read_only = false;
    std::vector<std::byte> workspace(
        rapt::backward_workspace_bytes(f.in.query, f.in.key, f.in.value, f.options, g.request()));
    scaled_dot_product_attention_backward(f.in.query, f.in.key, f.in.value, f.options,
                                          g.inputs(f.result.state()), g.request(), outputs,
                                          workspace);
    EXPECT_TRUE(same_bits(outputs.d_query, expected.d_query));
    EXPECT_TRUE(same_bits(outputs.d_key, expected.d_key));
    EXPECT_TRUE(same_bits(outputs.d_value, expected.d_value));
  });
}

// One entry of a leading dimension alone has the bits that it has in the batch.
TEST(GradientBits, AloneOrInABatch) {
  const auto separate = [](Descriptor& d) {
    const bool whole = !d.leading.empty() && d.query.leading == d.leading &&
                       d.key.leading == d.leading && d.value.leading == d.leading && d.heads() > 0;
    // Not for dropout, which counts heads in the call, nor for masks and biases of the batch.
    d.dropout = 0;
    d.dropout_seed = 0;
    d.has_bias = false;
    d.bias = {};
    d.bias_dims = {};
    d.excluded_by_bias = 0;
    d.bias_dtype.reset();
    d.captures.weights.reset();
    for (RelativeTable& table : d.relative.tables) table.leading.clear();  // one for all heads
    for (Side* side : {&d.query, &d.key, &d.value}) side->repeated = -1;
    // Nor for BigBird, whose random blocks follow from the number of the head.
    return whole && std::ranges::none_of(d.masks, &MaskSpec::holds_tensor) &&
           to_string(d).find("bigbird") == std::string::npos;
  };
  for_gradient_problems(150, separate, [](const Case& c, const GradientCase& g, Random& random) {
    const Descriptor& d = c.descriptor;
    const int dim = static_cast<int>(random.between(0, static_cast<int64_t>(d.leading.size()) - 1));
    const Dims one{random.between(0, d.leading[static_cast<size_t>(dim)] - 1)};
    Forward f(c);
    BackwardRequest request = g.request();
    request.scale = request.score_parameters = request.normalizer_parameters = request.relative =
        false;  // sums over the batch
    const BackwardInputs inputs = g.inputs(f.result.state());
    const rapt::Gradients whole = backward(f, inputs, request);
    const Tensor output = taken(f.result.output, dim, one),
                 lse = taken(f.result.statistic, dim, one), d_output = taken(g.d_output, dim, one);
    BackwardInputs part;
    part.state.output = output;
    part.state.statistic = lse;
    part.d_output = d_output;
    Tensor d_lse;
    if (g.d_lse.defined()) {
      d_lse = taken(g.d_lse, dim, one);
      part.d_statistic = d_lse;
    }
    const Tensor query = taken(c.query, dim, one), key = taken(c.key, dim, one),
                 value = taken(c.value, dim, one);
    // Parameters per head are those of the part.
    std::vector<ScoreSpec> specs = d.scores;
    std::vector<Tensor> numbers;
    std::vector<rapt::MadeScore> scores;
    for (ScoreSpec& spec : specs) {
      for (check::LearnedParameter& parameter : spec.learned) {
        if (parameter.own_rank < 0) continue;
        const int at =
            dim + parameter.numbers.rank - parameter.own_rank - static_cast<int>(d.leading.size());
        if (at < 0 || parameter.dims[static_cast<size_t>(at)] == 1) continue;
        numbers.push_back(taken(parameter.numbers, at, one));
        parameter.numbers = numbers.back();
      }
      scores.push_back(made(spec));
    }
    AttentionOptions options = c.options;
    options.scores = refs_of(scores);
    const rapt::Gradients alone =
        scaled_dot_product_attention_backward(query, key, value, options, part, request);
    EXPECT_TRUE(same_bits(alone.d_query, taken(whole.d_query, dim, one)));
    EXPECT_TRUE(same_bits(alone.d_key, taken(whole.d_key, dim, one)));
    EXPECT_TRUE(same_bits(alone.d_value, taken(whole.d_value, dim, one)));
  });
}

// Scaling the output gradient by a power of two scales every gradient by it.
TEST(GradientBits, PowerOfTwoOnWhatComesFromBehind) {
  const auto far_from_limits = [](Descriptor& d) {
    // Denormal numbers, such as weights far below the largest, do not scale bit by bit.
    if (std::ranges::any_of(d.scores,
                            [](const ScoreSpec& score) { return score.name() == "alibi"; }))
      return false;  // far from the diagonal all weights are
    return d.dtype != DType::f16 && d.magnitude <= 1 && std::abs(d.scale.value_or(1)) <= 1;
  };
  for_gradient_problems(
      150, far_from_limits, [](const Case& c, const GradientCase& g, Random& random) {
        const double factor = random.pick({8.0, 1024.0, 0.25, -2.0});
        const auto scaled = [&](const Tensor& t) {
          return t.defined() ? mapped(t, [&](double x, auto) { return factor * x; }) : Tensor{};
        };
        Forward f(c);
        const Tensor d_output = scaled(g.d_output), d_lse = scaled(g.d_lse),
                     d_weights = scaled(g.d_weights);
        BackwardInputs inputs = g.inputs(f.result.state());
        const rapt::Gradients once = backward(f, inputs, g.request());
        inputs.d_output = d_output;
        if (d_lse.defined()) inputs.d_statistic = d_lse;
        if (d_weights.defined()) inputs.d_weights = d_weights;
        const rapt::Gradients got = backward(f, inputs, g.request());
        // Zeros may have either sign.
        const auto positive = [](const Tensor& t, double by) {
          return t.defined() ? mapped(t, [&](double x, auto) { return x == 0 ? 0 : by * x; })
                             : Tensor{};
        };
        const auto normal = [&](const rapt::Gradients& all, double by) {
          rapt::Gradients mapped_all;
          for (const auto& [name, tensor, output] : kGradientTensors)
            mapped_all.*tensor = positive(all.*tensor, by);
          return mapped_all;
        };
        EXPECT_TRUE(same_gradients(normal(got, 1), normal(once, factor)));
      });
}

}  // namespace
}  // namespace laws
