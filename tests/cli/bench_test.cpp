// rapt bench: which problems it measures, what it reports, and comparison with an older result.
// Other tests run at the same time, so only the consistency of the numbers is tested.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using BenchTest = RaptTest;
using Json = nlohmann::json;

// A problem that takes almost no time.
const std::vector<std::string> kSmall = {"bench", "h1q16k16d8", "--repetitions", "3"};

std::vector<std::string> small(std::vector<std::string> more) {
  more.insert(more.begin(), kSmall.begin(), kSmall.end());
  return more;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(BenchTest, JsonHasWhatTheDocumentationLists) {
  const Ran ran = rapt(small({"--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.bench/1");
  EXPECT_TRUE(document.contains("build") && document.contains("cpu") && document.contains("isa"));
  ASSERT_EQ(document.at("problems").size(), 1u);
  const Json& problem = document.at("problems").at(0);
  EXPECT_EQ(problem.at("descriptor"), "h1q16k16d8");
  EXPECT_EQ(problem.at("threads"), 1);
  const Json& time = problem.at("time");
  std::vector<double> samples = time.at("samples");
  ASSERT_EQ(samples.size(), 3u);
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(time.at("median_seconds"), samples[1]);
  const double deviation = time.at("mad_seconds");
  EXPECT_TRUE(deviation >= 0 && deviation <= samples[2] - samples[0]);
  EXPECT_GT(time.at("calls"), 1) << "calls of microseconds are measured in rows";
  // 2 (8 + 8) operations for each of 16 x 16 pairs.
  EXPECT_NEAR(time.at("gflops").get<double>() * samples[1] * 1e9, 8192, 1);
  const Json& peak = problem.at("peak");
  EXPECT_EQ(peak.at("instruction"), "f32 FMA");
  EXPECT_NEAR(peak.at("percent").get<double>(),
              100 * time.at("gflops").get<double>() / peak.at("gflops").get<double>(), 1e-9);
  EXPECT_TRUE(problem.at("memory").at("growth_bytes").is_number());
  EXPECT_EQ(problem.at("older"), nullptr);
  EXPECT_TRUE(problem.at("plan").at("workspace_bytes").is_number());
}

TEST_F(BenchTest, MeasuresEveryCombinationOfTheLists) {
  const Ran ran = rapt({"bench",
                        "--q-len",
                        "4,8",
                        "--k-len",
                        "6",
                        "--head-dim",
                        "4",
                        "--value-dim",
                        "2,3",
                        "--heads",
                        "2/1",
                        "--batch",
                        "2",
                        "--dtype",
                        "f64,bf16",
                        "--mask",
                        "none,window(3,0)",
                        "-r",
                        "1",
                        "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  std::vector<std::string> descriptors;
  const Json document = Json::parse(ran.out);
  for (const Json& problem : document.at("problems"))
    descriptors.push_back(problem.at("descriptor"));
  ASSERT_EQ(descriptors.size(), 16u);
  EXPECT_EQ(descriptors[0], "b2h2/1q4k6d4v2:f64");
  EXPECT_EQ(descriptors[1], "b2h2/1q4k6d4v2:f64:mask=window(3,0)");
  EXPECT_EQ(descriptors[15], "b2h2/1q8k6d4v3:bf16:mask=window(3,0)");
}

TEST_F(BenchTest, MeasuresMethods) {
  const Ran ran = rapt({"bench", "--q-len", "8", "--head-dim", "4", "--dtype", "f32", "--mask",
                        "causal", "--method", "none,mean", "-r", "1", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  const Json& problems = document.at("problems");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems.at(0).at("descriptor"), "h2q8k8d4:mask=causal");
  EXPECT_EQ(problems.at(1).at("descriptor"), "h2q8k8d4:mask=causal:method=mean");
  EXPECT_TRUE(problems.at(0).at("time").at("gflops").is_number());
  EXPECT_EQ(problems.at(1).at("time").at("gflops"), nullptr);
}

TEST_F(BenchTest, MeasuresAProblemOnceHoweverOftenItIsNamed) {
  const Ran ran = rapt(small({"h1q16k16d8v8:f32", "--format", "jsonl"}));
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(lines_of(ran.out).size(), 1u);
}

TEST_F(BenchTest, MeasuresCallsOnACache) {
  const Ran ran = rapt(small({"b3h4/2q1k64d16:cache=pages(16)", "--format", "jsonl"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "b3h4/2q1k64d16:cache=pages(16)")) << ran.out;
}

TEST_F(BenchTest, PrintsATableForPeople) {
  const Ran ran = rapt(small({"h2q8k8d4:mask=causal"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::vector<std::string> lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 6u) << ran.out;
  EXPECT_TRUE(contains(lines[0], "| problem ")) << lines[0];
  EXPECT_TRUE(lines[2].starts_with("| h1q16k16d8 ")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("| h2q8k8d4:mask=causal |")) << lines[3];
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(lines[i].size(), lines[0].size()) << ran.out;
  EXPECT_TRUE(lines[5].starts_with("rapt ")) << lines[5];
}

TEST_F(BenchTest, PrintsCsvWithAsManyFieldsAsNames) {
  const Ran ran = rapt(small({"h1q8k8d4:mask=window(2,0)", "--format", "csv"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::vector<std::string> lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) {
    bool quoted = false;
    int fields = 1;
    for (const char c : line) {
      quoted ^= c == '"';
      fields += c == ',' && !quoted;
    }
    EXPECT_EQ(fields, 16) << line;
  }
  EXPECT_TRUE(lines[2].starts_with("\"h1q8k8d4:mask=window(2,0)\",1,")) << lines[2];
}

TEST_F(BenchTest, PrintsALineOfJsonPerProblem) {
  const Ran ran = rapt(small({"h1q8k8d4", "--format", "jsonl"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::vector<std::string> lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) EXPECT_EQ(Json::parse(line).at("schema"), "rapt.bench/1");
  EXPECT_EQ(Json::parse(lines[1]).at("descriptor"), "h1q8k8d4");
}

TEST_F(BenchTest, MeasuresNumbersOfThreads) {
  const Ran ran = rapt({"bench", "h8q128k128d64", "--threads", "1,2", "-r", "1"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "| h8q128k128d64             |")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "| h8q128k128d64 x 2 threads |")) << ran.out;
}

class CompareTest : public RaptTest {
 protected:
  // Writes an older result of two problems that both took `seconds`.
  void write_older(double seconds) const {
    Json document = Json::parse(rapt(small({"h1q8k8d4", "--json"})).out);
    for (Json& problem : document.at("problems")) problem["time"]["median_seconds"] = seconds;
    write("old.json", document.dump());
  }
};

TEST_F(CompareTest, FasterThanBeforeIsOk) {
  write_older(1);
  const Ran ran = rapt(small({"--compare", "old.json", "--json"}));
  EXPECT_EQ(ran.exit, 0) << ran.err;
  const Json older = Json::parse(ran.out).at("problems").at(0).at("older");
  EXPECT_EQ(older.at("median_seconds"), 1.0);
  EXPECT_LT(older.at("ratio"), 0.5);
  EXPECT_EQ(older.at("slower"), false);
}

TEST_F(CompareTest, SlowerThanBeforeFailsAndPrintsRatios) {
  write_older(1e-12);
  const Ran ran = rapt(small({"--compare", "old.json"}));
  EXPECT_EQ(ran.exit, 1);
  EXPECT_TRUE(contains(ran.out, " ratio |")) << ran.out;
  EXPECT_TRUE(contains(ran.err, "1 of 1 is slower than in 'old.json' by more than 10 %"))
      << ran.err;
  EXPECT_EQ(rapt(small({"--compare", "old.json", "--tolerance", "1e15"})).exit, 0);
}

TEST_F(CompareTest, MeasuresTheOlderProblemsWhereNoneAreNamed) {
  write_older(1);
  const Ran ran = rapt({"bench", "-r", "1", "--compare", "old.json", "--format", "jsonl"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  ASSERT_EQ(lines_of(ran.out).size(), 2u);
  write("old.jsonl", ran.out);
  EXPECT_EQ(rapt({"bench", "-r", "1", "--compare", "old.jsonl", "--tolerance", "1e6"}).exit, 0);
}

TEST_F(CompareTest, SaysWhatTheOlderResultLacks) {
  write_older(1);
  const Ran some = rapt(small({"h1q4k4d4", "--compare", "old.json"}));
  EXPECT_EQ(some.exit, 0);
  EXPECT_TRUE(contains(some.err, "h1q4k4d4 is not in 'old.json'")) << some.err;
  const Ran none = rapt({"bench", "h1q4k4d4", "-r", "1", "--compare", "old.json"});
  EXPECT_EQ(none.exit, 1) << "nothing was compared";
}

TEST_F(CompareTest, RefusesWhatIsNoResult) {
  const auto refused = [&](const std::string& text, const std::string& why) {
    write("bad.json", text);
    const Ran ran = rapt(small({"--compare", "bad.json"}));
    EXPECT_EQ(ran.exit, 3) << text << ran.err;
    EXPECT_TRUE(contains(ran.err, "'bad.json'")) << ran.err;
    EXPECT_TRUE(contains(ran.err, why)) << ran.err;
    EXPECT_EQ(ran.out, "");
  };
  refused("", "no problems");
  refused("{", "is not a result");
  refused("[1, 2]", "is not a result");
  refused(R"({"schema": 1})", "is not a result");
  refused(R"({"schema": "rapt.check/1"})", "schema 'rapt.check/1'");
  refused(R"({"schema": "rapt.bench/1", "cpu": "", "problems": []})", "no problems");
  const auto with = [](const char* descriptor, const char* threads, const char* seconds) {
    return std::string(R"({"schema": "rapt.bench/1", "cpu": "", "descriptor": ")") + descriptor +
           R"(", "threads": )" + threads + R"(, "time": {"median_seconds": )" + seconds + "}}";
  };
  refused(with("q1k1d1", "1", "0"), "not positive");
  refused(with("q1k1d1", "1", "\"1\""), "is not a result");
  refused(with("q1k1d1", "0", "1"), "0 threads");
  refused(with("q1k1d1", "1e99", "1"), "1e+99 threads");
  refused(with("q1k1d1z", "1", "1"), "q1k1d1z");
  refused(std::string(100'000, '['), "is not a result");
  EXPECT_EQ(rapt(small({"--compare", "missing.json"})).exit, 4);
}

TEST_F(BenchTest, RefusesWhatCannotBeMeant) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), "bench");
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, 2) << ran.err;
    EXPECT_TRUE(contains(ran.err, why)) << ran.err;
    EXPECT_EQ(ran.out, "");
  };
  refused({"h1q8k8d4", "--q-len", "8"}, "got both");
  refused({"h1q8k8"}, "'h1q8k8'");
  refused({"--q-len", "8,"}, "--q-len: expected values with commas");
  refused({"--q-len", "0"}, "expected numbers from 1");
  refused({"--q-len", "8:bf16"}, "--q-len: expected a whole number");
  refused({"--heads", "8/"}, "--heads");
  refused({"--dtype", "f33"}, "--dtype: expected f32, bf16, f16 or f64");
  refused({"--mask", "casual"}, "casual");
  refused({"--method", "meen"}, "expected a method: mean");
  refused({"--threads", "100000"}, "at most 4096");
  refused({"--repetitions", "0"}, "--repetitions");
  refused({"--format", "jso"}, "did you mean 'json'?");
  refused({"--json", "--format", "csv"}, "--json is --format json");
  refused({"--tolerance", "0.1"}, "--tolerance needs --compare");
  refused({"--q-lne", "8"}, "did you mean '--q-len'?");
  std::string many = "1";
  for (int i = 2; i <= 200; ++i) many += "," + std::to_string(i);
  refused({"--q-len", many, "--k-len", many}, "more than 1000 problems");
}

TEST_F(BenchTest, RefusesMoreMemoryThanItMayTakeBeforeItIsTaken) {
  const Ran limit = rapt({"bench", "h8q65536k65536d128", "--memory-limit", "64M"});
  EXPECT_EQ(limit.exit, 5);
  EXPECT_TRUE(contains(limit.err, "limit 64.0 MiB")) << limit.err;
  EXPECT_EQ(rapt({"bench", "h1q1000000k1000000d1000000"}).exit, 5);
  EXPECT_EQ(rapt({"bench", "q1000000k100000000d1:mask=boolean(0.5)"}).exit, 5);
}

}  // namespace
}  // namespace rapt::cli_test
