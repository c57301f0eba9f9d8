// rapt attend --heatmap: files, the terminal, labels, masked cells.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using PictureTest = RaptTest;

const std::vector<std::string> kText = {"attend", "--text", "the cat and the dog"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(PictureTest, FormatFollowsTheEndingAndAllCanBeHadAtOnce) {
  const Ran ran = rapt(with(kText, {"--heatmap", "h.svg", "--heatmap", "h.png", "--heatmap", "-"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(read("h.svg"), "<svg"));
  EXPECT_TRUE(contains(read("h.svg"), ">dog<"));
  EXPECT_EQ(read("h.png").substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_TRUE(contains(ran.out, "dog")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "Attention weights"));
  EXPECT_TRUE(contains(ran.err, "wrote h.svg: heatmap"));
  EXPECT_EQ(files(), (std::vector<std::string>{"h.png", "h.svg"}));
}

TEST_F(PictureTest, ColourOnlyWhereItIsWanted) {
  const std::vector<std::string> terminal = with(kText, {"--heatmap", "-"});
  EXPECT_FALSE(contains(rapt(terminal).out, "\x1b")) << "not a terminal";
  EXPECT_TRUE(contains(rapt(with(terminal, {"--color", "always"})).out, "\x1b["));
  const How no_color = {.env = {{"NO_COLOR", "1"}}};
  EXPECT_FALSE(contains(rapt(terminal, no_color).out, "\x1b"));
  EXPECT_FALSE(contains(rapt(with(terminal, {"--color", "never"})).out, "\x1b"));
}

TEST_F(PictureTest, MaskedCellsAreNotZeros) {
  const Ran causal =
      rapt(with(kText, {"--mask", "causal", "--heatmap", "-", "--heatmap", "h.svg"}));
  ASSERT_EQ(causal.exit, 0) << causal.err;
  EXPECT_TRUE(contains(causal.out, "Attention weights, causal"));
  EXPECT_TRUE(contains(causal.out, "masked")) << causal.out;
  EXPECT_TRUE(contains(read("h.svg"), "masked"));
  EXPECT_FALSE(contains(rapt(with(kText, {"--heatmap", "-"})).out, "masked"));
}

// The numbers of a picture, row by row; the title has none.
std::vector<std::string> numbers_of(const std::string& picture) {
  std::vector<std::string> numbers;
  for (size_t at = 0; (at = picture.find('.', at)) != std::string::npos; ++at)
    if (std::isdigit(picture[at + 1]) && std::isdigit(picture[at + 2]))
      numbers.push_back(picture.substr(at - 1, 4));
  return numbers;
}

// Exact weights in all cells; lines over as many as pairs without a weight, and in the legend.
TEST_F(PictureTest, PairsThatLshDidNotLookAtAreHatchedOverTheirExactWeight) {
  const std::string exact = rapt(with(kText, {"--heatmap", "-"})).out;
  const std::string shared = rapt(with(kText, {"--method", "lsh(64,100)", "--heatmap", "-"})).out;
  EXPECT_EQ(std::ranges::count(shared, '\\'), 0) << "one chunk\n" << shared;
  for (const char* method : {"lsh(1,2,keys=separate)", "lsh(1,2)", "lsh(1,100)"}) {
    const bool separate = contains(method, "separate");
    const Ran ran =
        rapt(with(kText, {"--method", method, "--heatmap", "-", "--weights", "w.npy", "--force"}));
    ASSERT_EQ(ran.exit, 0) << ran.err;
    const Tensor weights = load("w.npy");
    const int64_t unseen = std::ranges::count(weights.values<float>(), 0) - (separate ? 0 : 5);
    EXPECT_EQ(std::ranges::count(ran.out, '\\'), unseen > 0 ? unseen + 1 : 0) << ran.out;
    EXPECT_EQ(contains(ran.out, "\\ not looked at by lsh\n"), unseen > 0) << ran.out;
    // With shared keys a token is not a key of its own.
    EXPECT_EQ(std::ranges::count(ran.out, '/'), separate ? 0 : 6) << ran.out;
    EXPECT_EQ(numbers_of(ran.out), numbers_of(separate ? exact : shared)) << ran.out;
  }
}

// The map of the call is that of the file alone, whatever the picture shows.
TEST_F(PictureTest, APictureOfLshLeavesTheMapOfAFileAsItIs) {
  const std::vector<std::string> call =
      with(kText, {"--method", "lsh(1,2)", "--weights-pool", "2x2", "--weights"});
  ASSERT_EQ(rapt(with(call, {"alone.npy"})).exit, 0);
  ASSERT_EQ(rapt(with(call, {"drawn.npy", "--heatmap", "h.svg"})).exit, 0);
  EXPECT_EQ(read("alone.npy"), read("drawn.npy"));
  EXPECT_TRUE(contains(read("h.svg"), "exact: mean of each cell"));
}

// Exact attention for the picture is planned: told, counted, and held to the limit.
TEST_F(PictureTest, TheCallsForAPictureOfLshAreCounted) {
  save_problem(1, 1, 1, 400, 400, 8);
  const auto planned = [&](const std::vector<std::string>& more) {
    return rapt(with(attend({"--method", "lsh(1,16,keys=separate)", "--plan"}), more));
  };
  const Ran drawn = planned({"--heatmap", "h.svg"});
  ASSERT_EQ(drawn.exit, 0) << drawn.err;
  EXPECT_TRUE(contains(drawn.out, "\npicture   exact attention with 160000 scores")) << drawn.out;
  EXPECT_FALSE(contains(planned({}).out, "picture"));
  const auto needed = [&](const Ran& ran) {
    return nlohmann::json::parse(ran.out).at("memory").at("needed_bytes").get<int64_t>();
  };
  // The map of one head and what the picture keeps of it.
  const int64_t more =
      needed(planned({"--json", "--heatmap", "h.svg"})) - needed(planned({"--json"}));
  EXPECT_GT(more, 400 * 400 * (4 + 4 + 1 + 8));
}

TEST_F(PictureTest, MinusInfinityOfABiasIsMaskedToo) {
  save_problem(1, 2, 2, 3, 3, 4);
  Tensor bias(DType::f32, {2, 1, 3});  // key 2 is masked for head 1
  for (float& x : bias.values<float>()) x = 0.5f;
  bias.values<float>()[5] = -std::numeric_limits<float>::infinity();
  save("b.npy", bias);
  const auto draw = [&](const char* head) {
    return rapt(attend({"--bias", "b.npy", "--heatmap", "-", "--head", head}));
  };
  EXPECT_EQ(draw("0,0").exit, 0);
  EXPECT_FALSE(contains(draw("0,0").out, "masked")) << draw("0,0").out;
  EXPECT_TRUE(contains(draw("0,1").out, "masked")) << draw("0,1").out;
}

TEST_F(PictureTest, DrawsTheHeadThatIsAskedFor) {
  save_problem();
  const Ran first = rapt(attend({"--heatmap", "-"}));
  ASSERT_EQ(first.exit, 0) << first.err;
  EXPECT_TRUE(contains(first.err, "drawing head 0,0 of 8; --head chooses another")) << first.err;
  EXPECT_TRUE(contains(first.out, "Attention weights of head 0,0"));
  EXPECT_TRUE(contains(first.out, "Query 5") && contains(first.out, "Key 8")) << first.out;
  const Ran other = rapt(attend({"--heatmap", "-", "--head", "1,2"}));
  EXPECT_TRUE(contains(other.out, "of head 1,2"));
  EXPECT_EQ(other.err, "");

  // The picture shows the weights of its head.
  ASSERT_EQ(rapt(attend({"--weights", "w.npy"})).exit, 0);
  const Tensor weights = load("w.npy");  // [2, 4, 6, 9]
  char number[16];
  for (int64_t j = 0; j < 9; ++j) {
    const float w = weights.values<float>()[static_cast<size_t>((6 * 6 + 3) * 9 + j)];
    std::snprintf(number, sizeof number, "%.2f", static_cast<double>(w));
    EXPECT_TRUE(contains(other.out, number)) << number << "\n" << other.out;
  }
}

TEST_F(PictureTest, TitleNamesWhatIsNotPlain) {
  const Ran ran = rapt(with(kText, {"--mask", "causal", "--score", "softcap(2)", "--rotary",
                                    "--cosine", "--normalizer", "sigmoid(-1)", "--heatmap", "-"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(
      contains(ran.out, "Attention weights, causal, cosine, rotary, softcap(2), sigmoid(-1)\n"))
      << ran.out;
}

TEST_F(PictureTest, ColourMapsHaveNames) {
  const auto picture = [&](const char* name) {
    EXPECT_EQ(rapt(with(kText, {"--heatmap", "h.svg", "--colormap", name, "-f"})).exit, 0);
    return read("h.svg");
  };
  const std::string blues = picture("blues"), tutorial = picture("tutorial");
  EXPECT_NE(blues, tutorial);
  EXPECT_TRUE(contains(tutorial, "#1c7ed6") || contains(tutorial, "#1C7ED6"));
}

TEST_F(PictureTest, HostileWordsDriveNoTerminalAndNoDocument) {
  write("words.txt", "<script>alert(1)</script> \x1b[31mred & \"quoted\" \xff\xfe");
  const Ran ran = rapt({"attend", "--text", "@words.txt", "--heatmap", "-", "--heatmap", "h.svg"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_FALSE(contains(ran.out, "\x1b"));
  EXPECT_FALSE(contains(read("h.svg"), "<script"));
  EXPECT_FALSE(contains(read("h.svg"), "\x1b"));
}

TEST_F(PictureTest, APngSaysWhatItsFontLacks) {
  Ran ran = rapt({"attend", "--text", "\u732b and Z\u00fcrich", "--heatmap", "h.png"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err,
                       "h.png: the font of PNG pictures lacks 2 of the characters, which "
                       "are boxes with code points; --heatmap h.svg shows them"))
      << ran.err;
  ran = rapt({"attend", "--text", "only Z\u00fcrich", "--heatmap", "z.png"});
  EXPECT_EQ(ran.err, "wrote z.png: heatmap\n");
}

TEST_F(PictureTest, LargeMatricesArePooledAndTheAxesSayHow) {
  save("q.npy", filled(DType::f32, {1100, 4}, 1));
  const std::vector<std::string> attend = {"attend",  "--query", "q.npy",  "--key",    "q.npy",
                                           "--value", "q.npy",   "--mask", "causal:1", "--heatmap",
                                           "h.svg",   "--json",  "--force"};
  const Ran ran = rapt(attend);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string svg = read("h.svg");
  // Each of the 367 cells holds 3 queries, except the last, which holds 2.
  EXPECT_TRUE(contains(svg, "causal:1: maximum of each cell")) << svg.substr(0, 2000);
  EXPECT_TRUE(contains(svg, "Keys (up to 3 in a cell)"));
  EXPECT_TRUE(contains(svg, ">1000<")) << "ticks count keys, not cells";
  EXPECT_TRUE(contains(svg, "masked"));
  // Only the map is allocated besides output and lse: no 1100 x 1100 weights.
  const std::string bytes = std::to_string((1100 * 4 + 1100 + 367 * 367) * 4);
  EXPECT_TRUE(contains(ran.out, "\"result_bytes\": " + bytes)) << ran.out;
}

TEST_F(PictureTest, APictureThatDoesNotFitIsRefusedBeforeTheWork) {
  save("q.npy", filled(DType::f32, {4000, 4}, 1));  // a map of 16 million cells
  const Ran ran =
      rapt({"attend", "--query", "q.npy", "--key", "q.npy", "--value", "q.npy", "--heatmap",
            "h.png", "--weights-pool", "4000x4000", "--memory-limit", "64M"});
  EXPECT_EQ(ran.exit, 5);
  EXPECT_TRUE(contains(ran.err, "picture")) << ran.err;
  EXPECT_EQ(files(), std::vector<std::string>{"q.npy"});
}

}  // namespace
}  // namespace rapt::cli_test
