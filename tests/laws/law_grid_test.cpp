// Every result of every kind of call against the reference: problems over all axes of axes.h.
//
// RAPT_LAW_COUNT is how many problems each instruction set gets.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "check/compare/comparison.h"
#include "check/draw/law_grid.h"
#include "support/problem_count.h"

namespace laws {
namespace {

// Of an instruction set. The scalar set gets half as many (tests/CMakeLists.txt).
constexpr int kStandardCount = 16'000;

int64_t law_count() {
  const char* chosen = std::getenv("RAPT_LAW_COUNT");
  return chosen ? std::atoll(chosen) : problem_count(kStandardCount);
}

// Every instruction set draws problems of its own.
uint64_t seed_of_set() {
  uint64_t seed = base_seed();
  const char* set = std::getenv("RAPT_ISA");
  for (const char* c = set ? set : ""; *c; ++c)
    seed = seed * 1099511628211u + static_cast<uint8_t>(*c);
  return seed;
}

// Whether scores are sums of equal terms: rows broadcast over head_dim, beside rows of one number.
// Such terms round alike, while bounds are those of roundings that are independent.
bool sums_equal_terms(const Descriptor& descriptor, const std::string& line) {
  const auto constant = [](const Side& rows) {
    return rows.repeated == static_cast<int>(rows.leading.size()) + 1;
  };
  const size_t set = line.find(":set=");
  return set != line.npos && line.find(",*]", set) != line.npos &&
         (constant(descriptor.query) || constant(descriptor.key));
}

TEST(LawGrid, AgreesWithTheReference) {
  LawGrid grid(seed_of_set(), InputKinds::any);
  const std::clock_t start = std::clock();
  int failures = 0;
  for (int64_t n = 0; n < law_count() && failures < 5; ++n) {
    const Descriptor descriptor = grid.next();
    const std::string line = to_string(descriptor);
    if (sums_equal_terms(descriptor, line)) continue;
    try {
      const Case c(descriptor);
      const Comparison comparison = compare(c, run(c));
      if (comparison.ok()) continue;
      ADD_FAILURE() << "rapt check '" << line << "'\n" << comparison.failures();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rapt check '" << line << "'\n" << error.what();
    }
    ++failures;
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%s%.3f ms of CPU time a problem\n", grid.table().c_str(),
              1e3 * seconds / static_cast<double>(grid.distinct()));
  if (failures == 0) {
    for (const std::string& pair : grid.missing_pairs()) ADD_FAILURE() << "never drawn: " << pair;
  }
}

// Problems that few draws find: an infinite score that is capped, an infinite weight, and rows in
// f32 of a method in bf16.
TEST(LawGrid, RareProblems) {
  for (const char* line :
       {"h1q193k1d4:f16>f32:layout=interleaved:mask=window(right=7,bottom-right,[1]):scale=-0.1:"
        "score=softcap(30):norm=softmax_plus_one:dropout=0.1,5463177517622799195:weights(168..175):"
        "set=query[0,0,1]=inf,key[0,0,0]=-inf,key[0,0,*]=inf:seed=2736009446",
        "q16k5d4:invariant:norm=relu(2):set=key[0,1]=-inf:seed=2842249134",
        "q256k3d9v10:bf16>f32:layout=negative:mask=causal(9):scale=-1:method=lsh(2,8,separate):"
        "precision=fast:weights([243,170,192]):magnitude=0.01:seed=2412111534"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const Comparison comparison = compare(c, run(c));
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
  }
}

// A descriptor line reads back as the same problem.
TEST(LawGrid, DescriptorsReadBack) {
  LawGrid grid(seed_of_set(), InputKinds::any);
  for (int64_t n = 0; n < law_count() && !HasFailure(); ++n) {
    const Descriptor drawn = grid.next();
    const std::string line = to_string(drawn);
    SCOPED_TRACE(line);
    const Descriptor read = parse_descriptor(line);
    EXPECT_EQ(read, drawn);
    EXPECT_EQ(to_string(read), line);
  }
}

}  // namespace
}  // namespace laws
