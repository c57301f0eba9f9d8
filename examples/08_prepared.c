/* Shows how an engine calls rapt in C: what does not change is prepared once, and the call that is
 * made for every token reads no text and allocates nothing. Keys and values go to the end of a
 * cache, and each new token tells which keys it looks at most. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rapt/rapt_c.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 16, PROMPT = 40, TOKENS = 100, TOP = 3 };

static float query[HEADS][TOKENS][DIM];
static float key_cache[KV_HEADS][TOKENS][DIM], value_cache[KV_HEADS][TOKENS][DIM];
static float output[HEADS][TOKENS][DIM], output_at_once[HEADS][TOKENS][DIM];

/* A tensor [heads, rows, dims] and its lengths and strides, in elements. */
typedef struct {
  int64_t shape[3], strides[3];
  rapt_tensor tensor;
} View;

static const rapt_tensor* look(View* view, void* data, rapt_dtype dtype, int64_t heads,
                               int64_t rows, int64_t dims, int64_t from_head_to_head) {
  const rapt_tensor tensor = {.size = sizeof tensor,
                              .data = data,
                              .dtype = dtype,
                              .rank = 3,
                              .shape = view->shape,
                              .strides = view->strides};
  view->shape[0] = heads, view->shape[1] = rows, view->shape[2] = dims;
  view->strides[0] = from_head_to_head, view->strides[1] = dims, view->strides[2] = 1;
  view->tensor = tensor;
  return &view->tensor;
}

static void check(rapt_status status) {
  if (status == RAPT_OK) return;
  fprintf(stderr, "%s: %s\n", rapt_status_name(status), rapt_last_error());
  exit(1);
}

/* Made-up projections of token t. */
static void project(int t) {
  for (int i = 0; i < HEADS * DIM; ++i) query[i / DIM][t][i % DIM] = 2 * sinf((float)(t * 7 + i));
  for (int i = 0; i < KV_HEADS * DIM; ++i) {
    key_cache[i / DIM][t][i % DIM] = 2 * cosf((float)(t * 5 + i * 2));
    value_cache[i / DIM][t][i % DIM] = sinf((float)(t * 3 + i));
  }
}

int main(void) {
  /* Bottom-right: the last query stands at the last key. Invariant: the bits of a token do not
   * depend on how many others are in the call. */
  const rapt_variant causal = {.size = sizeof causal, .spec = "causal(bottom-right)"};
  const rapt_variant* const masks[] = {&causal};
  const rapt_options options = {
      .size = sizeof options, .mask_count = 1, .masks = masks, .top_k = TOP, .invariant = 1};
  rapt_prepared* prepared;
  check(rapt_prepare(&options, NULL, &prepared));

  View q, k, v, o, keys, weights;
  int64_t top_keys[HEADS][TOP];
  float top_weights[HEADS][TOP];
  rapt_results results = {.size = sizeof results};
  results.top_keys = look(&keys, top_keys, RAPT_I64, HEADS, 1, TOP, TOP);
  results.top_weights = look(&weights, top_weights, RAPT_F32, HEADS, 1, TOP, TOP);
  const int64_t head = TOKENS * DIM; /* elements from one head to the next */

  size_t room = 0, needed;
  void* workspace = NULL;
  for (int t = 0; t < TOKENS; ++t) {
    project(t);
    if (t < PROMPT) continue;
    const rapt_tensor* newest = look(&q, query[0][t], RAPT_F32, HEADS, 1, DIM, head);
    const rapt_tensor* all_keys = look(&k, key_cache, RAPT_F32, KV_HEADS, t + 1, DIM, head);
    const rapt_tensor* all_values = look(&v, value_cache, RAPT_F32, KV_HEADS, t + 1, DIM, head);
    results.output = look(&o, output[0][t], RAPT_F32, HEADS, 1, DIM, head);

    check(rapt_prepared_workspace_bytes(prepared, newest, all_keys, all_values, &needed));
    if (needed > room) { /* for the first token only */
      free(workspace);
      if (!(workspace = malloc(room = needed))) return 1;
      printf("token %d: a workspace of %zu bytes\n", t, room);
    }
    check(rapt_prepared_forward(prepared, newest, all_keys, all_values, &results, workspace, room));
    if (t % 20 == 19)
      printf("token %d, head 0, looks at %d (%.3f), %d (%.3f) and %d (%.3f)\n", t,
             (int)top_keys[0][0], top_weights[0][0], (int)top_keys[0][1], top_weights[0][1],
             (int)top_keys[0][2], top_weights[0][2]);
  }
  free(workspace);
  rapt_prepared_destroy(prepared);

  /* The same tokens in one call: other tiles, the same bits. */
  const rapt_options plain = {
      .size = sizeof plain, .mask_count = 1, .masks = masks, .invariant = 1};
  const rapt_results at_once = {
      .size = sizeof at_once,
      .output = look(&o, output_at_once, RAPT_F32, HEADS, TOKENS, DIM, head)};
  check(rapt_attention_forward(look(&q, query, RAPT_F32, HEADS, TOKENS, DIM, head),
                               look(&k, key_cache, RAPT_F32, KV_HEADS, TOKENS, DIM, head),
                               look(&v, value_cache, RAPT_F32, KV_HEADS, TOKENS, DIM, head), &plain,
                               &at_once, NULL, 0, NULL));
  int same = 1;
  for (int h = 0; h < HEADS; ++h)
    for (int t = PROMPT; t < TOKENS; ++t)
      same &= memcmp(output[h][t], output_at_once[h][t], sizeof output[h][t]) == 0;
  printf("token by token and at once: %s\n", same ? "the same bits" : "NOT THE SAME");
  return !same;
}
