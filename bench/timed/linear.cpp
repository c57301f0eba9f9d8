// Speed of attention by feature maps beside the FMA peak, and of exact attention over the same
// tokens.
//
//   bench_linear [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// head_dim = value_dim = 64. Flops that count, per token, for m features: favor 8 m d, gradients
// 18 m d; linear, which has no projection, 4 m d and 10 m d. The triangles of causal chunks add
// 64 (m + d), gradients 64 (4 m + 3 d). Neither exponentials count, nor the features that gradients
// make a second time (4 m d). How it is measured: timed/timed_case.h.
#include <memory>
#include <random>

#include "rapt/rapt.h"
#include "timed/timed_case.h"

namespace {

using rapt::DType;

constexpr int64_t kDims = 64;

struct Shape {
  const char* method;  // "" is exact
  bool causal, backward;
  int64_t tokens = 65536, heads = 1;
  int threads = 1;
  DType dtype = DType::f32;
};

std::string name_of_case(const Shape& s) {
  return std::string(*s.method ? s.method : "exact") + (s.causal ? " causal" : "") +
         (s.backward ? " backward" : " forward") + ", " + std::to_string(s.tokens) + " tokens, " +
         std::to_string(s.heads) + (s.heads == 1 ? " head, " : " heads, ") +
         rapt::name_of(s.dtype) + (s.threads > 1 ? ", 2 threads" : "");
}

double flops_of(const Shape& s) {
  const auto n = static_cast<double>(s.tokens), d = static_cast<double>(kDims);
  double per_token;
  if (!*s.method) {
    per_token = (s.backward ? 10 : 4) * d * n / (s.causal ? 2 : 1);
  } else {
    const bool favor = std::string_view(s.method).starts_with("favor");
    const double m = favor ? 256 : d;
    per_token = (favor ? (s.backward ? 18 : 8) : (s.backward ? 10 : 4)) * m * d;
    if (s.causal) per_token += 64 * (s.backward ? 4 * m + 3 * d : m + d);
  }
  return per_token * n * static_cast<double>(s.heads);
}

rapt::Tensor random_tensor(std::mt19937& generator, const Shape& s) {
  std::normal_distribution<float> normal(0, 0.5f);
  rapt::Tensor t(s.dtype, {s.heads, s.tokens, kDims});
  if (s.dtype == DType::f32)
    for (float& x : t.values<float>()) x = normal(generator);
  else
    for (rapt::BFloat16& x : t.values<rapt::BFloat16>())
      x = rapt::BFloat16::from(normal(generator));
  return t;
}

// A case with what it refers to.
struct LinearWork {
  Shape shape;
  std::unique_ptr<rapt::Method> method;
  rapt::Causal causal;
  const rapt::Mask* masks[1] = {&causal};
  rapt::Tensor query, key, value, d_output;
  rapt::AttentionOptions options;
  rapt::Context context;
  rapt::AttentionResult forward;

  explicit LinearWork(const Shape& s) : shape(s) {
    std::mt19937 generator(7);
    query = random_tensor(generator, s), key = random_tensor(generator, s);
    value = random_tensor(generator, s), d_output = random_tensor(generator, s);
    if (*s.method) method = rapt::make_method(s.method);
    options.method = method.get();
    if (s.causal) options.masks = masks;
    context.threads = s.threads;
    if (s.backward) forward = attend();
  }
  rapt::AttentionResult attend() const {
    return rapt::scaled_dot_product_attention(query, key, value, options, context);
  }
  void call() {
    if (!shape.backward) {
      (void)attend();
      return;
    }
    rapt::BackwardInputs inputs;
    inputs.state = forward.state(), inputs.d_output = d_output;
    (void)rapt::scaled_dot_product_attention_backward(query, key, value, options, inputs, {},
                                                      context);
  }
};

bench::CaseMaker maker_of(const Shape& s) {
  return {name_of_case(s), flops_of(s), [s] {
            const auto work = std::make_shared<LinearWork>(s);
            bench::TimedCase timed;
            timed.name = name_of_case(s), timed.flops = flops_of(s), timed.threads = s.threads;
            timed.call = [work] { work->call(); };
            return timed;
          }};
}

bool measure_all(const bench::Arguments& arguments) {
  std::vector<bench::CaseMaker> cases;
  const auto add = [&](const Shape& s) { cases.push_back(maker_of(s)); };
  for (const char* method : {"favor", "linear"})
    for (const bool causal : {false, true})
      for (const bool backward : {false, true}) {
        add({method, causal, backward, 1024});  // for --quick
        add({method, causal, backward});
      }
  for (const bool causal : {false, true}) {
    add({"", causal, false});
    for (const char* method : {"favor", "linear"})
      for (const bool backward : {false, true}) {
        Shape narrow{method, causal, backward};
        narrow.dtype = DType::bf16, add(narrow);
      }
    Shape favor{"favor", causal, false};
    favor.threads = 2, add(favor);
    favor.tokens = 8192, favor.heads = 8, add(favor);
    favor.threads = 1, add(favor);
  }
  return bench::measure_cases(arguments, "linear", cases);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_linear [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}
