// rapt check: its output, its findings and its exit codes.
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

using CheckTest = RaptTest;
using Json = nlohmann::json;

TEST_F(CheckTest, PrintsErrorToleranceAndSpeed) {
  const Ran ran = rapt({"check", "h2q40k50d8:mask=causal:weights:seed=3"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  for (const char* part : {"h2q40k50d8:mask=causal:weights:seed=3\n", "all 40 rows of all 2 heads",
                           "output       error ", "lse          error ", "weights      error ",
                           " of ", " GFLOP/s, ", " % of the f32 FMA peak", "result       ok"}) {
    EXPECT_TRUE(contains(ran.out, part)) << part << " is missing in\n" << ran.out;
  }
  EXPECT_EQ(ran.err, "");
}

TEST_F(CheckTest, PrintsTheCanonicalLine) {
  const Ran ran = rapt({"check", "b3q4k4d4:seed=1:mask=(causal(0))"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "h3q4k4d4:mask=causal:seed=1\n")) << ran.out;
}

TEST_F(CheckTest, JsonHasWhatTheDocumentationLists) {
  const Ran ran = rapt({"check", "--json", "q7k9d4v3", "h2q5k5d4:f64:mask=!causal&prefix(3)"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.check/1");
  EXPECT_TRUE(document.contains("build"));
  ASSERT_EQ(document.at("problems").size(), 2u);
  const Json& problem = document.at("problems").at(1);
  EXPECT_EQ(problem.at("descriptor"), "h2q5k5d4:f64:mask=!causal&prefix(3)");
  EXPECT_TRUE(problem.at("ok").get<bool>());
  EXPECT_TRUE(problem.at("compared").at("rows").is_null());
  EXPECT_TRUE(problem.at("compared").at("heads").is_null());
  EXPECT_TRUE(problem.at("gradients").at("rows").is_null());
  EXPECT_TRUE(problem.at("gradients").at("heads").is_null());
  std::vector<std::string> names;
  for (const Json& tensor : problem.at("tensors")) names.push_back(tensor.at("name"));
  EXPECT_EQ(names,
            (std::vector<std::string>{"output", "lse", "d_query", "d_key", "d_value", "d_scale"}));
  for (const Json& tensor : problem.at("tensors")) {
    EXPECT_TRUE(tensor.at("ok").get<bool>());
    EXPECT_LE(tensor.at("error").get<double>(), tensor.at("allowed").get<double>());
    EXPECT_LE(tensor.at("rms_error").get<double>(), tensor.at("rms_allowed").get<double>());
    EXPECT_TRUE(tensor.at("message").is_null());
  }
  EXPECT_GT(problem.at("time").at("cpu_seconds").get<double>(), 0);
  EXPECT_GT(problem.at("time").at("gflops").get<double>(), 0);
  EXPECT_GT(problem.at("peak").at("fma_gflops").get<double>(), 0);
  EXPECT_GT(problem.at("peak").at("percent").get<double>(), 0);
  EXPECT_TRUE(problem.at("plan").contains("isa") && problem.at("plan").contains("kernel"));
}

TEST_F(CheckTest, ComparesGradients) {
  Ran ran = rapt({"check", "h4/2q40k50d8:bias:score=softcap(5):dropout=0.2,7:backward=lse,two"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  for (const char* part : {"h4/2q40k50d8:bias:score=softcap(5):dropout=0.2,7:backward=lse,two\n",
                           "gradients    of all 40 rows of all 4 heads", "d_query      error ",
                           "d_key        error ", "d_value      error ", "d_bias       error ",
                           "d_scale      error ", "d_score_parameters error "}) {
    EXPECT_TRUE(contains(ran.out, part)) << part << " is missing in\n" << ran.out;
  }
  ran = rapt({"check", "--forward-only", "q7k9d4"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_FALSE(contains(ran.out, "d_query")) << ran.out;
  ran = rapt({"check", "--forward-only", "--json", "q7k9d4"});
  EXPECT_TRUE(Json::parse(ran.out)["problems"][0]["gradients"].is_null()) << ran.out;
}

// Calls on a cache have no gradients.
TEST_F(CheckTest, ComparesCallsOnACache) {
  const Ran ran =
      rapt({"check", "--json", "b3h4/2q2k48d8:mask=causal(bottom-right):cache=pages(16)",
            "h2q9k40d8:packed=4:cache=circular:top_k(3)"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  for (const Json& problem : document["problems"]) {
    EXPECT_TRUE(problem["ok"].get<bool>());
    EXPECT_TRUE(problem["gradients"].is_null());
  }
}

TEST_F(CheckTest, LargeProblemsAreComparedInPart) {
  if (RAPT_SANITIZED) GTEST_SKIP() << "takes minutes under sanitizers";
  const Ran ran = rapt({"check", "--json", "q5000k1000d8:top_k(2):seed=2"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json problem = Json::parse(ran.out)["problems"][0];
  const Json rows = problem["compared"]["rows"];
  EXPECT_GT(problem["gradients"]["rows"].size(), 10u);
  EXPECT_LT(problem["gradients"]["rows"].size(), rows.size());
  EXPECT_GT(rows.size(), 100u);
  EXPECT_LT(rows.size(), 5000u);
}

// rapt overflows where the plain loop does not (the f32 limit in attention.h), so the results must
// differ.
TEST_F(CheckTest, AMismatchIsExitCode1) {
  const Ran ran = rapt({"check", "q3k5d1:magnitude=1.8e19:scale=1:seed=1", "q4k4d4"});
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_TRUE(contains(ran.out, "DIFFERS: ")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "result       differs")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "result       ok")) << "the other problem was not computed";
  EXPECT_TRUE(contains(ran.err, "1 of 2 differs from the reference")) << ran.err;
}

TEST_F(CheckTest, RefusesWhatCannotBeMeant) {
  Ran ran = rapt({"check", "q4k4d4", "q4k4d4:mask=casual"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_EQ(ran.out, "") << "all lines are read before the first is computed";
  EXPECT_TRUE(contains(ran.err, "column 13: expected a mask")) << ran.err;
  ran = rapt({"check"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "expected a descriptor")) << ran.err;
  ran = rapt({"check", "q4k4d4", "--jsno"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "did you mean '--json'?")) << ran.err;
}

TEST_F(CheckTest, RefusesMoreMemoryThanAllowed) {
  const Ran ran = rapt({"check", "--memory-limit", "1M", "h64q4000k4000d64"});
  EXPECT_EQ(ran.exit, 5);
  EXPECT_TRUE(contains(ran.err, "h64q4000k4000d64")) << ran.err;
  EXPECT_EQ(rapt({"check", "h1000q1000000k1000000d1"}).exit, 5);
}

}  // namespace
}  // namespace rapt::cli_test
