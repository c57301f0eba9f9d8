// Conformer blocks: gradients against central differences, values against their formula, bits,
// memory, what reads which position, and what is rejected.
#include "rapt/nn/conformer_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "memory/allocation_hooks.h"
#include "nn/blocks/scale_dense.h"
#include "nn/elements.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "rapt/nn/init.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using nn::ConvPadding;

struct ConformerSizes {
  int64_t batch = 2, length = 5, features = 8, heads = 2;
};

// A block with its tensors, of one shape.
struct ConformerProblem {
  nn::ConformerLayer layer;
  Tensor x, y, d_y, d_x;

  ConformerProblem(const nn::ConformerLayerSpec& spec, DType dtype, const ConformerSizes& s = {})
      : layer(nn::make_conformer_layer(s.features, s.heads, spec, dtype)),
        x(normal(dtype, {s.batch, s.length, s.features}, 80)),
        y(dtype, {s.batch, s.length, s.features}),
        d_y(normal(dtype, {s.batch, s.length, s.features}, 81)),
        d_x(dtype, {s.batch, s.length, s.features}) {
    draw_parameters(layer, 1);
  }

  void run(const Counted& counted, bool with_backward, const nn::MultiHeadCall& call = {}) {
    counted([&](nn::Arena& states, const nn::Run& run) {
      const auto state = make_state(layer, x.dims(), states);
      forward(layer, x, y, state, run, call);
      if (with_backward) backward(layer, x, d_y, state, d_x, run, call);
    });
  }

  // y, d_x and the gradients of all parameters.
  std::vector<Tensor> results(const Counted& counted) {
    for (nn::Parameter* p : nn::parameters_of(layer))
      std::memset(p->gradient.data(), 0,
                  static_cast<size_t>(p->gradient.count() * size_of(p->gradient.dtype())));
    run(counted, true);
    std::vector<Tensor> all;
    all.push_back(Tensor::copy_of(y.view()));
    all.push_back(Tensor::copy_of(d_x.view()));
    append_gradients(layer, all);
    return all;
  }
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.count() == b.count() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.count() * size_of(a.dtype()))) == 0;
}

struct ConformerForm {
  ConvPadding padding;
  int64_t kernel;
  double dropout;
  nn::MultiHeadAttentionSpec attention;
  size_t learned;  // tensors of the attention's texts
};

std::vector<ConformerForm> conformer_forms() {
  return {
      {ConvPadding::same, 3, 0, {}, 0},
      {ConvPadding::same, 3, 0.3, {.rotary = "rotary"}, 0},
      {ConvPadding::causal, 4, 0, {.mask = "causal"}, 0},
      {ConvPadding::causal, 3, 0.3, {.mask = "causal", .scores = {"t5_bias(learned[8])"}}, 1},
      {ConvPadding::same, 7, 0.3, {.relative = "relative(key_rows=learned[9])"}, 1},  // beyond x
      {ConvPadding::same, 1, 0, {.num_kv_heads = 1, .bias = false}, 0},
  };
}

TEST(ConformerLayerTest, GradientsAreCentralDifferences) {
  for (const ConformerForm& form : conformer_forms()) {
    SCOPED_TRACE(testing::Message() << "kernel " << form.kernel << ", dropout " << form.dropout);
    ConformerProblem p({.hidden_features = 7,
                        .kernel = form.kernel,
                        .padding = form.padding,
                        .dropout = form.dropout,
                        .dropout_stream = 5,
                        .attention = form.attention},
                       DType::f64);
    const Counted counted{.training = true, .seed = 3};
    p.run(counted, true);
    std::vector<Checked> checked{{"x", &p.x, &p.d_x}};
    add_parameters(p.layer, checked);
    ASSERT_EQ(checked.size(), (form.attention.bias ? 31u : 29u) + form.learned);
    expect_gradients(
        checked,
        [&] {
          p.run(counted, false);
          return dot(p.y, p.d_y);
        },
        6);
  }
}

TEST(ConformerLayerTest, NamesAreThoseOfTheParts) {
  const nn::ConformerLayer layer = nn::make_conformer_layer(8, 2, {.kernel = 5});
  std::vector<std::string> names;
  nn::visit(layer, [&](const std::string& name, const nn::Parameter&) { names.push_back(name); });
  for (const char* name : {"ffn1_layer_norm.weight", "ffn1.linear1.weight",
                           "self_attn.in_proj_weight", "conv_module.layer_norm.bias",
                           "conv_module.pointwise_conv1.weight", "conv_module.depthwise_conv.bias",
                           "conv_module.norm.weight", "ffn2.linear2.bias", "final_layer_norm.bias"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_EQ(layer.conv_module.pointwise_conv1.weight.value.dim(0), 16);
  EXPECT_EQ(layer.conv_module.depthwise_conv.weight.value.dim(2), 5);
  EXPECT_EQ(layer.ffn2.linear1.out_features(), 32);
}

// The formula of conformer_layer.h by calls of the parts, with sums and halves element by element.
Tensor composed(const nn::ConformerLayer& layer, const Tensor& x) {
  const auto like_x = [&] { return Tensor(x.dtype(), x.dims()); };
  const auto normed = [&](const nn::LayerNorm& norm, const Tensor& from) {
    Tensor to = like_x();
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      forward(norm, from, to, make_state(norm, from.dims(), from.dtype(), states), run);
    });
    return to;
  };
  const auto branch = [&](const auto& part, const Tensor& from) {
    Tensor to = like_x();
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      forward(part, from, to, make_state(part, from.dims(), states), run);
    });
    return to;
  };
  const auto sum = [&](const Tensor& a, double factor, const Tensor& b) {
    Tensor to = like_x();
    const auto p = a.values<double>(), q = b.values<double>();
    for (size_t i = 0; i < p.size(); ++i) to.values<double>()[i] = p[i] + factor * q[i];
    return to;
  };
  const Tensor a = sum(x, 0.5, branch(layer.ffn1, normed(layer.ffn1_layer_norm, x)));
  const Tensor b = sum(a, 1, branch(layer.self_attn, normed(layer.self_attn_layer_norm, a)));
  const Tensor c = sum(b, 1, branch(layer.conv_module, b));
  const Tensor d = sum(c, 0.5, branch(layer.ffn2, normed(layer.ffn2_layer_norm, c)));
  return normed(layer.final_layer_norm, d);
}

TEST(ConformerLayerTest, IsItsFormula) {
  ConformerProblem p({.kernel = 5, .dropout = 0.5}, DType::f64, {.length = 23, .features = 16});
  p.run({}, false);  // not training: nothing is dropped
  EXPECT_LE(difference(p.y, composed(p.layer, p.x)), 1e-14);
}

// Each half of the networks alone: y = final_layer_norm(x + 1/2 (its bias)), since all other
// branches are 0.
TEST(ConformerLayerTest, NetworksCountByHalf) {
  for (const int which : {1, 2}) {
    ConformerProblem p({.kernel = 3}, DType::f64);
    for (nn::Linear* last :
         {&p.layer.ffn1.linear2, &p.layer.ffn2.linear2, &p.layer.self_attn.out_proj})
      fill_normal(last->weight.value, 1, 0), fill_normal(last->bias.value, 1, 0);
    nn::Conv1d& last = p.layer.conv_module.pointwise_conv2;
    fill_normal(last.weight.value, 1, 0), fill_normal(last.bias.value, 1, 0);
    Tensor& bias = (which == 1 ? p.layer.ffn1 : p.layer.ffn2).linear2.bias.value;
    fill_normal(bias, 9, 3);
    p.run({}, false);
    Tensor moved = Tensor::copy_of(p.x.view()), expected(DType::f64, p.x.dims());
    for (size_t i = 0; i < moved.values<double>().size(); ++i)
      moved.values<double>()[i] += bias.values<double>()[i % 8] / 2;
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      const nn::LayerNorm& norm = p.layer.final_layer_norm;
      forward(norm, moved, expected, make_state(norm, moved.dims(), DType::f64, states), run);
    });
    EXPECT_LE(difference(p.y, expected), 1e-15) << which;
  }
}

TEST(ConformerLayerTest, SixteenBitsAreNearF64) {
  const ConformerSizes sizes{.length = 40, .features = 32, .heads = 4};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    ConformerProblem p({.kernel = 7}, dtype, sizes), exact({.kernel = 7}, DType::f64, sizes);
    nn::initialize(p.layer, 7);
    // The same numbers in both, rounded once.
    exact.x = in_f64(p.x), exact.d_y = in_f64(p.d_y);
    const auto from = nn::parameters_of(p.layer), to = nn::parameters_of(exact.layer);
    for (size_t i = 0; i < from.size(); ++i) to[i]->value = in_f64(from[i]->value);
    const std::vector<Tensor> found = p.results({}), expected = exact.results({});
    // A row passes about 20 roundings in storage up to y, and as many back to d_x.
    EXPECT_LE(difference(found[0], expected[0]), 20 * rounding_of(dtype)) << name_of(dtype);
    EXPECT_LE(difference(found[1], expected[1]), 40 * rounding_of(dtype)) << name_of(dtype);
  }
}

TEST(ConformerLayerTest, SameBitsForAnyThreads) {
  const ConformerSizes sizes{.length = 150, .features = 96, .heads = 4};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ConformerProblem p({.kernel = 15, .dropout = 0.2, .attention = {.rotary = "rotary"}}, dtype,
                       sizes);
    const auto compute = [&](const Context& context) {
      return p.results({.context = context, .training = true, .seed = 9});
    };
    expect_same_bits(compute);
    Context context;
    context.threads = 1;
    const std::vector<Tensor> expected = compute(context);
    context.threads = 16;
    const std::vector<Tensor> found = compute(context);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(same_bytes(found[i], expected[i])) << i << " differs with 16 threads";
  }
}

TEST(ConformerLayerTest, CallsWithMemoryAllocateNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  Context context;
  context.threads = 1;
  for (const ConformerForm& form : conformer_forms())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      ConformerProblem p({.kernel = form.kernel,
                          .padding = form.padding,
                          .dropout = form.dropout,
                          .attention = form.attention},
                         dtype);
      p.run({.context = context, .training = true}, true);
      Counted{.context = context, .training = true}([&](nn::Arena& states, const nn::Run& run) {
        laws::start_counting();
        const auto state = make_state(p.layer, p.x.dims(), states);
        forward(p.layer, p.x, p.y, state, run);
        backward(p.layer, p.x, p.d_y, state, p.d_x, run);
        const laws::Allocations allocations = laws::stop_counting();
        EXPECT_TRUE(run.counts() || allocations.made == 0) << allocations.made;
      });
    }
}

// The positions of the first sequence at which y changes when x does at `position`.
std::vector<int64_t> changed_rows(ConformerProblem& p, int64_t position) {
  p.run({}, false);
  const Tensor before = Tensor::copy_of(p.y.view());
  const size_t features = static_cast<size_t>(p.layer.features());
  for (size_t i = 0; i < features; ++i)
    p.x.values<double>()[static_cast<size_t>(position) * features + i] += double(i % 3);
  p.run({}, false);
  std::vector<int64_t> changed;
  for (int64_t row = 0; row < p.x.dim(1); ++row)
    if (std::memcmp(before.values<double>().data() + static_cast<size_t>(row) * features,
                    p.y.values<double>().data() + static_cast<size_t>(row) * features,
                    features * 8) != 0)
      changed.push_back(row);
  return changed;
}

TEST(ConformerLayerTest, ACausalBlockReadsNoLaterPosition) {
  ConformerProblem p({.kernel = 4, .padding = ConvPadding::causal, .attention = {.mask = "causal"}},
                     DType::f64, {.length = 9});
  EXPECT_EQ(changed_rows(p, 5), (std::vector<int64_t>{5, 6, 7, 8}));
}

TEST(ConformerLayerTest, MasksActOnAttentionAlone) {
  // A window of one position leaves the convolution: kernel 5 reads two positions on each side.
  ConformerProblem p({.kernel = 5, .attention = {.mask = "window(0,0)"}}, DType::f64,
                     {.length = 9});
  EXPECT_EQ(changed_rows(p, 4), (std::vector<int64_t>{2, 3, 4, 5, 6}));
}

// A norm of batches would not have this.
TEST(ConformerLayerTest, ASequenceHasTheSameBitsAloneAndInABatch) {
  const nn::ConformerLayerSpec spec{.kernel = 9};
  ConformerProblem both(spec, DType::f32, {.batch = 3, .length = 40, .features = 24, .heads = 3});
  ConformerProblem alone(spec, DType::f32, {.batch = 1, .length = 40, .features = 24, .heads = 3});
  std::memcpy(alone.x.data(), both.x.values<float>().data() + 2 * 40 * 24, 40 * 24 * 4);
  both.run({}, false);
  alone.run({}, false);
  EXPECT_EQ(std::memcmp(alone.y.data(), both.y.values<float>().data() + 2 * 40 * 24, 40 * 24 * 4),
            0);
}

TEST(ConformerLayerTest, GradientsThatAreNotWantedChangeNoOthers) {
  const Counted counted{.training = true, .seed = 2};
  ConformerProblem p({.kernel = 3, .dropout = 0.2}, DType::f64);
  const std::vector<Tensor> all = p.results(counted);

  nn::clear_gradients(nn::parameters_of(p.layer));
  counted([&](nn::Arena& states, const nn::Run& run) {
    const auto state = make_state(p.layer, p.x.dims(), states);
    forward(p.layer, p.x, p.y, state, run);
    backward(p.layer, p.x, p.d_y, state, TensorView(), run);
  });
  std::vector<Tensor> without_input;
  append_gradients(p.layer, without_input);
  ASSERT_EQ(without_input.size() + 2, all.size());
  for (size_t i = 0; i < without_input.size(); ++i)
    EXPECT_TRUE(same_bytes(without_input[i], all[i + 2])) << i;

  nn::freeze(p.layer);
  fill_normal(p.d_x, 1, 0);
  p.run(counted, true);
  EXPECT_TRUE(same_bytes(p.d_x, all[1]));

  p.d_x = Tensor::copy_of(p.d_y.view());  // d_x may be d_y
  counted([&](nn::Arena& states, const nn::Run& run) {
    const auto state = make_state(p.layer, p.x.dims(), states);
    forward(p.layer, p.x, p.y, state, run);
    backward(p.layer, p.x, p.d_x, state, p.d_x, run);
  });
  EXPECT_TRUE(same_bytes(p.d_x, all[1]));
}

TEST(ConformerLayerTest, RejectsSpecsThatDoNotFit) {
  const auto rejects = [](const std::vector<std::string>& words, int64_t features, int64_t heads,
                          const nn::ConformerLayerSpec& spec) {
    laws::expect_error(ErrorCode::argument, words,
                       [&] { nn::make_conformer_layer(features, heads, spec); });
  };
  rejects({"embed_dim 10", "num_heads 4"}, 10, 4, {});
  rejects({"embed_dim is 0"}, 0, 1, {});
  rejects({"kernel of 4", "odd"}, 8, 2, {.kernel = 4});
  rejects({"kernel of 0"}, 8, 2, {.kernel = 0});
  rejects({"kernel -1"}, 8, 2, {.kernel = -1});
  rejects({"kernel 0"}, 8, 2, {.kernel = 0, .padding = ConvPadding::causal});
  rejects({"shortens"}, 8, 2, {.padding = ConvPadding::valid});
  rejects({"dropout"}, 8, 2, {.dropout = 1});
  rejects({"epsilon"}, 8, 2, {.norm_epsilon = -1});
  EXPECT_EQ(nn::make_conformer_layer(8, 2, {.kernel = 4, .padding = ConvPadding::causal})
                .conv_module.depthwise_conv.left,
            3);
  laws::expect_error(ErrorCode::argument, {"channels is 0"},
                     [] { nn::make_conformer_convolution(0); });
}

// Calls that throw leave y, d_x, and the gradients as they were.
TEST(ConformerLayerTest, RejectsTensorsThatDoNotFitBeforeAnythingIsWritten) {
  ConformerProblem p({.kernel = 3}, DType::f32);
  std::vector<std::byte> memory(1 << 20), more(1 << 20);
  nn::Arena states(memory), scratch(more);
  const nn::Run run{.scratch = scratch, .context = {}};
  const auto state = make_state(p.layer, p.x.dims(), states);
  const std::vector<Tensor> written = p.results({});
  std::memset(memory.data(), 0x5A, memory.size());
  const Tensor narrow(DType::f32, {2, 5, 4}), matrix(DType::f32, {10, 8});
  const Tensor wrong(DType::f64, {2, 5, 8}), shorter(DType::f32, {2, 4, 8});
  Tensor target(DType::f32, {2, 5, 4}), constant = Tensor::copy_of(p.x.view());

  const auto forward_rejects = [&](ErrorCode code, const char* word, const TensorView& x,
                                   const TensorView& y, const nn::ConformerLayer::State& s,
                                   const nn::MultiHeadCall& call = {}) {
    laws::expect_error(code, {word}, [&] { forward(p.layer, x, y, s, run, call); });
  };
  forward_rejects(ErrorCode::argument, "x is missing", {}, p.y, state);
  forward_rejects(ErrorCode::shape, "features = 8", narrow, p.y, state);
  forward_rejects(ErrorCode::shape, "batch, length", matrix, p.y, state);
  forward_rejects(ErrorCode::dtype, "x", wrong, p.y, state);
  forward_rejects(ErrorCode::shape, "y", p.x, target, state);
  forward_rejects(ErrorCode::argument, "y is missing", p.x, {}, state);
  forward_rejects(ErrorCode::overlap, "y", p.x, p.x, state);
  forward_rejects(ErrorCode::argument, "read-only", p.x, std::as_const(constant), state);
  forward_rejects(ErrorCode::shape, "state.", shorter, p.y, state);
  forward_rejects(ErrorCode::argument, "state.", p.x, p.y, {});
  forward_rejects(ErrorCode::argument, "key_value", p.x, p.y, state, {.key_value = p.x});
  forward_rejects(ErrorCode::argument, "add", p.x, p.y, state, {.add = true});

  const auto backward_rejects = [&](ErrorCode code, const char* word, const TensorView& x,
                                    const TensorView& d_y, const TensorView& d_x) {
    laws::expect_error(code, {word}, [&] { backward(p.layer, x, d_y, state, d_x, run); });
  };
  backward_rejects(ErrorCode::argument, "x is missing", {}, p.d_y, p.d_x);
  backward_rejects(ErrorCode::shape, "d_y", p.x, narrow, p.d_x);
  backward_rejects(ErrorCode::shape, "d_x", p.x, p.d_y, target);
  backward_rejects(ErrorCode::overlap, "d_x", p.x, p.d_y, p.x);
  backward_rejects(ErrorCode::dtype, "d_y", p.x, wrong, p.d_x);

  for (const std::byte byte : memory) ASSERT_EQ(byte, std::byte{0x5A});  // the state, too
  std::vector<Tensor> now;
  now.push_back(Tensor::copy_of(p.y.view()));
  now.push_back(Tensor::copy_of(p.d_x.view()));
  append_gradients(p.layer, now);
  for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(same_bytes(now[i], written[i])) << i;

  nn::Arena counter;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 8}, {2, 5, 7}, {1, 2, 5, 8}})
    laws::expect_error(ErrorCode::shape, {"x"}, [&] { make_state(p.layer, shape, counter); });
}

TEST(ConformerLayerTest, RejectsTensorsOfTheConvolutionModule) {
  nn::ConformerConvolution layer = nn::make_conformer_convolution(4, {.kernel = 3});
  const Tensor x(DType::f32, {2, 5, 4}), narrow(DType::f32, {2, 5, 3});
  Tensor y(DType::f32, {2, 5, 4}), d_x(DType::f32, {2, 5, 3});
  std::vector<std::byte> memory(1 << 16), more(1 << 16);
  nn::Arena states(memory), scratch(more);
  const nn::Run run{.scratch = scratch, .context = {}};
  const auto state = make_state(layer, x.dims(), states);
  laws::expect_error(ErrorCode::shape, {"channels = 4"},
                     [&] { forward(layer, narrow, y, state, run); });
  laws::expect_error(ErrorCode::shape, {"y"}, [&] { forward(layer, x, d_x, state, run); });
  laws::expect_error(ErrorCode::argument, {"state."}, [&] { forward(layer, x, y, {}, run); });
  laws::expect_error(ErrorCode::shape, {"d_y"},
                     [&] { backward(layer, x, narrow, state, TensorView(), run); });
  laws::expect_error(ErrorCode::shape, {"d_x"}, [&] { backward(layer, x, y, state, d_x, run); });
}

TEST(ScaleDenseTest, ScalesEveryElement) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const int64_t count : {0, 1, 63, 64, 65, 4095, 4096, 9001}) {
      // Large enough that no half is subnormal in f16.
      const Tensor x = normal(dtype, {count}, 4, 100), before = normal(dtype, {count}, 5, 100);
      for (const bool add : {false, true}) {
        Tensor y = Tensor::copy_of(before.view());
        Counted()([&](nn::Arena&, const nn::Run& run) { nn::scale_dense(x, 0.5, y, run, add); });
        const std::vector<double> from = values_of(x), old = values_of(before),
                                  found = values_of(y);
        for (size_t i = 0; i < found.size(); ++i) {
          const double expected = from[i] / 2 + (add ? old[i] : 0);
          EXPECT_LE(std::abs(found[i] - expected),
                    add ? rounding_of(dtype) * std::abs(expected) : 0)
              << name_of(dtype) << " " << count << " " << i;
        }
      }
    }
}

}  // namespace
