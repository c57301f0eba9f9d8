// rapt train --example: what the examples reach, their output, refusals, exit codes, interruption.
#include <chrono>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

using TrainTest = RaptTest;
using Json = nlohmann::json;

// AMissedGoalIsExitCode1 runs the same code.
[[maybe_unused]] constexpr const char* kTakesLong = "copying takes minutes under sanitizers";

// The run of a name in a document of rapt.train_example/1.
Json run_named(const Json& document, const std::string& name) {
  for (const Json& run : document.at("runs"))
    if (run.at("name") == name) return run;
  return {};
}

TEST_F(TrainTest, TinyFalls500TimesForEverySeedUnlessItsEmbeddingIsRedrawn) {
  for (int seed = 1; seed <= (RAPT_SANITIZED ? 1 : 10); ++seed) {
    const Ran ran = rapt({"train", "--example", "tiny", "--seed", std::to_string(seed), "--json"});
    ASSERT_EQ(ran.exit, 0) << ran.err;
    const Json document = Json::parse(ran.out);
    EXPECT_EQ(document.at("schema"), "rapt.train_example/1");
    EXPECT_EQ(document.at("seed"), seed);
    for (const char* name : {"frozen", "trained", "redrawn"}) {
      const Json run = run_named(document, name);
      const std::vector<double> losses = run.at("losses");
      ASSERT_EQ(losses.size(), 100u);
      EXPECT_DOUBLE_EQ(run.at("falls"), losses[0] / losses[80]);
      EXPECT_EQ(losses[0], run_named(document, "frozen").at("losses")[0]) << "of one embedding";
      const double falls = run.at("falls");
      if (std::string(name) == "redrawn") {
        EXPECT_LT(falls, 10) << seed;
      } else {
        EXPECT_GE(falls, 500) << name << " " << seed;
      }
    }
    const Json frozen = run_named(document, "frozen").at("target_rms");
    EXPECT_EQ(frozen[0], frozen[1]);
    // A loss that falls because its target does would need a target of less than a twentieth.
    const Json trained = run_named(document, "trained").at("target_rms");
    EXPECT_NE(trained[0], trained[1]);
    EXPECT_GT(trained[1].get<double>(), 0.5 * trained[0].get<double>());
  }
}

TEST_F(TrainTest, TinyPrintsATable) {
  const Ran ran = rapt({"train", "--example", "tiny"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* part : {"epoch ", " frozen ", " trained ", " redrawn ", " in PyTorch\n", "\n0  ",
                           "\n20 ", "\n80 ", "\nfalls ", "\ntarget "})
    EXPECT_TRUE(contains(ran.out, part)) << part << " is missing in\n" << ran.out;
}

TEST_F(TrainTest, CopyCopiesAllUnseenSequences) {
  if (RAPT_SANITIZED) GTEST_SKIP() << kTakesLong;
  const Ran ran = rapt({"train", "--example", "copy", "--seed", "2"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "no progress line without a terminal";
  EXPECT_TRUE(ran.out.starts_with(" step       loss\n   20 ")) << ran.out;
  EXPECT_TRUE(ran.out.ends_with("\n1000 of 1000 unseen sequences of 16 symbols are copied\n"))
      << ran.out;
}

TEST_F(TrainTest, AMissedGoalIsExitCode1) {
  const Ran ran = rapt({"train", "--example", "copy", "--steps", "3"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_TRUE(contains(ran.out, "0 of 1000 unseen sequences")) << ran.out;
  EXPECT_TRUE(contains(ran.err, "0 of 1000 sequences are copied; expected all")) << ran.err;
}

TEST_F(TrainTest, ReformerCopyTellsHowManyRoundsFindTheSymbols) {
  if (RAPT_SANITIZED) GTEST_SKIP() << kTakesLong;
  const Ran ran = rapt({"train", "--example", "reformer-copy", "--steps", "2", "--json"});
  EXPECT_EQ(ran.exit, 1) << "nothing is learned in two updates";
  EXPECT_TRUE(contains(ran.err, "with 8 rounds ")) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("ok"), false);
  const std::vector<double> losses = run_named(document, "reformer-copy").at("losses");
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NEAR(losses[0], std::log(128.0), 0.4) << "nothing is known at first";
  std::vector<Json> rounds;
  for (const Json& test : document.at("accuracy")) {
    rounds.push_back(test.at("rounds"));
    EXPECT_LT(test.at("right").get<double>(), 0.2);
  }
  EXPECT_EQ(rounds, (std::vector<Json>{1, 2, 4, 8, nullptr}));
}

TEST_F(TrainTest, LossesHaveTheSameBitsForAnyNumberOfThreads) {
  if (RAPT_SANITIZED) GTEST_SKIP() << kTakesLong;
  for (const std::vector<std::string>& example : {std::vector<std::string>{"tiny"},
                                                  {"copy", "--steps", "3"},
                                                  {"reformer-copy", "--steps", "2"}}) {
    Json losses[2];
    for (const int threads : {1, 2}) {
      std::vector<std::string> arguments = {"train", "--json", "--threads", std::to_string(threads),
                                            "--example"};
      arguments.insert(arguments.end(), example.begin(), example.end());
      const Json document = Json::parse(rapt(arguments).out);
      for (const Json& run : document.at("runs")) losses[threads - 1].push_back(run.at("losses"));
    }
    EXPECT_EQ(losses[0], losses[1]) << example[0];
    EXPECT_FALSE(losses[0].empty());
  }
}

TEST_F(TrainTest, ASeedDecidesTheLosses) {
  if (RAPT_SANITIZED) GTEST_SKIP() << kTakesLong;
  const auto first_loss = [&](const std::string& seed) {
    const Ran ran = rapt({"train", "--example", "copy", "--steps", "1", "--seed", seed, "--json"});
    return run_named(Json::parse(ran.out), "copy").at("losses").at(0).get<double>();
  };
  EXPECT_NE(first_loss("1"), first_loss("2"));
}

TEST_F(TrainTest, RefusesWhatCannotBeMeant) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& message) {
    std::vector<std::string> arguments = {"train"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, 2) << message;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(contains(ran.err, message)) << ran.err;
  };
  refused({"--example", "tyni"}, "did you mean 'tiny'?");
  refused({"--example", "words"}, "expected tiny, copy, reformer-copy, got 'words'");
  refused({"--example", ""}, "--example: expected a value");
  refused({"--example", "tiny", "text.txt"}, "FILES is for training on a text");
  refused({"--example", "tiny", "--sede", "3"}, "did you mean '--seed'?");
  refused({"--exampel", "tiny"}, "did you mean '--example'?");
  refused({"--example", "tiny", "--seed", "-1"}, "--seed: expected 0 or more");
  refused({"--example", "tiny", "--layers", "2"}, "--layers is for training on a text");
  refused({"--example", "tiny", "--steps", "9"}, "--steps is for --example copy and reformer-copy");
  refused({"--example", "copy", "--steps", "0"}, "--steps: expected 1 to 1000000, got 0");
  refused({"--example", "copy", "--threads", "0"}, "--threads: expected 1 to");
}

TEST_F(TrainTest, StopsWhenItIsInterrupted) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const Ran ran = rapt({"train", "--example", "copy", "--steps", "1000000"},
                       {.watch = [&](int child, const std::string&) {
                         // Long after the program has set its signal handler.
                         if (Clock::now() - start < std::chrono::seconds(1)) return false;
                         kill(child, SIGINT);
                         return true;
                       }});
  EXPECT_EQ(ran.exit, 130) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "rapt train: interrupted; nothing was written")) << ran.err;
  EXPECT_TRUE(files().empty());
}

TEST_F(TrainTest, ShowsProgressOnATerminalAndErasesIt) {
  if (!has_terminals()) GTEST_SKIP() << kNoTerminal;
  const Ran ran = rapt({"train", "--example", "copy", "--steps", "1000000"},
                       {.err = Stderr::terminal, .watch = [](int child, const std::string& err) {
                          if (!contains(err, "to go")) return false;
                          kill(child, SIGINT);
                          return true;
                        }});
  EXPECT_EQ(ran.exit, 130);
  EXPECT_NE(ran.err.rfind("   \rrapt train: "), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace rapt::cli_test
