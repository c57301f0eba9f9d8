// Pictures on a pseudo-terminal of a known width.
#include <algorithm>
#include <sstream>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using TerminalTest = RaptTest;
using Environment = std::vector<std::pair<std::string, std::string>>;

const Environment kTruecolor = {{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}};
const Environment kPalette = {{"TERM", "xterm-256color"}};
const Environment kPlain = {{"TERM", "vt100"}};

// Columns per line, for text with one column per character. Escape sequences have no width.
std::vector<int> columns_of(const std::string& text) {
  std::vector<int> columns;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    int count = 0;
    for (size_t at = 0; at < line.size(); ++at) {
      const auto byte = static_cast<unsigned char>(line[at]);
      if (byte == 0x1b)
        at = line.find('m', at);
      else if (byte != '\r' && (byte & 0xc0) != 0x80)
        ++count;
    }
    columns.push_back(count);
  }
  return columns;
}

// The picture alone, without the counts that `rapt mask` prints below it.
std::string picture(const Ran& ran) { return ran.out.substr(0, ran.out.find("mask      ")); }

TEST_F(TerminalTest, PicturesKeepToTheWidthOfTheTerminal) {
  if (!has_terminals()) GTEST_SKIP() << kNoTerminal;
  std::string words;
  for (int i = 0; i < 90; ++i) words += "word" + std::to_string(i * 7919) + " ";
  write("words.txt", words);
  const std::vector<std::string> pictures[] = {
      {"attend", "--text", "the cat saw the dog", "--heatmap", "-"},
      {"attend", "--text", "@words.txt", "--mask", "causal", "--heatmap", "-"},
      {"mask", "window(9,0) | prefix(2)", "--q-len", "12"},
      {"mask", "window(9,0) | prefix(2)", "--q-len", "300", "--k-len", "1000"},
      {"mask", "causal", "--q-len", "5000"},
  };
  for (const std::vector<std::string>& arguments : pictures) {
    for (const int width : {20, 40, 80, 200}) {
      for (const Environment& environment : {kTruecolor, kPalette, kPlain}) {
        // A terminal's own width has precedence over COLUMNS, which a shell sets once.
        How how = {.env = environment, .out = Stdout::terminal, .columns = width};
        how.env.emplace_back("COLUMNS", "150");
        const Ran ran = rapt(arguments, how);
        ASSERT_EQ(ran.exit, 0) << ran.err;
        const std::vector<int> columns = columns_of(picture(ran));
        ASSERT_GT(columns.size(), 3u) << ran.out;
        EXPECT_LE(*std::max_element(columns.begin(), columns.end()), width) << arguments[0] << "\n"
                                                                            << ran.out;
      }
    }
  }
}

TEST_F(TerminalTest, WidePicturesUseTheRoomThereIs) {
  if (!has_terminals()) GTEST_SKIP() << kNoTerminal;
  const auto widest = [&](int width) {
    const Ran ran = rapt({"mask", "causal", "--q-len", "5000"},
                         {.env = kTruecolor, .out = Stdout::terminal, .columns = width});
    const std::vector<int> columns = columns_of(picture(ran));
    return *std::max_element(columns.begin(), columns.end());
  };
  EXPECT_GT(widest(200), widest(80));
  EXPECT_GT(widest(80), 40);
}

TEST_F(TerminalTest, ColoursAreThoseOfTheTerminal) {
  if (!has_terminals()) GTEST_SKIP() << kNoTerminal;
  const auto draw = [&](const Environment& environment, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"mask", "causal", "--q-len", "6"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return rapt(arguments, {.env = environment, .out = Stdout::terminal}).out;
  };
  EXPECT_TRUE(contains(draw(kTruecolor), "\x1b[48;2;46;126;188m")) << draw(kTruecolor);
  EXPECT_TRUE(contains(draw(kPalette), "\x1b[48;5;")) << draw(kPalette);
  EXPECT_FALSE(contains(draw(kPalette), "48;2;"));
  for (const Environment& plain :
       {kPlain, Environment{{"TERM", "dumb"}, {"COLORTERM", "truecolor"}},
        Environment{{"TERM", "xterm-256color"}, {"NO_COLOR", "1"}}}) {
    EXPECT_FALSE(contains(draw(plain), "\x1b"));
    EXPECT_TRUE(contains(draw(plain), "@@////")) << draw(plain);
    EXPECT_TRUE(contains(draw(plain, {"--color", "always"}), "\x1b["));
  }
  EXPECT_FALSE(contains(draw(kTruecolor, {"--color", "never"}), "\x1b"));
}

TEST_F(TerminalTest, APipeHas80ColumnsOrThoseOfTheEnvironment) {
  const auto widest = [&](const Environment& environment) {
    const Ran ran = rapt({"mask", "causal", "--q-len", "5000"}, {.env = environment});
    EXPECT_FALSE(contains(ran.out, "\x1b"));
    const std::vector<int> columns = columns_of(picture(ran));
    return *std::max_element(columns.begin(), columns.end());
  };
  EXPECT_LE(widest({}), 80);
  EXPECT_GT(widest({}), 40);
  EXPECT_GT(widest({{"COLUMNS", "180"}}), 80);
  EXPECT_LE(widest({{"COLUMNS", "20"}}), 20);
}

}  // namespace
}  // namespace rapt::cli_test
