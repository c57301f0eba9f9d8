// Speed of layers (rapt/nn), f32, forward and backward:
//
//   bench_layers [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// The sizes are those of GPT-2 124M: 1,024 tokens, 768 features, 12 heads. Where products decide,
// the time is compared with the peak of as many threads; their operations alone are counted. A
// backward call writes d_x and adds to the gradients of the parameters. How it is measured:
// timed_case.h.
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "rapt/nn/activations.h"
#include "rapt/nn/cross_entropy.h"
#include "rapt/nn/encoder_layer.h"
#include "rapt/nn/gru.h"
#include "rapt/nn/init.h"
#include "timed/layer_memory.h"
#include "timed/timed_case.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;
using Sizes = std::initializer_list<int64_t>;

constexpr int64_t kTokens = 1024, kFeatures = 768, kHidden = 3072, kHeads = 12;
constexpr int64_t kBatch = 2, kLength = kTokens / kBatch;
constexpr int64_t kLossRows = 256, kClasses = 50257;
constexpr int64_t kGruBatch = 32, kGruLength = 64, kGruWidth = 256;

Tensor random_normal(Sizes sizes) {
  static std::mt19937 generator(1);
  Tensor t(DType::f32, sizes);
  std::normal_distribution<float> normal;
  for (float& x : t.values<float>()) x = normal(generator);
  return t;
}

// A layer with its inputs, its state and its two calls.
template <class Layer>
class Problem {
 public:
  using State = typename Layer::State;
  using MakeState = std::function<State(const Layer&, rapt::Shape x, nn::Arena&)>;

  Problem(Layer layer, int threads, Sizes x, Sizes y, const MakeState& make)
      : layer_(std::move(layer)),
        memory_(threads),
        x_(random_normal(x)),
        y_(DType::f32, y),
        d_y_(random_normal(y)),
        d_x_(DType::f32, x) {
    nn::initialize(layer_, 1);
    memory_.reserve([&](nn::Arena& arena) { state_ = make(layer_, x_.dims(), arena); },
                    [&](const nn::Run& run) {
                      forward(layer_, x_, y_, state_, run);
                      backward(layer_, x_, d_y_, state_, d_x_, run);
                    });
    call_forward();  // the state of the backward calls
  }
  void call_forward() { forward(layer_, x_, y_, state_, memory_.run()); }
  void call_backward() { backward(layer_, x_, d_y_, state_, d_x_, memory_.run()); }

 private:
  Layer layer_;
  State state_ = {};
  bench::LayerMemory memory_;
  Tensor x_, y_, d_y_, d_x_;
};

// Adds the cases "NAME forward", "NAME backward".
template <class Layer>
void add_cases(std::vector<bench::CaseMaker>& cases, const std::string& name, double forward_flops,
               double backward_flops, double work, int threads,
               const std::function<std::shared_ptr<Problem<Layer>>()>& make) {
  cases.push_back({name + " forward", work, [=] {
                     const auto problem = make();
                     return bench::TimedCase{
                         .name = "", .flops = forward_flops, .threads = threads, .call = [problem] {
                           problem->call_forward();
                         }};
                   }});
  cases.push_back({name + " backward", work, [=] {
                     const auto problem = make();
                     return bench::TimedCase{.name = "",
                                             .flops = backward_flops,
                                             .threads = threads,
                                             .call = [problem] { problem->call_backward(); }};
                   }});
}

void add_layer_norm(std::vector<bench::CaseMaker>& cases) {
  using Layer = nn::LayerNorm;
  add_cases<Layer>(cases, "layer_norm 1024x768", 0, 0, kTokens * kFeatures, 1, [] {
    return std::make_shared<Problem<Layer>>(
        nn::make_layer_norm(kFeatures), 1, Sizes{kTokens, kFeatures}, Sizes{kTokens, kFeatures},
        [](const Layer& layer, rapt::Shape x, nn::Arena& arena) {
          return make_state(layer, x, DType::f32, arena);
        });
  });
}

void add_gru(std::vector<bench::CaseMaker>& cases) {
  using Layer = nn::Gru;
  const double flops = 2.0 * 2 * 3 * kGruBatch * kGruLength * kGruWidth * kGruWidth;
  add_cases<Layer>(cases, "gru b=32 n=64 256->256", flops, 2 * flops, flops, 1, [] {
    const Sizes sizes{kGruBatch, kGruLength, kGruWidth};
    return std::make_shared<Problem<Layer>>(nn::make_gru(kGruWidth, kGruWidth), 1, sizes, sizes,
                                            [](const Layer& layer, rapt::Shape, nn::Arena& arena) {
                                              return make_state(layer, kGruBatch, kGruLength,
                                                                arena);
                                            });
  });
}

// Operations of the projections of multi-head attention, and of attention.
constexpr double kProjectionFlops = 2.0 * 4 * kTokens * kFeatures * kFeatures;
constexpr double kAttentionFlops = 4.0 * kBatch * kLength * kLength * kFeatures;
constexpr double kNetworkFlops = 2.0 * 2 * kTokens * kFeatures * kHidden;

void add_attention(std::vector<bench::CaseMaker>& cases) {
  using Layer = nn::MultiHeadAttention;
  add_cases<Layer>(cases, "multi_head_attention b=2 n=512 768/12",
                   kProjectionFlops + kAttentionFlops, 2 * kProjectionFlops + 2.5 * kAttentionFlops,
                   kProjectionFlops, 1, [] {
                     const Sizes sizes{kBatch, kLength, kFeatures};
                     return std::make_shared<Problem<Layer>>(
                         nn::make_multi_head_attention(kFeatures, kHeads), 1, sizes, sizes,
                         [](const Layer& layer, rapt::Shape x, nn::Arena& arena) {
                           return make_state(layer, x, arena);
                         });
                   });
}

void add_encoder(std::vector<bench::CaseMaker>& cases, int threads) {
  using Layer = nn::EncoderLayer;
  const double products = kProjectionFlops + kNetworkFlops;
  add_cases<Layer>(cases, "encoder_layer b=2 n=512 768/12, " + std::to_string(threads) + " threads",
                   products + kAttentionFlops, 2 * products + 2.5 * kAttentionFlops, products,
                   threads, [=] {
                     const Sizes sizes{kBatch, kLength, kFeatures};
                     nn::EncoderLayerSpec spec;
                     spec.activation = rapt::Activation::gelu;
                     spec.norm_first = true;
                     return std::make_shared<Problem<Layer>>(
                         nn::make_encoder_layer(kFeatures, kHeads, spec), threads, sizes, sizes,
                         [](const Layer& layer, rapt::Shape x, nn::Arena& arena) {
                           return make_state(layer, x, arena);
                         });
                   });
}

void add_activation(std::vector<bench::CaseMaker>& cases, const char* name,
                    rapt::Activation activation) {
  struct Tensors {
    bench::LayerMemory memory{1};
    Tensor z = random_normal({kTokens, kHidden}), d_y = random_normal({kTokens, kHidden}),
           out{DType::f32, {kTokens, kHidden}};
    Tensors() {
      memory.reserve([](nn::Arena&) {}, [](const nn::Run&) {});
    }
  };
  const std::string sizes = std::string(name) + " 1024x3072";
  cases.push_back({sizes + " forward", kTokens * kHidden, [=] {
                     const auto t = std::make_shared<Tensors>();
                     return bench::TimedCase{
                         .name = "",
                         .call = [=] { nn::activate(activation, t->z, t->out, t->memory.run()); }};
                   }});
  cases.push_back({sizes + " backward", kTokens * kHidden, [=] {
                     const auto t = std::make_shared<Tensors>();
                     return bench::TimedCase{.name = "", .call = [=] {
                                               nn::activation_gradient(activation, t->z, t->d_y,
                                                                       t->out, t->memory.run());
                                             }};
                   }});
}

void add_cross_entropy(std::vector<bench::CaseMaker>& cases) {
  struct Tensors {
    bench::LayerMemory memory{1};
    Tensor logits = random_normal({kLossRows, kClasses}),
           d_logits{DType::f32, {kLossRows, kClasses}}, targets{DType::i64, {kLossRows}},
           lse{DType::f64, {kLossRows}};
    Tensors() {
      int64_t next = 0;
      for (int64_t& target : targets.values<int64_t>()) target = (next += 7919) % kClasses;
      memory.reserve([](nn::Arena&) {}, [&](const nn::Run& run) { loss(run), gradient(run); });
      loss(memory.run());
    }
    double loss(const nn::Run& run) { return nn::cross_entropy(logits, targets, lse, run); }
    void gradient(const nn::Run& run) {
      nn::cross_entropy_gradient(logits, targets, lse, d_logits, run);
    }
  };
  const std::string name = "cross_entropy 256x50257";
  cases.push_back({name + " forward", kLossRows * kClasses, [] {
                     const auto t = std::make_shared<Tensors>();
                     return bench::TimedCase{.name = "", .call = [t] { t->loss(t->memory.run()); }};
                   }});
  cases.push_back({name + " backward", kLossRows * kClasses, [] {
                     const auto t = std::make_shared<Tensors>();
                     return bench::TimedCase{.name = "",
                                             .call = [t] { t->gradient(t->memory.run()); }};
                   }});
}

bool measure_all(const bench::Arguments& arguments) {
  std::vector<bench::CaseMaker> cases;
  add_layer_norm(cases);
  add_activation(cases, "gelu", rapt::Activation::gelu);
  add_activation(cases, "gelu_tanh", rapt::Activation::gelu_tanh);
  add_cross_entropy(cases);
  add_gru(cases);
  add_attention(cases);
  add_encoder(cases, 1);
  add_encoder(cases, 2);
  return bench::measure_cases(arguments, "layers", cases);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_layers [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}
