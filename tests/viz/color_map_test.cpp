#include "rapt/viz/color_map.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "rapt/error.h"

namespace rapt::viz {
namespace {

TEST(ColorMap, HitsItsStopsAndMixesBetweenThem) {
  const ColorMap& tutorial = color_map("tutorial");
  EXPECT_EQ(tutorial.at(0), (Color{0xe9, 0xec, 0xef}));
  EXPECT_EQ(tutorial.at(0.5), (Color{0x74, 0xc0, 0xfc}));
  EXPECT_EQ(tutorial.at(1), (Color{0x1c, 0x7e, 0xd6}));
  EXPECT_EQ(tutorial.at(0.25), (Color{0xaf, 0xd6, 0xf6}));  // (e9+74)/2, (ec+c0)/2, (ef+fc)/2
  EXPECT_EQ(color_map("blues").at(0.125), (Color{0xde, 0xeb, 0xf7}));
}

TEST(ColorMap, TakesItsEndsBeyondThem) {
  for (const ColorMap& map : color_maps()) {
    EXPECT_EQ(map.at(-3), map.stops.front()) << map.name;
    EXPECT_EQ(map.at(std::numeric_limits<double>::infinity()), map.stops.back()) << map.name;
  }
}

TEST(ColorMap, IsFoundInAnyCase) { EXPECT_EQ(color_map("Blues").name, "blues"); }

TEST(ColorMap, UnknownNameListsTheKnownOnes) {
  try {
    color_map("rainbow");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unknown_name);
    const std::string message = error.what();
    for (const char* word : {"rainbow", "blues", "tutorial", "viridis", "greys"})
      EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace rapt::viz
