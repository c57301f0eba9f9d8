// A user's program: attention on the tutorial's two tokens, with results by hand to four decimals.
//   query, key, value [2, 2] -> output [2, 2], scale 1 / sqrt(2)
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "rapt/rapt.h"

int main() {
  const float query[] = {.14f, .10f, .32f, .28f};          // [2, 2]
  const float key[] = {.38f, .30f, .92f, .75f};            // [2, 2]
  const float value[] = {.07f, .09f, .19f, .24f};          // [2, 2]
  const double expected[] = {.1326, .1682, .1363, .1729};  // [2, 2]
  const rapt::AttentionResult result = rapt::scaled_dot_product_attention(
      rapt::TensorView(query, {2, 2}), rapt::TensorView(key, {2, 2}),
      rapt::TensorView(value, {2, 2}));
  const auto output = result.output.values<float>();

  int wrong = output.size() == 4 ? 0 : 1;
  for (std::size_t i = 0; i < output.size() && i < 4; ++i) {
    std::printf("%.4f (expected %.4f)\n", static_cast<double>(output[i]), expected[i]);
    if (std::abs(static_cast<double>(output[i]) - expected[i]) > 0.00005) ++wrong;
  }
  if (std::strstr(rapt::build_info(), rapt::version()) != rapt::build_info()) ++wrong;
  std::printf("%s\n", rapt::build_info());
  return wrong;
}
