// Compares pictures with files that a person has checked. RAPT_UPDATE_GOLDEN=1 rewrites these
// files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "viz/examples.h"

namespace rapt::viz {
namespace {

void expect_golden(const std::string& name, const std::string& drawn) {
  const std::string path = std::string(RAPT_GOLDEN_DIR) + "/" + name;
  const char* update = std::getenv("RAPT_UPDATE_GOLDEN");
  if (update && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << drawn;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << "no " << path << "; RAPT_UPDATE_GOLDEN=1 writes it";
  std::ostringstream wanted;
  wanted << file.rdbuf();
  EXPECT_EQ(drawn, wanted.str()) << "differs from " << path
                                 << "; if that is meant, RAPT_UPDATE_GOLDEN=1 rewrites it";
}

struct Case {
  const char* name;
  Heatmap map;
  int width;
};

Heatmap words() {
  Heatmap map = test::weights(14, 14, test::Mask::causal);
  map.row_labels = {"When", "the", "rain", "stopped", ",",   "we",     "walked",
                    "back", "to",  "the",  "harbour", "for", "coffee", "."};
  map.column_labels = map.row_labels;
  return map;
}

Heatmap pooled() {
  Heatmap map = test::weights(150, 150, test::Mask::causal);
  map.range = ValueRange{0, 0.1};
  return map;
}

Heatmap allowed_pairs() {
  Heatmap map = test::weights(6, 6, test::Mask::causal);
  for (size_t i = 0; i < map.values.size(); ++i) map.values[i] = map.allowed[i];
  map.annotate = Annotate::never;
  map.legend = Legend::allowed;
  return map;
}

Heatmap scripts() {
  Heatmap map = test::weights(6, 6, test::Mask::none);
  map.row_labels = {"שלום!", "مرحبا", "こんにちは", "नमस्ते", "👩\u200d💻", "Zürich"};
  map.column_labels = map.row_labels;
  return map;
}

class GoldenTerminal : public testing::TestWithParam<Case> {};
class GoldenSvg : public testing::TestWithParam<Case> {};

std::string name_of(const testing::TestParamInfo<Case>& parameter) { return parameter.param.name; }

TEST_P(GoldenTerminal, Truecolor) {
  expect_golden(std::string(GetParam().name) + ".truecolor.txt",
                to_terminal(GetParam().map, {TerminalColor::truecolor, GetParam().width}));
}
TEST_P(GoldenTerminal, Palette256) {
  expect_golden(std::string(GetParam().name) + ".256.txt",
                to_terminal(GetParam().map, {TerminalColor::palette256, GetParam().width}));
}
TEST_P(GoldenTerminal, Ascii) {
  expect_golden(std::string(GetParam().name) + ".ascii.txt",
                to_terminal(GetParam().map, {TerminalColor::ascii, GetParam().width}));
}
TEST_P(GoldenSvg, Document) {
  expect_golden(std::string(GetParam().name) + ".svg", to_svg(GetParam().map));
}

TEST(GoldenLineChart, Documents) {
  expect_golden("losses.svg", to_svg(test::losses()));
  expect_golden("times.svg", to_svg(test::times()));
}
TEST(GoldenLineChart, Terminal) {
  expect_golden("times.ascii.txt", to_terminal(test::times(), {TerminalColor::ascii, 80}));
  expect_golden("times.truecolor.txt", to_terminal(test::times(), {TerminalColor::truecolor, 80}));
  expect_golden("losses.ascii.txt", to_terminal(test::losses(), {TerminalColor::ascii, 60}));
}

const Case kSmall[] = {{"two_tokens", test::two_tokens(), 80},
                       {"four_tokens", test::four_tokens(), 80},
                       {"four_tokens_in_three_stops", test::four_tokens_in_three_stops(), 80},
                       {"causal_with_faults", test::causal_with_faults(), 80},
                       {"hostile_labels", test::hostile_labels(), 80},
                       {"allowed_pairs", allowed_pairs(), 80},
                       {"scripts", scripts(), 80}};
const Case kLarge[] = {{"words", words(), 60}, {"pooled", pooled(), 60}};

INSTANTIATE_TEST_SUITE_P(Small, GoldenTerminal, testing::ValuesIn(kSmall), name_of);
INSTANTIATE_TEST_SUITE_P(Large, GoldenTerminal, testing::ValuesIn(kLarge), name_of);
// Only small maps, so that a person can read the file.
INSTANTIATE_TEST_SUITE_P(Small, GoldenSvg, testing::ValuesIn(kSmall), name_of);

}  // namespace
}  // namespace rapt::viz
