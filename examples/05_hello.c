/* Shows the C interface: attention on two words, into the caller's memory. */
#include <stdint.h>
#include <stdio.h>

#include "rapt/rapt_c.h"

int main(void) {
  float query[] = {0.14f, 0.10f, 0.32f, 0.28f}; /* [2, 2] q_len, head_dim */
  float key[] = {0.38f, 0.30f, 0.92f, 0.75f};   /* [2, 2] k_len, head_dim */
  float value[] = {0.07f, 0.09f, 0.19f, 0.24f}; /* [2, 2] k_len, value_dim */
  float output[4];                              /* [2, 2] q_len, value_dim */
  float lse[2];                                 /* [2] q_len */

  const int64_t matrix[] = {2, 2}, vector[] = {2};
  /* What is not named is zero, and means: dense, on the CPU. */
  const rapt_tensor q = {
      .size = sizeof q, .data = query, .dtype = RAPT_F32, .rank = 2, .shape = matrix};
  const rapt_tensor k = {
      .size = sizeof k, .data = key, .dtype = RAPT_F32, .rank = 2, .shape = matrix};
  const rapt_tensor v = {
      .size = sizeof v, .data = value, .dtype = RAPT_F32, .rank = 2, .shape = matrix};
  const rapt_tensor o = {
      .size = sizeof o, .data = output, .dtype = RAPT_F32, .rank = 2, .shape = matrix};
  const rapt_tensor s = {
      .size = sizeof s, .data = lse, .dtype = RAPT_F32, .rank = 1, .shape = vector};
  const rapt_results results = {.size = sizeof results, .output = &o, .statistic = &s};

  /* No options, no workspace of our own, no context. */
  if (rapt_attention_forward(&q, &k, &v, NULL, &results, NULL, 0, NULL) != RAPT_OK) {
    fprintf(stderr, "%s\n", rapt_last_error());
    return 1;
  }
  for (int i = 0; i < 2; ++i)
    printf("word %d: output %.4f %.4f   lse %.4f\n", i, output[2 * i], output[2 * i + 1], lse[i]);
  printf("rapt %s\n", rapt_build_info());
  return 0;
}
