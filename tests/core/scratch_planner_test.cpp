// Places in scratch memory: they lie apart, and one without memory is not read.
#include "base/scratch_planner.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/call_memory.h"

namespace {

using rapt::Per;
using rapt::Place;
using rapt::ScratchPlanner;

struct Range {
  size_t begin, end;
};

// The ranges begin at cache lines, in this order, and end before `bytes`.
void expect_apart(const std::vector<Range>& ranges, size_t bytes) {
  size_t before = 0;
  for (const Range& range : ranges) {
    EXPECT_EQ(range.begin % 64, 0u);
    EXPECT_GE(range.begin, before);
    before = range.end;
  }
  EXPECT_LE(before, bytes);
}

template <class T, Per kPer>
void place_one(ScratchPlanner<kPer>& planner, std::mt19937& random, std::vector<Range>& ranges) {
  const auto length = [&] { return static_cast<int64_t>(random() % 40); };
  const int64_t rows = length(), columns = length();
  Place<T, kPer> array;
  planner.place(array, {rows, columns});
  EXPECT_TRUE(array.exists());
  EXPECT_EQ(array.count(), rows * columns);
  ranges.push_back({array.begin(), array.begin() + static_cast<size_t>(array.count()) * sizeof(T)});
}

TEST(ScratchPlanner, ArraysLieApart) {
  std::mt19937 random(1);
  for (int n = 0; n < 200; ++n) {
    ScratchPlanner<Per::call> call;
    ScratchPlanner<Per::worker> worker;
    std::vector<Range> of_call, of_worker;
    for (auto left = random() % 10; left > 0; --left) {
      place_one<char>(call, random, of_call);
      place_one<double>(call, random, of_call);
      place_one<float>(worker, random, of_worker);
      place_one<int64_t>(worker, random, of_worker);
    }
    const auto workers = static_cast<int64_t>(random() % 5);
    const rapt::RepeatedMemory memory = call.repeat(worker, workers);
    of_call.push_back({memory.begin, memory.begin + static_cast<size_t>(workers) * memory.bytes});
    expect_apart(of_worker, memory.bytes);
    EXPECT_EQ(memory.bytes % 64, 0u);  // else the arrays of the second worker are not aligned
    const size_t total = call.total();
    expect_apart(of_call, total - 63);
    EXPECT_EQ(total, of_call.back().end + 63);
  }
}

TEST(ScratchPlanner, RowsOfAPlace) {
  ScratchPlanner<Per::worker> planner;
  Place<char> first;
  Place<float> rows, list;
  Place<float> absent;
  planner.place(first, {1});
  planner.place(rows, {2, 3, 5});
  planner.place(list, {7});
  planner.place_if(false, absent, {7});
  std::vector<std::byte> bytes(planner.total());
  const rapt::Workspace scratch(bytes, bytes.size());
  std::byte* const memory = scratch.begin();
  EXPECT_EQ(reinterpret_cast<std::byte*>(rows.in(memory)), memory + 64 + rapt::kScratchGap);
  EXPECT_EQ(rows.in(memory, 4) - rows.in(memory), 20);
  EXPECT_EQ(rows.columns(), 5);
  EXPECT_EQ(list.in(memory, 3) - list.in(memory), 3);
  EXPECT_FALSE(absent.exists());
  EXPECT_EQ(absent.in_or_null(memory), nullptr);
  EXPECT_EQ(list.in_or_null(memory, 3), list.in(memory, 3));
}

TEST(ScratchPlanner, TooManyBytesAreAnError) {
  const auto total = [](std::initializer_list<int64_t> lengths, int64_t times) {
    ScratchPlanner<Per::call> call;
    ScratchPlanner<Per::worker> worker;
    Place<double> array;
    worker.place(array, lengths);
    call.repeat(worker, times);
    return call.total();
  };
  const auto expect_overflow = [&](std::initializer_list<int64_t> lengths, int64_t times) {
    try {
      total(lengths, times);
      ADD_FAILURE() << "no error";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::overflow);
    }
  };
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_EQ(total({kHuge, 8}, 2), (size_t{kHuge} * 64 + rapt::kScratchGap) * 2 + 63);
  expect_overflow({kHuge, kHuge}, 1);
  expect_overflow({kHuge, 1 << 19}, 4);
  expect_overflow({INT64_MAX}, 1);
}

#ifndef NDEBUG
TEST(ScratchPlannerDeathTest, APlaceWithoutMemoryIsNotRead) {
  ScratchPlanner<Per::worker> planner;
  Place<float> forgotten, absent, rows;
  planner.place_if(false, absent, {2, 3});
  planner.place(rows, {2, 3});
  std::vector<std::byte> bytes(planner.total());
  const rapt::Workspace scratch(bytes, bytes.size());
  std::byte* const memory = scratch.begin();
  EXPECT_DEATH(absent.in(memory), "has_memory");
  EXPECT_DEATH(absent.columns(), "has_memory");
  EXPECT_DEATH(forgotten.in(memory), "has_memory");
  EXPECT_DEATH(forgotten.exists(), "kNotLaidOut");
  EXPECT_DEATH(forgotten.in_or_null(memory), "kNotLaidOut");
  EXPECT_DEATH(rows.in(memory, 3), "count_");
  EXPECT_DEATH(planner.place(rows, {2}), "begin_");
}
#endif

#ifdef RAPT_SCRATCH_GAPS
TEST(ScratchPlannerDeathTest, AnAccessBehindAnArrayIsReported) {
  ScratchPlanner<Per::call> planner;
  Place<float, Per::call> rows, list;
  planner.place(rows, {2, 3});
  planner.place(list, {16});
  std::vector<std::byte> memory(planner.total());
  volatile float *of_rows, *of_list;
  {
    const rapt::Workspace scratch(memory, memory.size());
    of_rows = rows.in(scratch.begin());
    of_list = list.in(scratch.begin(), 5);
    for (int n = 0; n < 6; ++n) of_rows[n] = 1;
    for (int n = -5; n < 11; ++n) of_list[n] = 1;
    EXPECT_DEATH(of_rows[6] = 1, "use-after-poison");
    EXPECT_DEATH(of_rows[20] = 1, "use-after-poison");
    EXPECT_DEATH(of_list[-6] = 1, "use-after-poison");
    EXPECT_DEATH(of_list[11] = 1, "use-after-poison");
  }
  of_rows[6] = of_list[11] = 1;  // the caller's again
}
#endif

}  // namespace
