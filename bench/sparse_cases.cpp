#include "sparse_cases.h"

#include <cmath>
#include <memory>

#include "check/tensors/arrays.h"
#include "check/tensors/random.h"
#include "goals.h"
#include "rapt/backward.h"
#include "rapt/catalogue.h"

namespace bench {
namespace {

constexpr int64_t kHeadDim = 64;

// The forward pass on one thread, and the backward pass if wanted, in memory allocated before.
class Problem {
 public:
  Problem(const std::string& normalizer, int64_t n, double spread, bool with_backward)
      : normalizer_(rapt::make_normalizer(normalizer)), with_backward_(with_backward) {
    check::Random random(1);
    const int64_t heads = n > 8192 ? 1 : 2;
    const auto draw = [&] {
      return check::random_normal(random, rapt::DType::f32, {heads, n, kHeadDim});
    };
    query_ = draw(), key_ = draw(), value_ = draw(), d_output_ = draw();
    for (rapt::Tensor* out : {&output_, &d_query_, &d_key_, &d_value_})
      *out = rapt::Tensor(rapt::DType::f32, {heads, n, kHeadDim});
    statistic_ = rapt::Tensor(rapt::DType::f32, {heads, n});
    options_.normalizer = normalizer_.ref;
    // Products of two normal vectors have a standard deviation of sqrt(kHeadDim).
    options_.scale = spread / std::sqrt(static_cast<double>(kHeadDim));
    context_.threads = 1;
    workspace_ = bytes(rapt::workspace_bytes(query_, key_, value_, options_, context_));
    if (with_backward)
      backward_workspace_ =
          bytes(rapt::backward_workspace_bytes(query_, key_, value_, options_, {}, context_));
  }

  void call() {
    rapt::AttentionOutputs outputs;
    outputs.state = {output_, statistic_};
    rapt::scaled_dot_product_attention(query_, key_, value_, options_, outputs,
                                       std::as_writable_bytes(workspace_.values<uint8_t>()),
                                       context_);
    if (!with_backward_) return;
    rapt::BackwardInputs inputs;
    inputs.state = outputs.state;
    inputs.d_output = d_output_;
    rapt::GradientOutputs gradients;
    gradients.d_query = d_query_, gradients.d_key = d_key_, gradients.d_value = d_value_;
    rapt::scaled_dot_product_attention_backward(
        query_, key_, value_, options_, inputs, {}, gradients,
        std::as_writable_bytes(backward_workspace_.values<uint8_t>()), context_);
  }

 private:
  static rapt::Tensor bytes(size_t count) {
    return {rapt::DType::u8, {static_cast<int64_t>(count)}};
  }

  rapt::MadeNormalizer normalizer_;
  bool with_backward_;
  rapt::AttentionOptions options_;
  rapt::Context context_;
  rapt::Tensor query_, key_, value_, d_output_, output_, statistic_, d_query_, d_key_, d_value_;
  rapt::Tensor workspace_, backward_workspace_;
};

std::function<Call()> call_of(const std::string& normalizer, int64_t n, double spread,
                              bool backward) {
  return [=]() -> Call {
    const auto problem = std::make_shared<Problem>(normalizer, n, spread, backward);
    return [problem] { problem->call(); };
  };
}

}  // namespace

std::vector<RatioCase> sparse_cases(std::initializer_list<int64_t> lengths) {
  struct Row {
    const char* normalizer;
    const char* spread;
    bool backward;
    Goal goal;
  };
  constexpr Row kRows[] = {
      {"sparsemax", "1", false, {1.2, 1.2}},   {"sparsemax", "4", false, {0.9, 0.9}},
      {"entmax15", "1", false, {1.2, 1.2}},    {"entmax15", "4", false, {0.9, 0.9}},
      {"entmax15", "0.1", false, {4, 4}},      {"entmax(1.25)", "1", false, {1.8, 1.8}},
      {"entmax(1.5)", "1", false, {1.8, 1.8}}, {"entmax(2)", "1", false, {1.8, 1.8}},
      {"sparsemax", "1", true, {1.1, 1.1}},    {"sparsemax", "4", true, {0.8, 0.8}},
      {"entmax15", "1", true, {1.1, 1.1}},     {"entmax15", "4", true, {0.8, 0.8}},
      {"entmax15", "0.1", true, {}},           {"top_k_softmax(32)", "1", false, {}},
      {"top_k_softmax(32)", "1", true, {}},    {"top_k_softmax(256)", "1", false, {}},
      {"top_k_softmax(256)", "1", true, {}},
  };
  std::vector<RatioCase> cases;
  for (const int64_t n : lengths)
    for (const Row& row : kRows) {
      const double spread = std::stod(row.spread);
      cases.push_back({std::string(row.normalizer) + (row.backward ? ", both ways" : "") +
                           ", spread " + row.spread + " n=" + std::to_string(n),
                       call_of("softmax", n, spread, row.backward),
                       call_of(row.normalizer, n, spread, row.backward), on_this_core(row.goal)});
    }
  return cases;
}

}  // namespace bench
