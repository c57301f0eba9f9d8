// The tutorial's worked example in C99: two tokens, embeddings [1 2 3] and [4 5 6] after their
// projections, causal and full, in the caller's memory. Exits with 1 at the first number that
// differs from the printed one.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rapt/rapt_c.h"

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  printf("failed: %s (last error: %s)\n", what, rapt_last_error());
  ++failures;
}

static void expect_numbers(const char* what, const float* got, const float* expected, int count) {
  int i;
  for (i = 0; i < count; ++i)
    if (fabs((double)got[i] - (double)expected[i]) > 5e-5) {  // half of the last printed digit
      printf("failed: %s[%d] is %.6f, expected %.4f\n", what, i, (double)got[i],
             (double)expected[i]);
      ++failures;
    }
}

static rapt_tensor matrix(float* data, const int64_t* shape, int read_only) {
  rapt_tensor t = {.size = sizeof t};
  t.data = data;
  t.dtype = RAPT_F32;
  t.read_only = read_only;
  t.rank = 2;
  t.shape = shape;
  return t;
}

int main(void) {
  float query_data[4] = {0.14f, 0.10f, 0.32f, 0.28f};  // [2, 2]
  float key_data[4] = {0.38f, 0.30f, 0.92f, 0.75f};    // [2, 2]
  float value_data[4] = {0.07f, 0.09f, 0.19f, 0.24f};  // [2, 2]
  float output_data[4], weights_data[4], lse_data[2];
  static unsigned char workspace[1 << 20];
  const int64_t shape[2] = {2, 2};
  const float weights[4] = {0.4787f, 0.5213f, 0.4474f, 0.5526f};
  const float outputs[4] = {0.1326f, 0.1682f, 0.1363f, 0.1729f};
  const float causal_weights[4] = {1, 0, 0.4474f, 0.5526f};
  const float causal_outputs[4] = {0.07f, 0.09f, 0.1363f, 0.1729f};

  const rapt_tensor query = matrix(query_data, shape, 1);
  const rapt_tensor key = matrix(key_data, shape, 1);
  const rapt_tensor value = matrix(value_data, shape, 1);
  const rapt_tensor output = matrix(output_data, shape, 0);
  const rapt_tensor weights_out = matrix(weights_data, shape, 0);
  rapt_tensor lse = matrix(lse_data, shape, 0);
  rapt_weights_request all_rows = {.size = sizeof all_rows};
  rapt_options options = {.size = sizeof options};
  rapt_results results = {.size = sizeof results};
  rapt_variant causal = {.size = sizeof causal};
  const rapt_variant* masks[1];
  rapt_plan_info plan = {.size = sizeof plan};
  lse.rank = 1;
  options.weights = &all_rows;
  results.output = &output;
  results.statistic = &lse;
  results.weights = &weights_out;

  expect(rapt_plan(&query, &key, &value, &options, NULL, &plan) == RAPT_OK, "plan");
  expect(plan.allowed_scores == 4, "4 allowed scores");
  expect(plan.workspace_bytes <= sizeof workspace, "workspace fits");
  expect(plan.statistic == RAPT_STATISTIC_LSE, "softmax leaves an lse");

  expect(rapt_attention_forward(&query, &key, &value, &options, &results, workspace,
                                sizeof workspace, NULL) == RAPT_OK,
         "forward");
  expect_numbers("weights", weights_data, weights, 4);
  expect_numbers("output", output_data, outputs, 4);

  causal.spec = "causal";
  masks[0] = &causal;
  options.masks = masks;
  options.mask_count = 1;
  expect(rapt_attention_forward(&query, &key, &value, &options, &results, NULL, 0, NULL) == RAPT_OK,
         "causal forward, workspace allocated inside");
  expect_numbers("causal weights", weights_data, causal_weights, 4);
  expect_numbers("causal output", output_data, causal_outputs, 4);

  causal.spec = "casual";
  expect(rapt_attention_forward(&query, &key, &value, &options, &results, NULL, 0, NULL) ==
             RAPT_ERROR_UNKNOWN_NAME,
         "a misspelt mask");
  expect(strstr(rapt_last_error(), "did you mean causal?") != NULL, "the suggestion");

  if (!failures) printf("rapt %s: worked example in C99 is right\n", rapt_build_info());
  return failures != 0;
}
