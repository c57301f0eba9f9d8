// Calls that several threads share, over all axes of axes.h, have the bits of calls of one thread.
// The number of threads decides how many queries a unit has, and which chunks of keys are tasks.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "check/compare/comparison.h"
#include "check/draw/law_grid.h"
#include "check/problem/parse_masks.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

// Calls of 2, 3, 5 and 9 workers must have the bits of one thread. False: threads do not share it.
bool expect_bits_of_one_thread(const Descriptor& descriptor) {
  const Case c(descriptor);
  SCOPED_TRACE("rapt check '" + to_string(descriptor) + "'");
  Threads two(2), three(3), nine(9);
  Shuffled shuffled(descriptor.seed, 5);
  const Case::Inputs in = c.laid_out();
  Context context;
  context.executor = &nine;
  if (rapt::plan(in.query, in.key, in.value, c.wanted_options(), context).threads == 1)
    return false;
  Context one;
  one.threads = 1;
  const AttentionResult alone = run(c, one);
  for (rapt::Executor* const executor :
       std::initializer_list<rapt::Executor*>{&two, &three, &nine, &shuffled}) {
    context.executor = executor;
    EXPECT_TRUE(same_captures(run(c, context), alone))
        << "RAPT_THREADS=" << executor->concurrency();
  }
  return true;
}

// Draws `count` problems that threads share and that accept(descriptor), which may change them,
// returns true for, until one fails. Returns how many of them sum their keys in several chunks.
template <class Accept>
int for_shared_problems(int count, uint64_t seed, const Accept& accept) {
  LawGrid grid(seed, InputKinds::any, Work::shared);
  int shared = 0, in_chunks = 0;
  for (int left = 20 * count + 100; shared < count && left > 0; --left) {
    Descriptor descriptor = grid.next();
    if (!descriptor.elements.empty() || !accept(descriptor))
      continue;  // a NaN may have either sign
    if (!expect_bits_of_one_thread(descriptor)) continue;
    ++shared;
    const bool own_rows = descriptor.packed == 0 || descriptor.cache;
    in_chunks += descriptor.method.empty() && own_rows && descriptor.k_len > 1024;
    if (testing::Test::HasFailure()) return in_chunks;
  }
  EXPECT_EQ(shared, count) << "too little work";
  return in_chunks;
}

// PyTorch #88718: the result depended on the number of threads.
TEST(SharedWork, reg_thread_count_bits) {
  const int count = problem_count(50);
  const auto any = [](Descriptor&) { return true; };
  const int in_chunks = for_shared_problems(count, base_seed() + 7, any);
  if (!HasFailure()) {
    EXPECT_GE(in_chunks, count / 20) << "too few long rows";
  }
}

// Where masks attend by groups of queries, tiles end with groups. A unit of one such tile may be
// narrower than the tiles of passes after the main one.
TEST(SharedWork, TilesOfGroups) {
  Random random(base_seed() + 8);
  for_shared_problems(problem_count(25), base_seed() + 8, [&](Descriptor& d) {
    if (!d.method.empty() || d.q_len < 32) return false;
    const std::string size = std::to_string(random.pick({16, 24, 32, 48, 64, 96, 128}));
    const std::string mask = random.chance(0.5)
                                 ? "bigbird(block=" + size + ",window=3,global=1,random=0)"
                                 : "chunked(size=" + size + ",back=1,forward=0)";
    check::Scanner in(mask);
    d.masks = parse_masks(in, d);
    if (d.packed > 0 || d.cache) return true;
    d.captures.received = true;
    auto& map = d.captures.map.emplace();
    map.rows = 3, map.columns = 5;
    return true;
  });
}

}  // namespace
}  // namespace laws
