// Terminal pictures fit the width and contain no escape sequences but rapt's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>

#include "viz/examples.h"
#include "viz/terminal/terminal_text.h"
#include "viz/text/label_text.h"

namespace rapt::viz {
namespace {

constexpr TerminalColor kColors[] = {TerminalColor::truecolor, TerminalColor::palette256,
                                     TerminalColor::ascii};

// The text without colour sequences: ESC [ digits and semicolons m.
std::string without_colors(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    if (text.compare(at, 2, "\x1b[") == 0) end = text.find_first_not_of("0123456789;", at + 2);
    if (end > at && end < text.size() && text[end] == 'm') {
      at = end + 1;
    } else {
      plain += text[at++];
    }
  }
  return plain;
}

// The text without the marks that isolate right-to-left text.
std::string without_marks(std::string text) {
  for (const std::string mark : {"\u200e", "\u200f"})
    for (size_t at = 0; (at = text.find(mark)) != std::string::npos;) text.erase(at, mark.size());
  return text;
}

void expect_fits(const Heatmap& map, const TerminalStyle& style) {
  const std::string drawn = to_terminal(map, style);
  const std::string colorless = without_colors(drawn), plain = without_marks(colorless);
  if (style.color == TerminalColor::ascii) {
    EXPECT_EQ(drawn, colorless);
  }
  EXPECT_EQ(drawn.back(), '\n');
  std::istringstream lines(plain);
  for (std::string line; std::getline(lines, line);) {
    // clean_text drops control characters, so a line that contains any would differ.
    EXPECT_EQ(encode_utf8(clean_text(line)), line);
    EXPECT_LE(display_width(clean_text(line)), style.width) << line;
  }
}

TEST(Terminal, FitsItsWidthWhateverTheMap) {
  std::mt19937 random(7);
  const auto up_to = [&](int64_t limit) {
    return std::uniform_int_distribution<int64_t>(1, limit)(random);
  };
  for (int i = 0; i < 300; ++i) {
    const int64_t limit = i % 10 == 0 ? 300 : 30;
    const test::Mask mask = i % 3 == 0 ? test::Mask::causal : test::Mask::none;
    Heatmap map = test::weights(up_to(limit), up_to(limit), mask);
    map.decimals = static_cast<int>(up_to(9));
    const std::string letters[] = {"a", "\xe6\x97\xa5", "e\xcc\x81", "\x1b[1m", "W", "ש",
                                   "ู",  "क्षि",          "👩\u200d💻",  "❤\ufe0f"};
    const auto label = [&] {
      std::string text;
      for (int64_t n = up_to(20); n > 0; --n) text += letters[up_to(10) - 1];
      return text;
    };
    map.title = label();
    map.x_label = label();
    map.y_label = label();
    if (i % 5 == 0) map.legend = Legend::allowed;
    if (i % 3 == 0) map.hatched.assign(map.values.size(), i % 2 ? 1 : 0);
    if (i % 7 == 0) map.positions_per_row = map.positions_per_column = 123.4;
    if (i % 2) {
      for (int64_t n = 0; n < map.rows; ++n) map.row_labels.push_back(label());
      for (int64_t n = 0; n < map.columns; ++n) map.column_labels.push_back(label());
    }
    const TerminalStyle style{kColors[i % 3], static_cast<int>(kMinTerminalWidth - 1 + up_to(120))};
    SCOPED_TRACE(std::to_string(map.rows) + "x" + std::to_string(map.columns) + " in " +
                 std::to_string(style.width));
    expect_fits(map, style);
    if (HasFailure()) return;
  }
}

// A left-to-right mark (U+200E) ends such a label. Without it, terminals that reorder text would
// move the cells with the label.
TEST(Terminal, LabelsFromRightToLeftEndBeforeTheCells) {
  Heatmap map = test::two_tokens();
  map.row_labels = {"שלום", "shalom"};
  const std::string drawn = to_terminal(map, {TerminalColor::ascii, 80});
  EXPECT_NE(drawn.find("שלום\u200e  0.48"), std::string::npos) << drawn;
  EXPECT_NE(drawn.find("shalom  0.45"), std::string::npos) << drawn;
}

TEST(Terminal, TextsAreReducedToWhatTerminalsAgreeOn) {
  EXPECT_EQ(with_plain_emoji(U"❤\ufe0f"), U"❤");
  EXPECT_EQ(with_plain_emoji(U"👩\u200d💻"), U"👩💻");
  EXPECT_EQ(with_plain_emoji(U"क्\u200dष"), U"क्\u200dष") << "a joiner that the script needs";
  EXPECT_EQ(with_plain_emoji(U"plain"), U"plain");
}

TEST(Terminal, VowelSignsStayWithTheirLetters) {
  EXPECT_EQ(letters(U"बिल्ली"), (std::vector<std::u32string>{U"बि", U"ल्", U"ली"}));
  EXPECT_EQ(letters(U"e\u0301x"), (std::vector<std::u32string>{U"e\u0301", U"x"}));
  EXPECT_TRUE(letters(U"").empty());
}

TEST(Terminal, LabelsOfPooledRowsNameTheFirstAndTheLast) {
  Heatmap map = test::weights(80, 80, test::Mask::none);
  for (int i = 0; i < 80; ++i) map.row_labels.push_back("w" + std::to_string(i));
  const std::string drawn = to_terminal(map, {TerminalColor::ascii, 80});
  EXPECT_NE(drawn.find("w0 ~"), std::string::npos) << drawn;
  map.row_labels[0] = "a";
  map.row_labels[1] = map.row_labels[2] = map.row_labels[3] = "b";
  EXPECT_NE(to_terminal(map, {TerminalColor::ascii, 80}).find("a ~ b "), std::string::npos)
      << drawn;
}

TEST(Terminal, HostileLabelsDoNotEscape) {
  for (TerminalColor color : kColors) expect_fits(test::hostile_labels(), {color, 80});
}

TEST(Terminal, SmallMapsShowNumbers) {
  const std::string drawn = to_terminal(test::four_tokens(), {TerminalColor::ascii, 80});
  for (const char* word : {"0.18", "0.31", "0.33", "0.91", "Query 3", "Key 3", "Keys", "Queries"})
    EXPECT_NE(drawn.find(word), std::string::npos) << drawn;
}

TEST(Terminal, MaskedIsNotZero) {
  Heatmap map = test::causal_with_faults();
  const std::string ascii = to_terminal(map, {TerminalColor::ascii, 80});
  EXPECT_NE(ascii.find("/ masked"), std::string::npos);
  EXPECT_NE(ascii.find("0.00"), std::string::npos);
  EXPECT_NE(ascii.find("nan !"), std::string::npos);
  EXPECT_NE(ascii.find("inf !"), std::string::npos);
  map.annotate = Annotate::never;
  // Weight zero is a blank of the ramp; masked cells are strokes.
  EXPECT_NE(to_terminal(map, {TerminalColor::ascii, 80}).find("1   @@////\n"), std::string::npos)
      << to_terminal(map, {TerminalColor::ascii, 80});
}

TEST(Terminal, HalfBlocksCarryTwoRows) {
  // More rows than fit with labels, in black and white so that the sequences are readable.
  Heatmap map{.rows = 60, .columns = 1, .values = std::vector<float>(60, 0)};
  for (size_t i = 0; i < 60; i += 2) map.values[i] = 1;
  map.colors = color_map("greys");
  const std::string block = "\x1b[38;2;0;0;0;48;2;255;255;255m\u2580\x1b[0m\n";
  const std::string drawn = to_terminal(map, {TerminalColor::truecolor, 80});
  size_t count = 0;
  for (size_t at = 0; (at = drawn.find(block, at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 30u) << drawn;
}

TEST(Terminal, PalettePicksTheNearestColour) {
  EXPECT_EQ(nearest_palette_index({0, 0, 0}), 16);
  EXPECT_EQ(nearest_palette_index({255, 255, 255}), 231);
  EXPECT_EQ(nearest_palette_index({255, 0, 0}), 196);
  EXPECT_EQ(nearest_palette_index({128, 128, 128}), 244);
  EXPECT_EQ(nearest_palette_index({0x6b, 0xae, 0xd6}), 74);  // 5f afd7
  EXPECT_EQ(nearest_palette_index({0x08, 0x30, 0x6b}), 17);  // 00005f: blue, not the nearer green
}

// Numbers, labelled blocks and pixels: a hatched cell keeps its weight where there is room for
// both.
TEST(Terminal, HatchedCellsAreTold) {
  Heatmap map = test::weights(3, 3, test::Mask::causal);
  map.hatched = {0, 1, 0, 1, 0, 0, 0, 0, 0};  // the second is masked
  map.hatched_label = "not looked at";
  const std::string numbers = to_terminal(map, {});
  char weight[16];
  std::snprintf(weight, sizeof weight, "%.2f \\", static_cast<double>(map.values[3]));
  EXPECT_NE(numbers.find(weight), std::string::npos) << numbers;
  EXPECT_EQ(std::ranges::count(numbers, '\\'), 2) << "the cell and the legend\n" << numbers;
  EXPECT_NE(numbers.find("\\ not looked at\n"), std::string::npos) << numbers;
  for (const int64_t side : {30, 100}) {
    map = test::weights(side, side, test::Mask::none);
    map.hatched.assign(map.values.size(), 0);
    EXPECT_EQ(to_terminal(map, {}).find('\\'), std::string::npos);
    map.hatched.back() = 1;
    for (size_t i = 0; i < 3; ++i)
      map.hatched[map.values.size() - i - 1 - map.values.size() / 2] = 1;
    const std::string colored = to_terminal(map, {.color = TerminalColor::truecolor, .width = 220});
    const auto marks = [](const std::string& text, const std::string& mark) {
      int64_t count = 0;
      for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; ++at) ++count;
      return count;
    };
    EXPECT_EQ(marks(colored, "\u2572"), 5) << side;
    EXPECT_EQ(marks(to_terminal(map, {.width = 220}), "\\"), 5) << side;
  }
}

}  // namespace
}  // namespace rapt::viz
