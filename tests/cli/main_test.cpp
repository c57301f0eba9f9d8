// The program as a whole: commands, help, version, standard streams and interruption.
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/support/run_rapt.h"
#include "rapt/version.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

using MainTest = RaptTest;

TEST_F(MainTest, TellsItsVersionCommitAndCompiler) {
  const Ran ran = rapt({"--version"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out, std::string(build_info()) + "\n");
  EXPECT_EQ(ran.err, "");
}

TEST_F(MainTest, HelpIsAResult) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"attend", "--help"},
                                                    {"explain", "-h"},
                                                    {"cpu", "-h"}}) {
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, 0);
    EXPECT_TRUE(contains(ran.out, "Usage")) << ran.out;
    EXPECT_EQ(ran.err, "");
  }
}

TEST_F(MainTest, WithoutACommandHelpIsAnError) {
  const Ran ran = rapt({});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(contains(ran.err, "attend")) << ran.err;
}

TEST_F(MainTest, SuggestsTheCommandThatWasMeant) {
  for (const auto& [typed, meant] : {std::pair{"atend", "attend"}, {"explian", "explain"}}) {
    const Ran ran = rapt({typed});
    EXPECT_EQ(ran.exit, 2);
    EXPECT_TRUE(contains(ran.err, std::string("did you mean '") + meant + "'?")) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(MainTest, RefusesCommandsOfTheContractThatAreNotBuilt) {
  const Ran ran = rapt({"view"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "'rapt view' is not built yet")) << ran.err;
}

#ifndef RAPT_WITH_LANGUAGE_MODELS
TEST_F(MainTest, SaysThatABuildWithoutTokenizersCannotTrainAndGenerate) {
  for (const std::string command : {"train", "generate", "model", "tokenize"}) {
    const Ran ran = rapt({command, "model"});
    EXPECT_EQ(ran.exit, 2);
    EXPECT_TRUE(contains(ran.err, "'rapt " + command + "' needs layers and tokenizers")) << ran.err;
  }
}
#endif

TEST_F(MainTest, OnlyTheFirstWordIsACommand) {
  const Ran page = rapt({"man", "cpu"});
  EXPECT_EQ(page.exit, 0) << page.err;
  EXPECT_TRUE(page.out.starts_with(".TH RAPT\\-CPU")) << page.out;
  EXPECT_EQ(rapt({"attend", "cpu"}).exit, 2);
}

TEST_F(MainTest, AFullDiskBehindStdoutIsAnError) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"explain"}, {"explain", "--json"}, {"--help"}}) {
    const Ran ran = rapt(arguments, {.out = Stdout::full_disk});
    EXPECT_EQ(ran.exit, 4);
    EXPECT_TRUE(contains(ran.err, "No space left")) << ran.err;
  }
}

TEST_F(MainTest, EndsByTheSignalWhenNobodyReads) {
  const Ran ran = rapt({"explain"}, {.out = Stdout::closed_pipe});
  EXPECT_EQ(ran.signal, SIGPIPE);
  EXPECT_EQ(ran.err, "");
}

TEST_F(MainTest, ReportsWhenNobodyReadsAndTheSignalIsIgnored) {
  const Ran ran = rapt({"explain"}, {.out = Stdout::closed_pipe_without_signal});
  EXPECT_EQ(ran.exit, 4);
  EXPECT_TRUE(contains(ran.err, "Broken pipe")) << ran.err;
}

TEST_F(MainTest, MessagesStayOnOneLineAndCannotDriveATerminal) {
  const Ran ran = rapt({"attend", "--query", "a\n\x1b[31mb", "--key", "k", "--value", "v"});
  EXPECT_EQ(ran.exit, 4);
  EXPECT_TRUE(contains(ran.err, "a\\x0a\\x1b[31mb")) << ran.err;
  EXPECT_FALSE(contains(ran.err, "\x1b"));
}

// A set on which a long run takes long enough to be interrupted. Sanitizer builds are slow enough
// on the best set, and take a minute for a task of the scalar one.
constexpr const char* kSlowIsa = RAPT_SANITIZED ? "" : "scalar";

// The call takes minutes with the scalar kernels, long enough to be interrupted on any machine.
class InterruptTest : public RaptTest {
 protected:
  InterruptTest() {
    std::string text;
    for (int i = 0; i < 60'000; ++i) text += "word" + std::to_string(i % 997) + " ";
    write("long.txt", text);
  }
  std::vector<std::string> long_run() const {
    return {"attend", "--text", "long.txt", "--output", "o.npy"};
  }
};

TEST_F(InterruptTest, StopsLeavesNothingAndSays130) {
  const Ran ran = rapt(
      long_run(), {.env = {{"RAPT_ISA", kSlowIsa}}, .watch = [this](int child, const std::string&) {
                     // The program creates its temporary file after it has set the signal handler.
                     if (files().size() < 2) return false;
                     kill(child, SIGINT);
                     return true;
                   }});
  EXPECT_EQ(ran.exit, 130) << ran.err << " signal " << ran.signal;
  EXPECT_EQ(files(), std::vector<std::string>{"long.txt"});
  EXPECT_EQ(ran.out, "");
  EXPECT_FALSE(contains(ran.err, "to go")) << "no progress line without a terminal";
}

TEST_F(InterruptTest, ShowsProgressOnATerminalAndErasesIt) {
  if (!has_terminals()) GTEST_SKIP() << kNoTerminal;
  const Ran ran = rapt(long_run(), {.env = {{"RAPT_ISA", kSlowIsa}},
                                    .err = Stderr::terminal,
                                    .watch = [](int child, const std::string& err) {
                                      if (!contains(err, "to go")) return false;
                                      kill(child, SIGINT);
                                      return true;
                                    }});
  EXPECT_EQ(ran.exit, 130);
  EXPECT_TRUE(contains(ran.err, " %   ")) << ran.err;
  EXPECT_TRUE(contains(ran.err, "GFLOP/s")) << ran.err;
  // Blanks overwrite the progress line before the message is printed.
  const size_t erased = ran.err.rfind("   \rrapt attend: ");
  EXPECT_NE(erased, std::string::npos) << ran.err;
  EXPECT_EQ(files(), std::vector<std::string>{"long.txt"});
}

TEST_F(InterruptTest, TellsTheTimeBeforeAndProgressAsJson) {
  std::vector<std::string> arguments = long_run();
  arguments.insert(arguments.end(), {"--progress", "json"});
  const Ran ran = rapt(
      arguments, {.env = {{"RAPT_ISA", kSlowIsa}}, .watch = [](int child, const std::string& err) {
                    if (!contains(err, "seconds_to_go")) return false;
                    kill(child, SIGTERM);
                    return true;
                  }});
  EXPECT_EQ(ran.exit, 130);
  EXPECT_TRUE(ran.err.starts_with("computes for about ")) << ran.err;
  const size_t line = ran.err.find("{\"schema\"");
  ASSERT_NE(line, std::string::npos) << ran.err;
  const nlohmann::json d =
      nlohmann::json::parse(ran.err.substr(line, ran.err.find('\n', line) - line));
  EXPECT_EQ(d.at("schema"), "rapt.progress/1");
  EXPECT_GT(d.at("fraction"), 0);
  EXPECT_GE(d.at("seconds"), 1);
  EXPECT_GT(d.at("seconds_to_go"), 0);
}

}  // namespace
}  // namespace rapt::cli_test
