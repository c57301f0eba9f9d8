// rapt compare as users run it: known answers, refusals, exit codes.
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using CompareTest = RaptTest;
using Json = nlohmann::json;

std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"compare", "--q-len", "64", "--head-dim", "8", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Json& call(const Json& document, const std::string& name) {
  for (const Json& one : document.at("calls"))
    if (one.at("name") == name) return one;
  throw std::runtime_error("no call " + name);
}

TEST_F(CompareTest, AWindowOfAllKeysIsExact) {
  const Ran ran = rapt(small({"--method", "mask=window(-1,-1)", "--gradients"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.compare/1");
  const Json& all = call(document, "mask=window(-1,-1)");
  for (const char* const of : {"output", "d_query", "d_key", "d_value", "rows_100"})
    EXPECT_EQ(all.at("error").at(of), 0) << of;
  for (const auto& [name, number] : all.at("looked_at").items())
    EXPECT_NEAR(number.get<double>(), 1, 1e-6) << name;
  EXPECT_EQ(all.at("window"), nullptr);
}

TEST_F(CompareTest, TheMeanIsExactWhereAllRowsAreEqual) {
  const Ran ran = rapt(small({"--input", "equal", "--method", "linear"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_LT(call(document, "mean").at("error").at("output").get<double>(), 1e-5);
  EXPECT_LT(call(document, "linear").at("error").at("output").get<double>(), 1e-5);
}

TEST_F(CompareTest, ChunksThatLaterTokensShiftLeak) {
  const Ran ran = rapt(small({"--input", "clustered", "--mask", "causal", "--method",
                              "lsh(rounds=2,chunk=8,cut={row,bucket})"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_GT(call(document, "lsh(rounds=2,chunk=8,cut=row)").at("leak").at("rows"), 0);
  EXPECT_EQ(call(document, "lsh(rounds=2,chunk=8,cut=bucket)").at("leak").at("rows"), 0);
}

TEST_F(CompareTest, ARefusedMethodSaysWhyAndTheOthersGoOn) {
  const Ran some = rapt(small({"--method", "lsh", "--method", "linear"}));
  ASSERT_EQ(some.exit, 0) << some.err;
  EXPECT_NE(call(Json::parse(some.out), "lsh").at("refused"), nullptr);
  const Ran none = rapt(small({"--method", "lsh"}));
  EXPECT_EQ(none.exit, 3);
  EXPECT_TRUE(contains(none.err, "keys=separate")) << none.err;
}

TEST_F(CompareTest, ExitCodesAreThoseOfTheManual) {
  EXPECT_EQ(rapt(small({"--method", "linear", "--max-error", "1e-9"})).exit, 1);
  EXPECT_EQ(rapt(small({"--method", "dtype=f64", "--max-error", "1e-3"})).exit, 0);
  EXPECT_EQ(rapt(small({})).exit, 2);
  EXPECT_EQ(rapt(small({"--method", "liner"})).exit, 2);
  EXPECT_EQ(rapt(small({"--method", "linear", "--input", "nedle"})).exit, 2);
  EXPECT_EQ(rapt(small({"--method", "linear", "--memory-limit", "1K"})).exit, 5);
}

TEST_F(CompareTest, MemoryIsAnnounced) {
  // The messages of a command with limits from one step to the next, until it runs.
  const auto refusals_by_memory = [&](std::vector<std::string> words, int step,
                                      const std::string& unit) {
    words.insert(words.end(), {"--memory-limit", ""});
    std::string messages;
    for (int limit = step; limit < 32 * step; limit += step) {
      words.back() = std::to_string(limit) + unit;
      const Ran ran = rapt(words);
      if (ran.exit == 0) break;
      EXPECT_EQ(ran.exit, 5) << ran.err;
      messages += ran.err;
    }
    return messages;
  };
  const std::string calls = refusals_by_memory(
      {"compare", "--q-len", "1024", "--head-dim", "128", "--rows", "1", "--seeds", "1", "--mask",
       "causal", "--method", "favor(features=4,seed={1,2,3,4,5})"},
      1, "M");
  for (const char* const what : {"results that show leaks 2.5 MiB", "sums over seeds 512.0 KiB"})
    EXPECT_TRUE(contains(calls, what)) << calls;
  const std::string gradients = refusals_by_memory(
      small({"--rows", "1", "--dtype", "bf16", "--gradients", "--method", "linear"}), 1, "K");
  // Drawn in f32 and then converted.
  EXPECT_TRUE(contains(gradients, "the gradient of the output 3.0 KiB")) << gradients;
}

TEST_F(CompareTest, AsManyMasksAsACallTakesLeaveNoRoomForAWindow) {
  std::vector<std::string> words = small({"--method", "linear"});
  for (int i = 0; i < 16; ++i) words.insert(words.end(), {"--mask", "causal"});
  const Ran ran = rapt(words);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  const Json& linear = call(document, "linear");
  EXPECT_EQ(linear.at("refused"), nullptr);
  EXPECT_EQ(linear.at("window"), nullptr);
  EXPECT_LT(linear.at("cost_pairs"), 64 * 65 / 2);
  EXPECT_FALSE(contains(linear.at("words").get<std::string>(), "costs no more"));
}

TEST_F(CompareTest, TheTableRemainsWhereNoErrorCanBeDrawn) {
  const Ran ran = rapt({"compare", "--q-len", "16", "--head-dim", "8", "--input", "normal(1e30)",
                        "--method", "linear", "--output", "chart.svg"});
  EXPECT_EQ(ran.exit, 3) << ran.err;
  EXPECT_TRUE(contains(ran.err, "finite")) << ran.err;
  EXPECT_TRUE(contains(ran.out, "relative error")) << ran.out;
  EXPECT_TRUE(read("chart.svg").empty());
}

TEST_F(CompareTest, GradientsOfSharedKeysAreThoseOfTheDtype) {
  const auto d_query = [&](const std::string& dtype) {
    const Ran ran = rapt(small({"--input", "clustered", "--method", "lsh(rounds=2,chunk=8)",
                                "--gradients", "--seeds", "1", "--dtype", dtype}));
    EXPECT_EQ(ran.exit, 0) << ran.err;
    const Json document = Json::parse(ran.out);
    const std::string window =
        call(document, "lsh(rounds=2,chunk=8)").at("window").get<std::string>();
    return call(document, window).at("error").at("d_query").get<double>();
  };
  const double in_f32 = d_query("f32");
  // Other buckets, and so another window, may follow from the rounded rows.
  for (const char* const dtype : {"bf16", "f16"})
    EXPECT_NEAR(d_query(dtype), in_f32, 0.3 * in_f32) << dtype;
}

// The errors that were measured before with another program, and how much larger or smaller they
// may be with other draws.
void expect_published(double error, double published) {
  EXPECT_GT(error, published * 2 / 3);
  EXPECT_LT(error, published * 4 / 3);
}

TEST_F(CompareTest, ErrorsOfLshOnClusteredRowsAreThoseOfAnIndependentProgram) {
  const Ran ran = rapt({"compare", "--input", "clustered", "--q-len", "128", "--head-dim", "32",
                        "--heads", "4", "--json", "--method",
                        "lsh(rounds={4,16},chunk=16,buckets=8,duplicates={count-once,count-all})"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  const auto expect_error = [&](const char* rounds, const char* duplicates, double published) {
    const std::string name =
        std::string("lsh(rounds=") + rounds + ",chunk=16,buckets=8,duplicates=" + duplicates + ")";
    expect_published(call(document, name).at("error").at("output").get<double>(), published);
  };
  expect_error("4", "count-once", .42);
  expect_error("16", "count-once", .039);
  expect_error("4", "count-all", .63);
  expect_error("16", "count-all", .39);
}

TEST_F(CompareTest, ErrorsOfLshOnNeedlesAreThoseOfAnIndependentProgram) {
  const Ran ran = rapt({"compare", "--input", "needle", "--q-len", "1024", "--head-dim", "64",
                        "--heads", "2", "--rows", "64", "--seeds", "3", "--json", "--method",
                        "lsh(rounds={2,8},keys=separate,buckets=8)"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  const auto error = [&](const std::string& name) {
    return call(document, name).at("error").at("output").get<double>();
  };
  expect_published(error("mean"), .998);
  // Chunks of the other program hold an eighth of the keys, as buckets do here.
  expect_published(error("lsh(rounds=2,keys=separate,buckets=8)"), .76);
  expect_published(error("lsh(rounds=8,keys=separate,buckets=8)"), .21);
}

TEST_F(CompareTest, ErrorsOfFavorAreThoseOfAnIndependentProgram) {
  const Ran ran = rapt({"compare", "--input", "normal(0.5)", "--q-len", "1024", "--head-dim", "16",
                        "--heads", "2", "--rows", "1", "--json", "--method",
                        "favor(features={64,256},exponent={0,-0.0532})"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  expect_published(call(document, "mean").at("error").at("output").get<double>(), .29);
  const auto expect_error = [&](const std::string& parameters, double published) {
    expect_published(
        call(document, "favor(" + parameters + ")").at("error").at("output").get<double>(),
        published);
  };
  expect_error("features=64,exponent=0", .31);
  expect_error("features=64,exponent=-0.0532", .28);
  expect_error("features=256,exponent=0", .17);
  expect_error("features=256,exponent=-0.0532", .12);
}

TEST_F(CompareTest, ChartsShowErrorsAgainstTime) {
  const std::vector<std::string> words = {
      "compare",  "--q-len",  "64", "--head-dim", "8", "--method", "favor(features={8,16})",
      "--output", "chart.svg"};
  const Ran ran = rapt(words);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string svg = read("chart.svg");
  for (const char* const text : {"favor(features={8,16})", "window", "mean", "relative error"})
    EXPECT_TRUE(contains(svg, text)) << text;
  EXPECT_EQ(rapt(words).exit, 4);
  std::vector<std::string> again = words;
  again.push_back("--force");
  EXPECT_EQ(rapt(again).exit, 0);
  const Ran exact = rapt(small({"--method", "mask=window(-1,-1)", "--output", "exact.png"}));
  EXPECT_EQ(exact.exit, 0) << exact.err;
  EXPECT_EQ(rapt(small({"--method", "linear", "--output", "-"})).exit, 2);  // and --json
  EXPECT_EQ(rapt(small({"--method", "linear", "--output", "chart.pdf"})).exit, 2);
}

}  // namespace
}  // namespace rapt::cli_test
