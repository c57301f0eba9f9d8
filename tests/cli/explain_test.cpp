// rapt explain: the worked example, the user's matrices, masks and JSON.
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/support/run_rapt.h"
#include "rapt/catalogue.h"

namespace rapt::cli_test {
namespace {

using ExplainTest = RaptTest;
using Json = nlohmann::json;

// Replaces each run of white space by one blank.
std::string squeezed(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

TEST_F(ExplainTest, BuiltInExampleHasTheTutorialsDigits) {
  const Ran ran = rapt({"explain"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const std::string text = squeezed(ran.out);
  const std::pair<const char*, const char*> steps[] = {
      {"embeddings", "[[1.0000 2.0000 3.0000] [4.0000 5.0000 6.0000]]"},
      {"w_query", "[[0.0100 0.0300] [0.0200 0.0200] [0.0300 0.0100]]"},
      {"w_key", "[[0.0500 0.0500] [0.0600 0.0500] [0.0700 0.0500]]"},
      {"w_value", "[[0.0200 0.0200] [0.0100 0.0200] [0.0100 0.0100]]"},
      {"query", "[[0.1400 0.1000] [0.3200 0.2800]]"},
      {"key", "[[0.3800 0.3000] [0.9200 0.7500]]"},
      {"value", "[[0.0700 0.0900] [0.1900 0.2400]]"},
      {"key_transposed", "[[0.3800 0.9200] [0.3000 0.7500]]"},
      {"scores", "[[0.0832 0.2038] [0.2056 0.5044]]"},
      {"scaled_scores", "[[0.0588 0.1441] [0.1454 0.3567]]"},
      {"weights", "[[0.4787 0.5213] [0.4474 0.5526]]"},
      {"row_sums", "[[1.0000] [1.0000]]"},
      {"output", "[[0.1326 0.1682] [0.1363 0.1729]]"},
  };
  size_t at = 0;
  for (const auto& [name, digits] : steps) {
    at = text.find(std::string(". ") + name, at);
    ASSERT_NE(at, std::string::npos) << name;
    at = text.find(digits, at);
    ASSERT_NE(at, std::string::npos) << name << " " << digits;
  }
}

TEST_F(ExplainTest, BothDtypesGiveTheSameFourDecimals) {
  const std::string f32 = rapt({"explain"}).out, f64 = rapt({"explain", "--dtype", "f64"}).out;
  EXPECT_EQ(f32.substr(0, f32.find("Weights and output are")),
            f64.substr(0, f64.find("Weights and output are")));
  EXPECT_NE(f32, "");
}

TEST_F(ExplainTest, TakesNumbersAndFiles) {
  const std::vector<std::string> inline_matrices = {"explain",  "--query", "1 2; 3 4",     "--key",
                                                    "0,1\n1,0", "--value", "-1 .5; 2e0 +3"};
  const Ran ran = rapt(inline_matrices);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  // weights of row 0: scores (2, 1) / sqrt 2; 1 / (1 + e^(-1 / sqrt 2)) = 0.66976
  EXPECT_TRUE(contains(squeezed(ran.out), "[[0.6698 0.3302]")) << ran.out;

  Tensor q(DType::f32, {1, 2, 2}), k(DType::f32, {2, 2}), v(DType::f64, {2, 2});
  const float qs[] = {1, 2, 3, 4}, ks[] = {0, 1, 1, 0};
  const double vs[] = {-1, .5, 2, 3};
  std::copy(qs, qs + 4, q.values<float>().begin());
  std::copy(ks, ks + 4, k.values<float>().begin());
  std::copy(vs, vs + 4, v.values<double>().begin());
  save("q.npy", q);
  save("k.npy", k);
  save("v.npy", v);
  EXPECT_EQ(rapt({"explain", "--query", "q.npy", "--key", "k.npy", "--value", "v.npy"}).out,
            ran.out);
}

TEST_F(ExplainTest, ShowsTheMaskAndExcludes) {
  const Ran ran = rapt({"explain", "--mask", "causal"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string text = squeezed(ran.out);
  EXPECT_TRUE(contains(text, "[[1.0000 0.0000] [1.0000 1.0000]]")) << text;  // mask
  EXPECT_TRUE(contains(text, "[[0.0588 -inf] [0.1454 0.3567]]")) << text;    // masked scores
  EXPECT_TRUE(contains(text, "[[1.0000 0.0000] [0.4474 0.5526]]")) << text;  // weights
  EXPECT_TRUE(contains(text, "[[0.0700 0.0900] [0.1363 0.1729]]")) << text;  // output
}

TEST_F(ExplainTest, ARowWithoutKeysSumsToZero) {
  const Ran ran = rapt({"explain", "--mask", "causal:-1"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(squeezed(ran.out), "[[0.0000] [1.0000]]")) << ran.out;
}

TEST_F(ExplainTest, AMaskedNanDoesNotShowAndAVisibleOneDoes) {
  Tensor v(DType::f32, {2, 1});
  v.values<float>()[0] = 1;
  v.values<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  save("v.npy", v);
  const std::vector<std::string> arguments = {"explain", "--query", "1;1",   "--key",
                                              "1;1",     "--value", "v.npy", "--json"};
  std::vector<std::string> masked = arguments;
  masked.insert(masked.end(), {"--mask", "window:-1,-1", "--mask", "causal:-1", "--bias", "0 -1"});
  const Ran hidden = rapt(masked);
  ASSERT_EQ(hidden.exit, 0) << hidden.err;
  EXPECT_EQ(Json::parse(hidden.out).at("steps").back().at("values"), Json({{0.0}, {1.0}}));
  const Ran seen = rapt(arguments);
  ASSERT_EQ(seen.exit, 0) << seen.err;
  EXPECT_EQ(Json::parse(seen.out).at("steps").back().at("values"), Json({{"nan"}, {"nan"}}));
}

TEST_F(ExplainTest, ScaleIsTheUsers) {
  const Ran ran = rapt({"explain", "--scale", "-2"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(squeezed(ran.out), "[[-0.1664 -0.4076] [-0.4112 -1.0088]]")) << ran.out;
}

TEST_F(ExplainTest, AMaskFileOfAnyFloatsIsABias) {
  const double values[] = {0, 1, 0, 0.5};
  save("b.npy", TensorView(values, {2, 2}));
  const std::string bias = rapt({"explain", "--bias", "0 1; 0 0.5"}).out;
  EXPECT_TRUE(contains(bias, "bias  [2, 2]")) << bias;
  for (const char* dtype : {"f32", "f64", "f16", "bf16"}) {
    ASSERT_EQ(rapt({"convert", "b.npy", "b.safetensors", "--dtype", dtype, "-f"}).exit, 0);
    EXPECT_EQ(rapt({"explain", "--mask", "file:b.safetensors"}).out, bias) << dtype;
  }
}

TEST_F(ExplainTest, ABiasBeforeTheScoresIsCapped) {
  const std::vector<std::string> arguments = {
      "explain",      "--query", "1; 2",    "--key",      "1; 1",   "--value",    "1; 1",
      "--scale",      "1",       "--score", "softcap(1)", "--bias", "0 1; 0 0.5", "--bias-order",
      "before-scores"};
  const Ran ran = rapt(arguments);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string text = squeezed(ran.out);
  const char* const steps[] = {"scaled_scores",
                               "[[1.0000 1.0000] [2.0000 2.0000]]",
                               "bias [2, 2]",
                               "[[0.0000 1.0000] [0.0000 0.5000]]",
                               "scores_1 = softcap(1) [2, 2]",
                               "[[0.7616 0.9640] [0.9640 0.9866]]",  // tanh 1, 2 and 2.5
                               "masked_scores = scores_1, masked"};
  size_t at = 0;
  for (const char* step : steps) {
    at = text.find(step, at);
    ASSERT_NE(at, std::string::npos) << step << "\n" << text;
  }
}

TEST_F(ExplainTest, ShowsScoreAfterScore) {
  const Ran ran =
      rapt({"explain", "--query", "1; 2", "--key", "1; 1", "--value", "1; 1", "--scale", "1",
            "--score", "softcap(1)", "--score", "alibi(heads=8)", "--mask", "causal"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string text = squeezed(ran.out);
  const char* const steps[] = {
      "scores_1 = softcap(1) [2, 2]",     "[[0.7616 0.7616] [0.9640 0.9640]]",  // tanh 1, tanh 2
      "scores_2 = alibi(heads=8) [2, 2]", "[[0.7616 0.2616] [0.4640 0.9640]]",  // 1/2 per position
      "masked_scores = scores_2, with",   "[[0.7616 -inf] [0.4640 0.9640]]"};
  size_t at = 0;
  for (const char* step : steps) {
    at = text.find(step, at);
    ASSERT_NE(at, std::string::npos) << step << "\n" << text;
  }
}

TEST_F(ExplainTest, ShowsAnyNormalizer) {
  save("numbers.npy", filled(DType::f32, {1}, 5));
  for (const Declaration* normalizer : normalizer_declarations()) {
    std::string name = normalizer->name;
    for (const Parameter& parameter : normalizer->parameters)
      if (parameter.required)
        name += parameter.type == ParameterType::tensor
                    ? ":numbers.npy"
                    : std::string(":") + normalizer->examples.front();
    for (const char* dtype : {"f32", "f64"}) {
      const Ran ran = rapt({"explain", "--normalizer", name, "--dtype", dtype, "--scale", "9"});
      EXPECT_EQ(ran.exit, 0) << name << ": " << ran.err;
    }
  }
  const auto weights = [&](const char* normalizer) {
    const Ran ran = rapt({"explain", "--query", "1; -1", "--key", "2; 4", "--value", "1; 1",
                          "--scale", "1", "--normalizer", normalizer});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    const std::string text = squeezed(ran.out);
    return text.substr(text.find(". weights = "));
  };
  const std::string squares = weights("relu(2)");  // of 2 and 4, over two keys
  EXPECT_TRUE(contains(squares, "[[2.0000 8.0000] [0.0000 0.0000]]")) << squares;
  EXPECT_TRUE(contains(squares, "[[10.0000] [ 0.0000]]")) << squares;
  const std::string sigmoids = weights("sigmoid(0)");  // 1 / (1 + e^-2), 1 / (1 + e^-4)
  EXPECT_TRUE(contains(sigmoids, "[[0.8808 0.9820] [0.1192 0.0180]]")) << sigmoids;
}

TEST_F(ExplainTest, ShowsRowsAsTheyAreMultiplied) {
  const Ran ran = rapt({"explain", "--query", "3 4; 3 4", "--key", "5 0; 5 0", "--value", "1; 2",
                        "--scale", "1", "--cosine", "--rotary"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string text = squeezed(ran.out);
  // Rotary turns the second rows by 1 radian: (0.6 cos 1 - 0.8 sin 1, 0.8 cos 1 + 0.6 sin 1).
  const char* const steps[] = {"unit_query",    "[[0.6000 0.8000] [0.6000 0.8000]]",
                               "rotated_query", "[[ 0.6000 0.8000] [-0.3490 0.9371]]",
                               "unit_key",      "[[1.0000 0.0000] [1.0000 0.0000]]",
                               "rotated_key",   "[[1.0000 0.0000] [0.5403 0.8415]]"};
  size_t at = 0;
  for (const char* step : steps) {
    at = text.find(step, at);
    ASSERT_NE(at, std::string::npos) << step << "\n" << text;
  }
}

// The numbers of the table rows make every product visible in the sums.
TEST_F(ExplainTest, ShowsWhatRowsOfDistancesAdd) {
  const Ran ran = rapt({"explain", "--query", "1 0; 0 1", "--key", "1 1; 2 2", "--value", "1; 2",
                        "--scale", "1", "--mask", "causal", "--relative",
                        "key_rows=10 20; 30 40; 50 60, query_rows=0 1; 1 0; 1 1, "
                        "value_rows=5; 7; 9, content_bias=1 1, position_bias=0 1"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string text = squeezed(ran.out);
  // Distance 0 uses table row 1; a key after the query uses row 2, a key before it row 0.
  const char* const steps[] = {
      "content_query = query + content_bias",
      "[[2.0000 1.0000] [1.0000 2.0000]]",
      "position_query = query + position_bias",
      "[[1.0000 1.0000] [0.0000 2.0000]]",
      "distance_rows",
      "[[1.0000 2.0000] [0.0000 1.0000]]",
      "scores = content_query key^T",
      "[[3.0000 6.0000] [3.0000 6.0000]]",
      "relative_scores = position_query key_rows[distance_rows] + key query_rows[distance_rows]",
      "[[ 71.0000 114.0000] [ 41.0000 82.0000]]",
      "scaled_scores = (scores + relative_scores) * scale",
      "[[ 74.0000 120.0000] [ 44.0000 88.0000]]",
      "relative_values",
      "[[7.0000] [7.0000]]",
      "output = weights value + relative_values",
      "[[8.0000] [9.0000]]"};
  size_t at = 0;
  for (const char* step : steps) {
    at = text.find(step, at);
    ASSERT_NE(at, std::string::npos) << step << "\n" << text;
  }
}

// The bound of rounding errors, by hand, for one query, one key and one value of 1: 34 units for
// the score, at least 2 for the weight and 3 for the sum over the keys. It grows with the value.
TEST_F(ExplainTest, WhatRoundingExplainsIsNeitherTooLittleNorTooMuch) {
  for (const auto& [dtype, unit] : {std::pair("f32", 0x1p-23), {"f64", 0x1p-52}}) {
    const auto allowed = [&](const std::string& query, const std::string& value) {
      const Ran ran = rapt({"explain", "--json", "--dtype", dtype, "--query", query, "--key", "1",
                            "--value", value, "--scale", "1"});
      const Json document = Json::parse(ran.out);
      const double bound = document.at("allowed_difference").get<double>();
      EXPECT_LE(document.at("difference").get<double>(), bound);
      return bound / unit;
    };
    const double one = allowed("1", "1");
    EXPECT_GE(one, 39) << dtype;
    EXPECT_LE(one, 50) << dtype;
    EXPECT_NEAR(allowed("1", "8"), 8 * one, 0.01 * one) << dtype;
    EXPECT_NEAR(allowed("11", "1") - one, 10 * 24, 1) << "20 units per product, 4 per score";
  }
}

TEST_F(ExplainTest, JsonHasWhatTheDocumentationLists) {
  const Ran ran = rapt({"explain", "--json", "--mask", "causal"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.explain/1");
  EXPECT_EQ(document.at("masks"), Json({"causal"}));
  EXPECT_EQ(document.at("scores"), Json::array());
  EXPECT_EQ(document.at("normalizer"), "softmax");
  EXPECT_NEAR(document.at("scale").get<double>(), std::sqrt(0.5), 1e-12);
  EXPECT_TRUE(document.contains("build") && document.contains("isa"));
  EXPECT_LT(document.at("difference").get<double>(), 1e-6);
  std::vector<std::string> names;
  for (const Json& step : document.at("steps")) {
    names.push_back(step.at("name"));
    EXPECT_EQ(step.at("values").size(), step.at("shape").at(0).get<size_t>());
    EXPECT_EQ(step.at("values").at(0).size(), step.at("shape").at(1).get<size_t>());
    EXPECT_NE(step.at("doc"), "");
    EXPECT_TRUE(step.contains("formula"));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"embeddings", "w_query", "w_key", "w_value", "query", "key",
                                      "value", "key_transposed", "scores", "scaled_scores", "mask",
                                      "masked_scores", "weights", "row_sums", "output"}));
  EXPECT_EQ(document.at("steps").at(11).at("values").at(0).at(1), "-inf");
}

TEST_F(ExplainTest, DrawsItsWeights) {
  const Ran ran = rapt({"explain", "--heatmap", "w.svg", "--heatmap", "w.png"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(read("w.svg"), "Query 1"));
  EXPECT_TRUE(contains(read("w.svg"), "0.48"));
  EXPECT_EQ(read("w.png").substr(1, 3), "PNG");
  EXPECT_TRUE(contains(ran.err, "wrote w.svg"));
  const Ran again = rapt({"explain", "--heatmap", "w.svg"});
  EXPECT_EQ(again.exit, 4);
  EXPECT_EQ(again.out, "");
  EXPECT_EQ(rapt({"explain", "--heatmap", "w.svg", "--force"}).exit, 0);
}

TEST_F(ExplainTest, RefusesWhatCannotBeMeant) {
  const struct {
    std::vector<std::string> arguments;
    int exit;
    const char* says;
  } cases[] = {
      {{"--query", "1 2"}, 2, "belong together"},
      {{"--embeddings", "1 2"}, 2, "belong together"},
      {{"--query", "1", "--key", "1", "--value", "1", "--w-key", "1"}, 2, "or --embeddings"},
      {{"--query", "1 2; 3", "--key", "1 2", "--value", "1"}, 3, "row 1 has 1 numbers"},
      {{"--query", "1 2", "--key", "1 2 3", "--value", "1"}, 3, "head_dim"},
      {{"--query", "1", "--key", "1; 2", "--value", "1"}, 3, "value"},
      {{"--query", "1 2", "--key", "1e400 1", "--value", "1"}, 2, "finite"},
      {{"--query", "none.npy", "--key", "1", "--value", "1"}, 4, "no such file"},
      {{"--embeddings", "1 2", "--w-query", "1", "--w-key", "1", "--w-value", "1"}, 3, "2 rows"},
      {{"--dtype", "f16"}, 2, "f32 or f64"},
      {{"--scale", "nan"}, 2, "finite"},
      {{"--mask", "casual"}, 2, "causal"},
      {{"--normalizer", "softmux"}, 2, "did you mean softmax"},
      {{"--score", "softcap(0)"}, 2, "--score softcap(0)"},
      {{"--bias-order", "before-scores"}, 2, "--bias-order needs"},
      {{"--score", "head_scale(none.npy)"}, 4, "no such file"},
      {{"--cosine", "0"}, 2, "--cosine"},
      {{"--rotary", "theta=-1"}, 2, "--rotary"},
      {{"--relative", "key_rowz=1 2; 3 4"}, 2, "did you mean key_rows?"},
      {{"--relative", "key_rows=1 2 3; 4 5 6"}, 3, "expected a last dimension of 2"},
      {{"--embedding", "1"}, 2, "did you mean '--embeddings'?"},
      {{"--json", "--heatmap", "-"}, 2, "standard output"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = {"explain"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, c.exit) << c.says << ": " << ran.err;
    EXPECT_TRUE(contains(ran.err, c.says)) << c.says << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << c.says;
  }
}

TEST_F(ExplainTest, PrintsNoMatrixThatNobodyCanRead) {
  save("big.npy", filled(DType::f32, {40, 4}, 1));
  const Ran ran = rapt({"explain", "--query", "big.npy", "--key", "big.npy", "--value", "big.npy"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_TRUE(contains(ran.err, "'rapt attend' takes")) << ran.err;
}

}  // namespace
}  // namespace rapt::cli_test
