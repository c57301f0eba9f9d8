// Invalid heatmaps and the messages of their errors.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "rapt/error.h"
#include "viz/examples.h"

namespace rapt::viz {
namespace {

void expect_error(const std::function<void(Heatmap&)>& spoil, ErrorCode code,
                  const std::string& words) {
  Heatmap map = test::two_tokens();
  spoil(map);
  const std::function<void()> draw[] = {[&] { to_svg(map); }, [&] { to_png(map); },
                                        [&] { to_terminal(map, {}); }};
  for (const auto& one : draw) {
    try {
      one();
      ADD_FAILURE() << "no error; expected " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

TEST(HeatmapErrors, SizesMustFit) {
  const ErrorCode code = ErrorCode::shape;
  expect_error([](Heatmap& m) { m = {}; }, code, "got [0, 0]");
  expect_error([](Heatmap& m) { m.columns = -2; }, code, "got [2, -2]");
  expect_error([](Heatmap& m) { m.values.pop_back(); }, code, "[2, 2], got 3");
  expect_error([](Heatmap& m) { m.values.push_back(0); }, code, "[2, 2], got 5");
  // 2^33 * 2^31 wraps to 0 in 64 bits.
  expect_error([](Heatmap& m) { m = {.rows = int64_t{1} << 33, .columns = int64_t{1} << 31}; },
               code, "got 0");
  expect_error([](Heatmap& m) { m.allowed = {1, 1, 1}; }, code, "[2, 2] or none, got 3");
  expect_error([](Heatmap& m) { m.hatched = {1, 1, 1}; }, code, "hatching with one entry");
  expect_error([](Heatmap& m) { m.row_labels = {"a"}; }, code, "2 row labels or none, got 1");
  expect_error(
      [](Heatmap& m) {
        m.column_labels = {"a", "b", "c"};
      },
      code, "2 column labels or none, got 3");
}

TEST(HeatmapErrors, RangesAndDecimalsMustMakeSense) {
  const ErrorCode code = ErrorCode::argument;
  expect_error([](Heatmap& m) { m.range = ValueRange{1, 1}; }, code, "low < high");
  expect_error(
      [](Heatmap& m) {
        m.range = ValueRange{0, std::numeric_limits<double>::infinity()};
      },
      code, "finite range");
  expect_error([](Heatmap& m) { m.range = ValueRange{-1e308, 1e308}; }, code, "finite range");
  expect_error([](Heatmap& m) { m.decimals = 10; }, code, "0 to 9 decimals, got 10");
  expect_error([](Heatmap& m) { m.decimals = -1; }, code, "got -1");
  expect_error([](Heatmap& m) { m.colors = {}; }, code, "two stops, got 0");
  expect_error([](Heatmap& m) { m.positions_per_row = 0; }, code, "above 0, got 0");
}

TEST(HeatmapErrors, NumbersInTooManyCellsAreRefused) {
  expect_error(
      [](Heatmap& m) {
        m = test::weights(2, kMaxVectorCells + 1, test::Mask::none);
        m.annotate = Annotate::always;
      },
      ErrorCode::unsupported, "got [2, 65]");
}

TEST(HeatmapErrors, NumbersThatDoNotFitTheTerminalAreRefused) {
  Heatmap map = test::weights(20, 20, test::Mask::none);
  map.annotate = Annotate::always;
  EXPECT_NO_THROW(to_terminal(map, {.width = 200}));
  try {
    to_terminal(map, {.width = 80});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

TEST(HeatmapErrors, TerminalMustHaveSomeWidth) {
  EXPECT_NO_THROW(to_terminal(test::two_tokens(), {.width = kMinTerminalWidth}));
  EXPECT_THROW(to_terminal(test::two_tokens(), {.width = kMinTerminalWidth - 1}), Error);
}

}  // namespace
}  // namespace rapt::viz
