// Calls that several threads share, over all axes of axes.h, have the bits of calls of one thread.
// The number of threads decides how many queries a unit has, and which chunks of keys are tasks.
#include <gtest/gtest.h>

#include <initializer_list>

#include "check/compare/comparison.h"
#include "check/draw/law_grid.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

// PyTorch #88718: the result depended on the number of threads.
TEST(SharedWork, reg_thread_count_bits) {
  LawGrid grid(base_seed() + 7, InputKinds::any, Work::shared);
  Random random(base_seed() + 7);
  Threads two(2), three(3), nine(9);
  Shuffled shuffled(random.next(), 5);
  int shared = 0;
  const int count = problem_count(120);
  for (int n = 0; n < count && !HasFailure();) {
    const Descriptor descriptor = grid.next();
    if (!descriptor.elements.empty()) continue;  // NaN may have another sign
    ++n;
    const Case c(descriptor);
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
    const Case::Inputs in = c.laid_out();
    Context context;
    context.threads = 1;
    const AttentionResult alone = run(c, context);
    context.threads = 0;
    for (rapt::Executor* const executor :
         std::initializer_list<rapt::Executor*>{&two, &three, &nine, &shuffled}) {
      context.executor = executor;
      EXPECT_TRUE(same_captures(run(c, context), alone))
          << "RAPT_THREADS=" << executor->concurrency();
    }
    shared += rapt::plan(in.query, in.key, in.value, c.wanted_options(), context).threads > 1;
  }
  EXPECT_GT(shared, count / 2) << "too little work";
}

}  // namespace
}  // namespace laws
