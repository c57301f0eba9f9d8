// rapt plot scaling: which points it measures, how it goes on, what it draws and what it refuses.
// Other tests run at the same time, so only the consistency of the numbers is tested.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using ScalingTest = RaptTest;
using ScalingJson = nlohmann::json;

// Problems that take almost no time.
std::vector<std::string> scaling(std::vector<std::string> more) {
  const std::vector<std::string> small = {"plot", "scaling",   "--heads",  "1",        "--head-dim",
                                          "8",    "--lengths", "16,32,64", "--method", "mean"};
  more.insert(more.begin(), small.begin(), small.end());
  return more;
}

std::set<std::pair<std::string, int64_t>> points_of(const ScalingJson& document) {
  std::set<std::pair<std::string, int64_t>> points;
  for (const ScalingJson& curve : document.at("curves"))
    for (const ScalingJson& point : curve.at("points"))
      points.emplace(curve.at("method").get<std::string>(), point.at("n").get<int64_t>());
  return points;
}

TEST_F(ScalingTest, MeasuresEveryLengthWithEveryMethodAndExactAttention) {
  const Ran ran = rapt(scaling({"--method", "mask=window({4,8},0)", "--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const ScalingJson document = ScalingJson::parse(ran.out);
  EXPECT_EQ(points_of(document).size(), 12u);
  EXPECT_EQ(document.at("new_points"), 12);
  EXPECT_GT(document.at("timed_seconds").get<double>(), 0);
  EXPECT_LE(document.at("timed_seconds"), document.at("seconds"));
  EXPECT_EQ(document.at("curves").at(0).at("method"), "exact");
  EXPECT_EQ(document.at("curves").at(3).at("method"), "mask=window(8,0)");
  for (const ScalingJson& curve : document.at("curves"))
    for (const ScalingJson& point : curve.at("points"))
      EXPECT_GT(point.at("median_seconds").get<double>(), 0);
}

// The crossover is the least length from which a method is faster at all that follow.
TEST_F(ScalingTest, CrossoversFollowFromThePoints) {
  const Ran ran = rapt(scaling({"--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const ScalingJson document = ScalingJson::parse(ran.out);
  const ScalingJson exact = document.at("curves").at(0), mean = document.at("curves").at(1);
  ScalingJson expected;
  for (size_t i = 3; i-- > 0;) {
    if (mean.at("points").at(i).at("median_seconds") >=
        exact.at("points").at(i).at("median_seconds"))
      break;
    expected = mean.at("points").at(i).at("n");
  }
  EXPECT_EQ(mean.at("crossover"), expected);
  EXPECT_EQ(exact.at("crossover"), nullptr);
}

TEST_F(ScalingTest, GoesOnFromItsPoints) {
  const Ran first = rapt(scaling({"--points", "p.jsonl", "--json"}));
  ASSERT_EQ(first.exit, 0) << first.err;
  const std::string whole = read("p.jsonl");
  const Ran again = rapt(scaling({"--points", "p.jsonl", "--json"}));
  EXPECT_EQ(ScalingJson::parse(again.out).at("new_points"), 0);
  EXPECT_EQ(ScalingJson::parse(again.out).at("timed_seconds"), 0);
  EXPECT_EQ(ScalingJson::parse(again.out).at("curves").at(1).at("points"),
            ScalingJson::parse(first.out).at("curves").at(1).at("points"));
  EXPECT_EQ(read("p.jsonl"), whole);
  // Killed at any byte: whole lines count, the rest of a line is dropped.
  for (const size_t length : {size_t{5}, whole.find('\n') + 1, whole.size() - 1}) {
    write("p.jsonl", whole.substr(0, length));
    const Ran ran = rapt(scaling({"--points", "p.jsonl", "--json"}));
    ASSERT_EQ(ran.exit, 0) << ran.err << " after " << length;
    EXPECT_EQ(points_of(ScalingJson::parse(ran.out)), points_of(ScalingJson::parse(first.out)));
    const bool dropped = length > 0 && whole[length - 1] != '\n';
    EXPECT_EQ(contains(ran.err, "the last line is not complete"), dropped) << ran.err;
    std::istringstream lines(read("p.jsonl"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      EXPECT_TRUE(ScalingJson::accept(line)) << line;
    EXPECT_EQ(count, 6);
  }
}

TEST_F(ScalingTest, ASignalKeepsThePointsSoFar) {
  std::vector<std::string> words = scaling({"--points", "p.jsonl"});
  words[7] = "16,32,64,32768";
  How how;
  how.watch = [&](int process, const std::string&) {
    if (!std::filesystem::exists(path("p.jsonl"))) return false;
    const std::string text = read("p.jsonl");
    if (std::ranges::count(text, '\n') < 6) return false;
    return kill(process, SIGINT) == 0;
  };
  const Ran ran = rapt(words, how);
  EXPECT_EQ(ran.exit, 130) << ran.err;
  EXPECT_GE(std::ranges::count(read("p.jsonl"), '\n'), 6);
}

TEST_F(ScalingTest, LeavesOutWhatDoesNotFit) {
  std::vector<std::string> words = scaling({"--budget", "1", "--json"});
  words[7] = "16,4096,1048576";
  const Ran ran = rapt(words);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const ScalingJson exact = ScalingJson::parse(ran.out).at("curves").at(0);
  EXPECT_FALSE(exact.at("left_out").empty());
  EXPECT_EQ(exact.at("why_left_out"), "beyond the budget of time");
  const Ran memory = rapt(scaling({"--memory-limit", "10K", "--json"}));
  ASSERT_EQ(memory.exit, 0) << memory.err;
  EXPECT_EQ(ScalingJson::parse(memory.out).at("curves").at(0).at("why_left_out"),
            "beyond the memory");
  EXPECT_EQ(rapt(scaling({"--memory-limit", "1K"})).exit, 5);
}

TEST_F(ScalingTest, DrawsBothChartsInEveryForm) {
  const Ran ran =
      rapt(scaling({"--output", "s.svg", "--output", "s.png", "--output", "-", "--tutorial"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const std::string svg = read("s.svg");
  for (const char* words : {"Time of a call", "Memory of a call beside inputs and results", "exact",
                            "mean", "matrices of scores", "memory of the machine",
                            "tutorials: table", "1 heads, head_dim 8, f32"}) {
    EXPECT_TRUE(contains(svg, words)) << words;
  }
  EXPECT_TRUE(read("s.png").starts_with("\x89PNG"));
  EXPECT_TRUE(contains(ran.out, "Time of a call"));
  EXPECT_EQ(rapt(scaling({"--output", "s.svg"})).exit, 4) << "it exists";
  EXPECT_EQ(rapt(scaling({"--output", "s.svg", "--force"})).exit, 0);
}

TEST_F(ScalingTest, TimesBothPasses) {
  std::vector<std::string> words = scaling({"--backward", "--json"});
  const Ran ran = rapt(words);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(ScalingJson::parse(ran.out).at("backward"));
}

TEST_F(ScalingTest, AMethodThatRefusesSaysWhyAndTheOthersGoOn) {
  const Ran ran = rapt(scaling({"--method", "mask=causal", "--mask", "window(4,4)", "--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const ScalingJson curves = ScalingJson::parse(ran.out).at("curves");
  EXPECT_TRUE(curves.at(0).at("refused").is_null());
  EXPECT_TRUE(curves.at(1).at("refused").is_string()) << curves.at(1);
  EXPECT_EQ(curves.at(2).at("points").size(), 3u);
  EXPECT_EQ(rapt(scaling({"--mask", "window(4,4)"})).exit, 3) << "no method is left";
}

// "or" of --mask stays one mask beside that of a method; blanks do not matter.
TEST_F(ScalingTest, MasksOfMethodsAreBesideAllOfMask) {
  const auto problems = [&](const std::vector<std::string>& masks, const std::string& method) {
    std::vector<std::string> words = {"plot", "scaling",   "--heads", "1",        "--head-dim",
                                      "8",    "--lengths", "16",      "--method", method,
                                      "-f",   "--points",  "m.jsonl"};
    for (const std::string& mask : masks) words.insert(words.end(), {"--mask", mask});
    std::filesystem::remove(path("m.jsonl"));
    const Ran ran = rapt(words);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    std::istringstream lines(read("m.jsonl"));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);)
      found.push_back(ScalingJson::parse(line).at("problem"));
    return found;
  };
  using Problems = std::vector<std::string>;
  const std::string start = "h1q16k16d8:mask=";
  EXPECT_EQ(problems({"causal|prefix(4)"}, "mask=window(4,0)"),
            (Problems{start + "causal|prefix(4)", start + "(causal|prefix(4))&window(4,0)"}));
  EXPECT_EQ(problems({" causal | prefix( 4 )", "strided(2)"}, "mask=causal | window(4, 0)"),
            (Problems{start + "(causal|prefix(4))&strided(2)",
                      start + "(causal|prefix(4))&strided(2)&(causal|window(4,0))"}));
  EXPECT_EQ(problems({"causal&prefix(4)"}, "mask=(causal|prefix(4))"),
            (Problems{start + "causal&prefix(4)", start + "causal&prefix(4)&(causal|prefix(4))"}));
}

TEST_F(ScalingTest, SaysWhereNoLengthIsComparedWithExactAttention) {
  std::vector<std::string> words = scaling({"--memory-limit", "10K", "--method", "dtype=f64"});
  words[7] = "16";
  const Ran ran = rapt(words);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "dtype=f64: not compared with exact attention")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "mean: not compared")) << ran.out;
}

TEST_F(ScalingTest, RefusesPointsThatNoMeasurementGives) {
  ASSERT_EQ(rapt(scaling({"--points", "p.jsonl"})).exit, 0);
  const std::string whole = read("p.jsonl");
  const ScalingJson first = ScalingJson::parse(whole.substr(0, whole.find('\n')));
  const std::pair<const char*, ScalingJson> wrong[] = {
      {"n", 0}, {"n", -16}, {"n", 6}, {"n", 32}, {"seconds", 0}, {"seconds", -1e-6}};
  for (const auto& [field, value] : wrong) {
    ScalingJson line = first;
    line[field] = value;
    write("p.jsonl", line.dump() + "\n");
    const Ran ran = rapt(scaling({"--points", "p.jsonl"}));
    EXPECT_EQ(ran.exit, 3) << field << " " << value;
    EXPECT_TRUE(contains(ran.err, "line 1 of")) << ran.err;
  }
}

TEST_F(ScalingTest, RefusesWhatCannotBeMeant) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const Ran ran = rapt(words);
    EXPECT_EQ(ran.exit, 2) << ran.err;
    EXPECT_TRUE(contains(ran.err, why)) << ran.err;
    EXPECT_EQ(ran.out, "");
  };
  refused({"plot"}, "expected what to plot");
  refused({"plot", "scalin"}, "did you mean 'scaling'?");
  refused({"plot", "scaling"}, "expected --method SPEC");
  refused(scaling({"--method", "lhs"}), "lsh");
  refused(scaling({"--method", "favor(features={1,2"}), "'}' is missing");
  refused(scaling({"--budget", "0.5"}), "--budget");
  refused(scaling({"--output", "s.pdf"}), ".svg");
  refused(scaling({"--output", "-", "--json"}), "standard output");
  refused(scaling({"--mask", "causal:scale=2"}), "--mask: expected no ':'");
  refused(scaling({"--mask", "causal)|(prefix(4)", "--mask", "causal"}), "--mask: ");
  refused(scaling({"--mask", "prefix(1 2)"}), "prefix");
  for (const char* method : {"mask=causal:scale=2", "dtype=bf16:scale=2", "favor:scale=2"})
    refused(scaling({"--method", method}), "--method " + std::string(method));
  const std::string features =
      "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,"
      "26,27,28,29,30,31,32,33,34,35,36,37,38,39";
  const std::string many = "mask=window({" + features + "},0)";  // 40 methods with "mean"
  refused(scaling({"--method", many, "--method", "favor", "--output", "s.svg"}),
          "--output: expected at most 40 --method, got 41");
  refused(scaling({"--method", many, "--tutorial", "--output", "s.svg"}),
          "--output: expected at most 38 --method, got 40");
  EXPECT_EQ(rapt(scaling({"--method", many, "--output", "s.svg"})).exit, 0);
  refused({"plot", "scaling", "--method", "mean", "--lengths", "64,32"}, "rising");
  refused({"plot", "scaling", "--method", "mean", "--lengths", "64,64"}, "rising");
  write("other.jsonl", "{\"schema\":\"rapt.bench/1\"}\n");
  EXPECT_EQ(rapt(scaling({"--points", "other.jsonl"})).exit, 3);
  write("text.jsonl", "a text");
  EXPECT_EQ(rapt(scaling({"--points", "text.jsonl"})).exit, 3);
  EXPECT_EQ(read("text.jsonl"), "a text");
  EXPECT_EQ(rapt(scaling({"--points", "no/folder.jsonl"})).exit, 4);
}

}  // namespace
}  // namespace rapt::cli_test
