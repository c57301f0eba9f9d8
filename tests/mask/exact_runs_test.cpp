// Runs of single masks without tensors have no slack for queries with a step of 1: every key of a
// run is one that some of the queries may attend to.
#include <gtest/gtest.h>

#include "mask/bound_head.h"
#include "mask/mask_forest.h"

namespace laws {
namespace {

void expect_exact_runs(const MaskNode& node, Random& random, int64_t q_len, int64_t k_len) {
  const Dims leading{0, 0};
  const BoundHead head(*node.mask, q_len, k_len, leading);
  rapt::Positions queries;
  queries.start = random.between(0, q_len - 1);
  queries.count = random.between(1, std::min<int64_t>(q_len - queries.start, 64));
  const std::vector<bool> in_runs = head.keys_of_runs(queries);
  for (int64_t j = 0; j < k_len; ++j) {
    bool attended = false;
    for (int64_t i = 0; !attended && i < queries.count; ++i)
      attended = node.allowed(leading, queries[i], j);
    ASSERT_EQ(in_runs[static_cast<size_t>(j)], attended)
        << "key " << j << " of queries " << queries.start << " to " << queries.last();
  }
}

TEST(ExactRuns, OfSingleMasksWithoutTensors) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(600) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 150), k_len = random.between(1, 300);
    MaskForest forest(random, q_len, k_len);
    const MaskNode& node = forest.leaf(Leaves::without_tensors);
    SCOPED_TRACE(to_string(*node.mask) + " of " + std::to_string(q_len) + " queries, " +
                 std::to_string(k_len) + " keys");
    for (int tile = 0; tile < 4; ++tile) expect_exact_runs(node, random, q_len, k_len);
  }
}

}  // namespace
}  // namespace laws
