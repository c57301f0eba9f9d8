// 100,000 steps of random programs, compared with a plain model; and calls that read the cache,
// compared with calls on the keys of each sequence alone.
#include <gtest/gtest.h>

#include "check/cache/cache_program.h"
#include "check/tensors/random.h"
#include "rapt/attention.h"
#include "rapt/mask/causal.h"
#include "support/sanitizers.h"

namespace {

using check::CacheProgram;
using check::difference_of_bits;
using check::Random;
using rapt::Tensor;
using rapt::TensorView;

// [1, num_kv_heads, length, dim]
TensorView as_batch(const Tensor& rows) {
  const TensorView view = rows;
  return TensorView(view.data, view.dtype,
                    check::Dims{1, view.shape[0], view.shape[1], view.shape[2]}, true);
}

// Of one sequence out of all.
Tensor part(const Tensor& all, int64_t s) { return Tensor::copy_of(all.view().slice(0, s, s + 1)); }

void compare_calls(const CacheProgram& program, Random& random) {
  const rapt::KeyValueCacheOptions& o = program.cache().options();
  const int64_t num_heads = o.num_kv_heads * random.between(1, 3), q_len = random.between(1, 3);
  const Tensor query =
      check::random_normal(random, o.dtype, {o.sequences, num_heads, q_len, o.head_dim});
  const rapt::CacheViews views = program.cache().views();
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  const rapt::AttentionResult all = scaled_dot_product_attention(
      query, views.key, views.value, {.masks = {&causal}, .invariant = true, .cache = views.cache});
  for (int64_t s = 0; s < o.sequences; ++s) {
    const Tensor keys = program.keys(s), values = program.values(s);
    const rapt::AttentionResult alone =
        scaled_dot_product_attention(query.view().slice(0, s, s + 1), as_batch(keys),
                                     as_batch(values), {.masks = {&causal}, .invariant = true});
    EXPECT_FALSE(difference_of_bits(part(all.output, s), alone.output)) << "sequence " << s;
    EXPECT_FALSE(difference_of_bits(part(all.statistic, s), alone.statistic)) << "sequence " << s;
  }
}

TEST(CacheProgram, EqualsThePlainModelAndCallsOnIt) {
  constexpr int kPrograms = RAPT_SANITIZED ? 20 : 100;
  for (int seed = 1; seed <= kPrograms; ++seed) {
    SCOPED_TRACE(seed);
    Random random(static_cast<uint64_t>(seed));
    CacheProgram program([&](int64_t count) { return random.between(0, count - 1); });
    for (int step = 0; step < 1000; ++step) ASSERT_NO_THROW(program.step()) << "step " << step;
    compare_calls(program, random);
  }
}

}  // namespace
