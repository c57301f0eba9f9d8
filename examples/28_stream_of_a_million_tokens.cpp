// A stream of a million tokens by linear attention: parts of 4,096 tokens with a state between
// them, then one token at a time. Memory does not grow with the stream, and a token behind a
// million others costs as much as the first. The parts have the bits of one call over the whole
// stream.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kTokens = 1 << 20, kPart = 4096, kDim = 16, kFeatures = 64, kChecked = 3 * kPart;

// The query, key and value of tokens [first, first + count): slow waves, so that a token resembles
// those of the same phase.
struct Tokens {
  std::vector<float> query, key, value;

  Tokens(int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      for (int64_t d = 0; d < kDim; ++d) {
        const float angle = 0.001f * static_cast<float>(t % 6283 * (d + 1));
        query.push_back(std::sin(angle)), key.push_back(std::sin(angle));
        value.push_back(std::cos(angle));
      }
  }
  int64_t count() const { return static_cast<int64_t>(query.size()) / kDim; }
};

// Attends within a stream of which `favor` has the state.
rapt::Tensor attend(const rapt::Favor& favor, const Tokens& tokens) {
  const auto rows = [&](const std::vector<float>& numbers) {
    return rapt::TensorView(numbers.data(), {tokens.count(), kDim});
  };
  const rapt::Causal causal;
  rapt::AttentionResult result =
      rapt::scaled_dot_product_attention(rows(tokens.query), rows(tokens.key), rows(tokens.value),
                                         {.masks = {&causal}, .method = &favor});
  return std::move(result.output);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int run() {
  const rapt::Tensor projection = rapt::favor_projection(kFeatures, kDim);
  rapt::Tensor states[2] = {rapt::Tensor(rapt::DType::f32, {kFeatures + 1, kDim + 1}),
                            rapt::Tensor(rapt::DType::f32, {kFeatures + 1, kDim + 1})};
  rapt::Favor favor;
  favor.features = kFeatures, favor.projection = projection.view();

  const rapt::Tensor whole = attend(favor, Tokens(0, kChecked));
  int now = 0;
  bool same = true;
  const double begin = seconds();
  for (int64_t first = 0; first < kTokens; first += kPart) {
    favor.final_state = states[1 - now].view();
    const rapt::Tensor output = attend(favor, Tokens(first, kPart));
    if (first < kChecked)
      same &=
          std::memcmp(output.values<float>().data(), whole.values<float>().data() + first * kDim,
                      output.values<float>().size_bytes()) == 0;
    now = 1 - now;
    favor.initial_state = states[now].view();
  }
  std::printf("%lld tokens in parts of %lld: %.2f s; state of %lld numbers\n",
              static_cast<long long>(kTokens), static_cast<long long>(kPart), seconds() - begin,
              static_cast<long long>(states[0].count()));
  std::printf("the first parts have the bits of one call: %s\n", same ? "yes" : "no");

  const double before = seconds();
  constexpr int64_t kSingle = 1000;
  float last = 0;
  for (int64_t t = kTokens; t < kTokens + kSingle; ++t) {
    favor.final_state = states[1 - now].view();
    const rapt::Tensor output = attend(favor, Tokens(t, 1));
    last = output.values<float>()[0];
    now = 1 - now;
    favor.initial_state = states[now].view();
  }
  std::printf("then %lld tokens one by one: %.1f us each; the last output begins with %.3f\n",
              static_cast<long long>(kSingle),
              (seconds() - before) / static_cast<double>(kSingle) * 1e6, static_cast<double>(last));
  return same ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
