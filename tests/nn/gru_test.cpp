#include "rapt/nn/gru.h"

#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocation_hooks.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;

struct GruCase {
  int64_t batch, length, in, hidden;
  nn::GruOptions options;

  int64_t directions() const { return options.layers * (options.bidirectional ? 2 : 1); }
  int64_t width() const { return hidden * (options.bidirectional ? 2 : 1); }
  nn::Gru layer(DType dtype) const {
    nn::Gru layer = nn::make_gru(in, hidden, options, dtype);
    draw_parameters(layer, 1);
    return layer;
  }
};

// The tensors of a case.
struct GruTensors {
  explicit GruTensors(const GruCase& c, DType dtype = DType::f64)
      : x(normal(dtype, {c.batch, c.length, c.in}, 50)),
        h0(normal(dtype, {c.directions(), c.batch, c.hidden}, 51)),
        d_y(normal(dtype, {c.batch, c.length, c.width()}, 52)),
        d_h_n(normal(dtype, {c.directions(), c.batch, c.hidden}, 53)),
        y(dtype, d_y.dims()),
        h_n(dtype, h0.dims()),
        d_x(dtype, x.dims()),
        d_h0(dtype, h0.dims()) {}
  Tensor x, h0, d_y, d_h_n;
  Tensor y, h_n, d_x, d_h0;
};

const GruCase kGruCases[] = {
    {3, 4, 5, 6, {}},
    {2, 5, 3, 17, {.bidirectional = true}},
    {2, 3, 4, 3, {.layers = 3}},
    {1, 4, 2, 5, {.layers = 2, .bidirectional = true, .bias = false}},
    {1, 1, 1, 1, {}},
    {5, 2, 0, 3, {}},
    {0, 3, 2, 3, {.layers = 2}},
    {2, 0, 2, 3, {.bidirectional = true}},
};

TEST(GruTest, IsItsFormula) {
  const GruCase c{1, 3, 2, 3, {}};
  const nn::Gru layer = c.layer(DType::f64);
  GruTensors t(c);
  Counted()([&](nn::Arena& states, const nn::Run& run) {
    const nn::Gru::State state = make_state(layer, 1, 3, states);
    forward(layer, t.x, t.y, state, run, {.h0 = t.h0, .h_n = t.h_n});
  });
  const auto& d = layer.directions[0];
  const auto product = [](const Tensor& weight, const Tensor& bias, const double* v, int64_t row) {
    double sum = bias.values<double>()[static_cast<size_t>(row)];
    for (int64_t i = 0; i < weight.dim(1); ++i)
      sum += weight.values<double>()[static_cast<size_t>(row * weight.dim(1) + i)] * v[i];
    return sum;
  };
  const auto sigma = [](double z) { return 1 / (1 + std::exp(-z)); };
  std::vector<double> h(t.h0.values<double>().begin(), t.h0.values<double>().end());
  for (int64_t step = 0; step < 3; ++step) {
    const double* const x = t.x.values<double>().data() + step * 2;
    std::vector<double> next;
    for (int64_t i = 0; i < 3; ++i) {
      const auto in = [&](int64_t gate) {
        return product(d.weight_ih.value, d.bias_ih.value, x, gate * 3 + i);
      };
      const auto back = [&](int64_t gate) {
        return product(d.weight_hh.value, d.bias_hh.value, h.data(), gate * 3 + i);
      };
      const double r = sigma(in(0) + back(0)), z = sigma(in(1) + back(1));
      const double n = std::tanh(in(2) + r * back(2));
      next.push_back((1 - z) * n + z * h[static_cast<size_t>(i)]);
    }
    h = next;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(t.y.values<double>()[static_cast<size_t>(step * 3) + i], h[i], 1e-14);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(t.h_n.values<double>()[i], t.y.values<double>()[6 + i]);
}

TEST(GruTest, ParametersHaveTheNamesOfPyTorch) {
  nn::Gru layer = nn::make_gru(2, 3, {.layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  visit(layer, [&](const std::string& name, nn::Parameter&) { names.push_back(name); });
  ASSERT_EQ(names.size(), 16u);
  EXPECT_EQ(names[0], "weight_ih_l0");
  EXPECT_EQ(names[3], "bias_hh_l0");
  EXPECT_EQ(names[4], "weight_ih_l0_reverse");
  EXPECT_EQ(names[9], "weight_hh_l1");
  EXPECT_EQ(names[15], "bias_hh_l1_reverse");
  EXPECT_EQ(layer.directions[2].weight_ih.value.dim(1), 6);
}

TEST(GruTest, GradientsAreCentralDifferences) {
  int index = 0;
  for (const GruCase& c : kGruCases) {
    SCOPED_TRACE(index++);
    nn::Gru layer = c.layer(DType::f64);
    GruTensors t(c);
    const auto loss = [&] {
      Counted()([&](nn::Arena& states, const nn::Run& run) {
        const nn::Gru::State state = make_state(layer, c.batch, c.length, states);
        forward(layer, t.x, t.y, state, run, {.h0 = t.h0, .h_n = t.h_n});
      });
      return dot(t.y, t.d_y) + dot(t.h_n, t.d_h_n);
    };
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      const nn::Gru::State state = make_state(layer, c.batch, c.length, states);
      forward(layer, t.x, t.y, state, run, {.h0 = t.h0});
      backward(layer, t.x, t.d_y, state, t.d_x, run, false, {.d_h_n = t.d_h_n, .d_h0 = t.d_h0});
    });
    std::vector<Checked> checked{{"x", &t.x, &t.d_x}, {"h0", &t.h0, &t.d_h0}};
    add_parameters(layer, checked);
    expect_gradients(checked, loss);
  }
}

// Sequences run in opposite directions have opposite results.
TEST(GruTest, TheReverseDirectionReadsFromTheEnd) {
  const GruCase both{2, 5, 3, 4, {.bidirectional = true}};
  const nn::Gru layer = both.layer(DType::f64);
  nn::Gru one = nn::make_gru(3, 4, {}, DType::f64);
  const auto copy = [](const nn::Parameter& from, nn::Parameter& to) {
    to.value = Tensor::copy_of(from.value.view());
  };
  copy(layer.directions[1].weight_ih, one.directions[0].weight_ih);
  copy(layer.directions[1].weight_hh, one.directions[0].weight_hh);
  copy(layer.directions[1].bias_ih, one.directions[0].bias_ih);
  copy(layer.directions[1].bias_hh, one.directions[0].bias_hh);
  GruTensors t(both);
  Tensor turned(DType::f64, t.x.dims()), y(DType::f64, {2, 5, 4});
  for (size_t b = 0; b < 2; ++b)
    for (size_t s = 0; s < 5; ++s)
      std::copy_n(&t.x.values<double>()[(b * 5 + s) * 3], 3,
                  &turned.values<double>()[(b * 5 + 4 - s) * 3]);
  Counted()([&](nn::Arena& states, const nn::Run& run) {
    forward(layer, t.x, t.y, make_state(layer, 2, 5, states), run);
    forward(one, turned, y, make_state(one, 2, 5, states), run);
  });
  for (size_t b = 0; b < 2; ++b)
    for (size_t s = 0; s < 5; ++s)
      for (size_t i = 0; i < 4; ++i)
        EXPECT_EQ(t.y.values<double>()[(b * 5 + s) * 8 + 4 + i],
                  y.values<double>()[(b * 5 + 4 - s) * 4 + i]);
}

TEST(GruTest, SixteenBitsAreRoundedWhereTheyAreStored) {
  const GruCase c{3, 20, 9, 21, {.layers = 2, .bidirectional = true}};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    nn::Gru layer = c.layer(dtype), wide = nn::make_gru(9, 21, c.options, DType::f32);
    GruTensors t(c, dtype), w(c, DType::f32);
    const auto number = [&](const Tensor& from, size_t i) {
      return dtype == DType::bf16 ? float(from.values<BFloat16>()[i])
                                  : float(from.values<Float16>()[i]);
    };
    const auto widen = [&](const Tensor& from, Tensor& to) {
      for (size_t i = 0; i < static_cast<size_t>(from.count()); ++i)
        to.values<float>()[i] = number(from, i);
    };
    const std::vector<nn::Parameter*> narrow_all = nn::parameters_of(layer);
    const std::vector<nn::Parameter*> wide_all = nn::parameters_of(wide);
    for (size_t i = 0; i < wide_all.size(); ++i) widen(narrow_all[i]->value, wide_all[i]->value);
    widen(t.x, w.x), widen(t.h0, w.h0), widen(t.d_y, w.d_y), widen(t.d_h_n, w.d_h_n);
    const auto run_both = [&](nn::Gru& gru, GruTensors& of) {
      Counted()([&](nn::Arena& states, const nn::Run& run) {
        const nn::Gru::State state = make_state(gru, c.batch, c.length, states);
        forward(gru, of.x, of.y, state, run, {.h0 = of.h0, .h_n = of.h_n});
        backward(gru, of.x, of.d_y, state, of.d_x, run, false,
                 {.d_h_n = of.d_h_n, .d_h0 = of.d_h0});
      });
    };
    run_both(layer, t);
    run_both(wide, w);
    const double epsilon = dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
    const auto compare = [&](const Tensor& found, const Tensor& expected, const char* name) {
      double largest = 0;
      for (const float e : expected.values<float>())
        largest = std::max(largest, static_cast<double>(std::abs(e)));
      for (size_t i = 0; i < static_cast<size_t>(found.count()); ++i)
        EXPECT_NEAR(number(found, i), expected.values<float>()[i], 2 * epsilon * largest) << name;
    };
    compare(t.y, w.y, "y");
    compare(t.h_n, w.h_n, "h_n");
    compare(t.d_x, w.d_x, "d_x");
    compare(t.d_h0, w.d_h0, "d_h0");
  }
}

TEST(GruTest, AddsToGradientsAndSkipsFrozenParameters) {
  const GruCase c{3, 4, 5, 6, {.layers = 2, .bidirectional = true}};
  nn::Gru layer = c.layer(DType::f64);
  GruTensors t(c);
  const auto run_all = [&](const TensorView& d_x, bool add) {
    Counted()([&](nn::Arena& states, const nn::Run& run) {
      const nn::Gru::State state = make_state(layer, c.batch, c.length, states);
      forward(layer, t.x, t.y, state, run);
      backward(layer, t.x, t.d_y, state, d_x, run, add);
    });
  };
  run_all(t.d_x, false);
  std::vector<Tensor> once, twice;
  append_gradients(layer, once);
  Tensor d_x = Tensor::copy_of(t.d_x);
  run_all(d_x, true);
  append_gradients(layer, twice);
  for (size_t p = 0; p < once.size(); ++p)
    for (size_t i = 0; i < static_cast<size_t>(once[p].count()); ++i)
      EXPECT_NEAR(twice[p].values<double>()[i], 2 * once[p].values<double>()[i], 1e-12);
  for (size_t i = 0; i < static_cast<size_t>(d_x.count()); ++i)
    EXPECT_NEAR(d_x.values<double>()[i], 2 * t.d_x.values<double>()[i], 1e-12);
  run_all({}, false);  // without d_x
  nn::freeze(layer);
  run_all(d_x, false);
  for (size_t i = 0; i < static_cast<size_t>(d_x.count()); ++i)
    EXPECT_EQ(d_x.values<double>()[i], t.d_x.values<double>()[i]);
}

TEST(GruTest, HasTheSameBitsForAnyThreads) {
  for (const GruCase& c :
       {GruCase{19, 40, 30, 70, {.layers = 2, .bidirectional = true}}, GruCase{2, 60, 30, 128, {}}})
    expect_same_bits([&](const Context& context) {
      nn::Gru layer = c.layer(DType::f32);
      GruTensors t(c, DType::f32);
      Counted{.context = context}([&](nn::Arena& states, const nn::Run& run) {
        const nn::Gru::State state = make_state(layer, c.batch, c.length, states);
        forward(layer, t.x, t.y, state, run, {.h0 = t.h0, .h_n = t.h_n});
        backward(layer, t.x, t.d_y, state, t.d_x, run, false, {.d_h_n = t.d_h_n, .d_h0 = t.d_h0});
      });
      std::vector<Tensor> results;
      append_gradients(layer, results);
      for (Tensor* tensor : {&t.y, &t.h_n, &t.d_x, &t.d_h0}) results.push_back(std::move(*tensor));
      return results;
    });
}

TEST(GruTest, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  Context context;
  context.threads = 1;
  for (const GruCase& c : kGruCases) {
    nn::Gru layer = c.layer(DType::f32);
    GruTensors t(c, DType::f32);
    Counted{.context = context}([&](nn::Arena& states, const nn::Run& run) {
      const nn::Gru::State state = make_state(layer, c.batch, c.length, states);
      laws::start_counting();
      forward(layer, t.x, t.y, state, run, {.h0 = t.h0, .h_n = t.h_n});
      backward(layer, t.x, t.d_y, state, t.d_x, run, false, {.d_h_n = t.d_h_n, .d_h0 = t.d_h0});
      const laws::Allocations allocations = laws::stop_counting();
      EXPECT_TRUE(run.counts() || allocations.made == 0) << allocations.made;
    });
  }
}

TEST(GruTest, ANaNStaysInItsSequenceAndLaterSteps) {
  const GruCase c{2, 5, 3, 4, {}};
  const nn::Gru layer = c.layer(DType::f32);
  GruTensors t(c, DType::f32);
  t.x.values<float>()[2 * 3 + 1] = NAN;  // sequence 0, step 2
  Counted()([&](nn::Arena& states, const nn::Run& run) {
    forward(layer, t.x, t.y, make_state(layer, 2, 5, states), run);
  });
  for (size_t i = 0; i < 40; ++i)
    EXPECT_EQ(std::isnan(t.y.values<float>()[i]), i >= 8 && i < 20) << i;
}

TEST(GruTest, StopsWhenItIsCancelled) {
  const GruCase c{3, 8, 5, 6, {}};
  nn::Gru layer = c.layer(DType::f32);
  GruTensors t(c, DType::f32);
  CancelToken cancel;
  cancel.cancel();
  Context context;
  context.cancel = &cancel;
  laws::expect_error(ErrorCode::cancelled, {}, [&] {
    Counted{.context = context}([&](nn::Arena& states, const nn::Run& run) {
      forward(layer, t.x, t.y, make_state(layer, 3, 8, states), run);
    });
  });
}

TEST(GruTest, RejectsWhatDoesNotFit) {
  laws::expect_error(ErrorCode::argument, {"layers"}, [] { nn::make_gru(2, 3, {.layers = 0}); });
  const GruCase c{2, 5, 3, 4, {}};
  nn::Gru layer = c.layer(DType::f32);
  GruTensors t(c, DType::f32);
  Tensor narrow(DType::f32, {2, 5, 2}), matrix(DType::f32, {5, 3}), wrong(DType::f64, {2, 5, 3});
  std::vector<std::byte> memory(1 << 20), state_memory(1 << 20);
  nn::Arena arena{memory}, states{state_memory};
  const nn::Run run{.scratch = arena, .context = {}};
  const nn::Gru::State state = make_state(layer, 2, 5, states);
  const nn::Gru::State short_state = make_state(layer, 2, 4, states);
  const auto rejects = [&](ErrorCode code, const char* name, const TensorView& x,
                           const TensorView& y, const nn::Gru::State& of, nn::GruHidden hidden) {
    laws::expect_error(code, {name}, [&] { forward(layer, x, y, of, run, hidden); });
  };
  rejects(ErrorCode::argument, "x", {}, t.y, state, {});
  rejects(ErrorCode::shape, "x", matrix, t.y, state, {});
  rejects(ErrorCode::shape, "x", narrow, t.y, state, {});
  rejects(ErrorCode::dtype, "x", wrong, t.y, state, {});
  rejects(ErrorCode::shape, "y", t.x, narrow, state, {});
  rejects(ErrorCode::shape, "state.gates", t.x, t.y, short_state, {});
  rejects(ErrorCode::shape, "h0", t.x, t.y, state, {.h0 = narrow});
  rejects(ErrorCode::shape, "h_n", t.x, t.y, state, {.h_n = narrow});
  rejects(ErrorCode::overlap, "h_n", t.x, t.y, state, {.h0 = t.h0, .h_n = t.h0});
  rejects(ErrorCode::overlap, "y", TensorView(t.y.values<float>().data(), {2, 5, 3}), t.y, state,
          {});
  const auto back = [&](ErrorCode code, const char* name, const TensorView& d_y,
                        const TensorView& d_x, nn::GruHiddenGradients hidden) {
    laws::expect_error(code, {name},
                       [&] { backward(layer, t.x, d_y, state, d_x, run, false, hidden); });
  };
  back(ErrorCode::shape, "d_y", narrow, t.d_x, {});
  back(ErrorCode::shape, "d_x", t.d_y, narrow, {});
  back(ErrorCode::overlap, "d_x", t.d_y, t.x, {});
  back(ErrorCode::shape, "d_h0", t.d_y, t.d_x, {.d_h0 = narrow});
  layer.directions[0].weight_hh.value = Tensor(DType::f64, {12, 4});
  rejects(ErrorCode::dtype, "weight_ih", t.x, t.y, state, {});
  layer.directions.clear();
  laws::expect_error(ErrorCode::argument, {"directions"},
                     [&] { forward(layer, t.x, t.y, state, run); });
}

}  // namespace
