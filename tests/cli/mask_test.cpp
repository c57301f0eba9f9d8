// rapt mask: pictures and counts of masks, and combinations on the command line.
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using MaskTest = RaptTest;
using Json = nlohmann::json;

Tensor int64s(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(DType::i64, shape);
  std::copy(values.begin(), values.end(), tensor.values<int64_t>().begin());
  return tensor;
}

TEST_F(MaskTest, DrawsEveryPairOfASmallMask) {
  const Ran ran = rapt({"mask", "causal | prefix(2)", "--q-len", "4"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* row : {"0 @@@@////\n", "1 @@@@////\n", "2 @@@@@@//\n", "3 @@@@@@@@\n"})
    EXPECT_TRUE(contains(ran.out, row)) << ran.out;
  EXPECT_TRUE(contains(ran.out, "mask      causal | prefix(2)\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "pairs     11 of 16 allowed, 68.75 %\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "tiles     0 whole, 1 cut by the mask, 0 skipped\n")) << ran.out;
}

TEST_F(MaskTest, KeysMayBeMoreThanQueries) {
  const Ran ran = rapt({"mask", "causal:bottom-right", "--q-len", "2", "--k-len", "5"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "0 @@@@@@@@//\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "1 @@@@@@@@@@\n")) << ran.out;
}

// For cells of any size, the shares add up to the pairs that the plan counts.
TEST_F(MaskTest, SharesAddUp) {
  for (const std::vector<std::string>& how : {std::vector<std::string>{"--q-len", "7"},
                                              {"--q-len", "100", "--k-len", "300"},
                                              {"--q-len", "3001", "--k-len", "2000"},
                                              {"--q-len", "3000", "--tile"}}) {
    std::vector<std::string> arguments = {"mask", "window(30,9) & !prefix(2) | causal(-99)",
                                          "--json"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Ran ran = rapt(arguments);
    ASSERT_EQ(ran.exit, 0) << ran.err;
    const Json document = Json::parse(ran.out);
    EXPECT_EQ(document.at("schema"), "rapt.mask/1");
    const auto q_len = document.at("q_len").get<int64_t>();
    const auto k_len = document.at("k_len").get<int64_t>();
    const auto rows = document.at("cell").at("queries").get<int64_t>();
    const auto columns = document.at("cell").at("keys").get<int64_t>();
    EXPECT_EQ(document.at("pairs"), q_len * k_len);
    const Json& shares = document.at("shares");
    EXPECT_LE(shares.size(), 64u);
    EXPECT_EQ(static_cast<int64_t>(shares.size()), (q_len + rows - 1) / rows);
    double allowed = 0;
    for (int64_t r = 0; r < static_cast<int64_t>(shares.size()); ++r)
      for (int64_t c = 0; c < static_cast<int64_t>(shares.at(r).size()); ++c)
        allowed += shares.at(r).at(c).get<double>() *
                   static_cast<double>(std::min(rows, q_len - r * rows) *
                                       std::min(columns, k_len - c * columns));
    const auto counted = document.at("plan").at("allowed_scores").get<double>();
    EXPECT_NEAR(allowed, counted, 1e-3 * counted);
    EXPECT_GT(counted, 0);
    if (how.back() == "--tile") {
      EXPECT_EQ(rows % document.at("plan").at("tile_queries").get<int64_t>(), 0);
      EXPECT_EQ(columns % document.at("plan").at("block_keys").get<int64_t>(), 0);
      EXPECT_GT(document.at("plan").at("tiles_skipped"), 0);
    }
  }
}

TEST_F(MaskTest, TensorsComeFromFiles) {
  save("ids.npy", int64s({5}, {7, 7, -1, 7, -1}));
  save("starts.npy", int64s({3}, {0, 2, 5}));
  save("lengths.npy", int64s({2}, {1, 4}));
  Ran ran = rapt({"mask", "documents(ids.npy) & causal", "--q-len", "5"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "3 @@@@//@@//\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "4 ////@@//@@\n")) << ran.out;
  ran = rapt({"mask", "documents_by_starts:starts.npy", "--q-len", "5"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "1 @@@@//////\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "2 ////@@@@@@\n")) << ran.out;
  ran = rapt({"mask", "lengths:lengths.npy", "--q-len", "5", "--leading", "2,3", "--head", "1,2"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "0 @@@@@@@@//\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "pairs     75 of 150 allowed")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "head 1,2")) << ran.out;
}

TEST_F(MaskTest, DrawsIntoFiles) {
  const Ran ran =
      rapt({"mask", "window:4,0", "--q-len", "200", "--heatmap", "m.svg", "--heatmap", "m.png"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "wrote m.svg"));
  EXPECT_TRUE(contains(read("m.svg"), "window:4,0"));
  EXPECT_EQ(read("m.png").substr(1, 3), "PNG");
  EXPECT_FALSE(contains(ran.out, "@")) << "drawn into the terminal, too";
  EXPECT_TRUE(contains(ran.out, "pairs")) << ran.out;
  EXPECT_EQ(rapt({"mask", "causal", "--heatmap", "m.svg"}).exit, 4);
  EXPECT_EQ(rapt({"mask", "causal", "--heatmap", "m.svg", "--force"}).exit, 0);
}

TEST_F(MaskTest, RefusesWhatCannotBeMeant) {
  save("lengths.npy", int64s({2}, {1, 4}));
  Tensor floats(DType::f32, {4, 4});
  std::fill(floats.values<float>().begin(), floats.values<float>().end(), .5f);
  save("bias.npy", floats);
  Tensor halves(DType::bf16, {4, 4});
  std::fill(halves.values<BFloat16>().begin(), halves.values<BFloat16>().end(),
            BFloat16::from(.5f));
  save_all("bias.safetensors", {{"bias", halves.view()}});
  const struct {
    std::vector<std::string> arguments;
    int exit;
    const char* says;
  } cases[] = {
      {{}, 2, "expected a mask"},
      {{"causal", "window"}, 2, "'window' is not expected here"},
      {{"causal & windw(4,0)"}, 2, "did you mean window?"},
      {{"causal & windw(4,0)"}, 2, "column 10: \"windw(4,0)\""},
      {{"(causal"}, 2, "parenthesis is missing"},
      {{"window:4,0 & causal"}, 2, "write window(...)"},
      {{"file(a.npy) & causal"}, 2, "boolean(M.npy)"},
      {{"file:a.npy|causal"}, 2, "boolean(M.npy)"},
      {{"file:bias.npy", "--q-len", "4"}, 3, "a bias, no mask"},
      {{"file:bias.safetensors", "--q-len", "4"}, 3, "a bias, no mask"},
      {{"lengths:none.npy"}, 4, "no such file"},
      {{"lengths:lengths.npy"}, 3, "--leading"},
      {{"lengths:lengths.npy", "--leading", "2", "--q-len", "3"}, 3, "a length of 4 keys"},
      {{"causal", "--q-len", "0"}, 2, "expected 1 to"},
      {{"causal", "--k-len", "9999999999"}, 2, "expected 1 to"},
      {{"causal", "--q-len", "x"}, 2, "a whole number"},
      {{"causal", "--leading", "0"}, 2, "--leading"},
      {{"causal", "--leading", "1048576,1048576"}, 2, "at most 16777216 queries of all heads"},
      {{"causal", "--leading", "2,3", "--head", "2,0"}, 2, "an index into --leading 2,3"},
      {{"causal", "--head", "0"}, 2, "an index into --leading"},
      {{"causal", "--json", "--heatmap", "-"}, 2, "standard output"},
      {{"causal", "--heatmap", "m.jpg"}, 2, ".svg, .png or -"},
      {{"causal", "--tiles"}, 2, "did you mean '--tile'?"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = {"mask"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, c.exit) << c.says << ": " << ran.err;
    EXPECT_TRUE(contains(ran.err, c.says)) << c.says << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << c.says;
  }
}

// Different texts for the same pairs give the same bytes.
TEST_F(MaskTest, AttendTakesCombinations) {
  save_problem();
  Tensor allowed(DType::boolean, {6, 9});
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 9; ++j)
      allowed.values<bool>()[static_cast<size_t>(i * 9 + j)] = (j <= i || j < 3) && j != i;
  save("m.npy", allowed);
  ASSERT_EQ(rapt(attend({"--mask", "file:m.npy", "--output", "expected.npy"})).exit, 0);
  const std::vector<std::vector<std::string>> ways = {
      {"--mask", "(causal|prefix(3)) & !window(0,0)"},
      {"--mask", "and(or(causal, prefix(3)), not(window(0,0)))"},
      {"--mask", "causal|prefix(3)", "--mask", "!window(0,0)"},
      {"--mask", "boolean(m.npy) & window"},
  };
  for (size_t n = 0; n < ways.size(); ++n) {
    const std::string file = "o" + std::to_string(n) + ".npy";
    std::vector<std::string> more = ways[n];
    more.insert(more.end(), {"--output", file});
    const Ran ran = rapt(attend(more));
    ASSERT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(read(file), read("expected.npy")) << ways[n][1];
  }
}

}  // namespace
}  // namespace rapt::cli_test
