// Standard streams that are closed, full or silent, and signals at bad moments.
#include <algorithm>
#include <csignal>
#include <fstream>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

class BrokenStreamsTest : public RaptTest {
 protected:
  bool has_temporary() const {
    const std::vector<std::string> names = files();
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.starts_with(".rapt-"); });
  }
  // The child has called exec, and waits in a system call according to proc(5).
  static bool waits(int child) {
    std::string line;
    std::getline(std::ifstream("/proc/" + std::to_string(child) + "/stat"), line);
    return contains(line, "(rapt) S");
  }
};

// open() returns the lowest free descriptor, which may be that of a closed standard stream.
TEST_F(BrokenStreamsTest, WhatIsMeantForAClosedStreamIsNotInAFile) {
  save_problem();
  const std::vector<std::string> out = {"--dtype", "f64", "--output", "o.npy", "--force"};
  ASSERT_EQ(rapt(attend(out)).exit, 0);
  const std::string expected = read("o.npy");
  for (const std::vector<int>& closed :
       {std::vector<int>{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}}) {
    std::filesystem::remove(path("o.npy"));
    EXPECT_EQ(rapt(attend(out), {.closed = closed}).exit, 0);
    EXPECT_EQ(read("o.npy"), expected);
  }
}

TEST_F(BrokenStreamsTest, AClosedStandardOutputIsAnError) {
  save_problem();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"info", "q.npy"},
                                                    {"convert", "q.npy", "-"},
                                                    {"list"},
                                                    {"--version"},
                                                    {"attend", "--help"},
                                                    {"man", "attend"},
                                                    {"completions", "bash"},
                                                    attend({"--heatmap", "-", "--output", "o.npy"}),
                                                    attend({"--plan", "--json"})}) {
    const Ran ran = rapt(arguments, {.closed = {1}});
    EXPECT_EQ(ran.exit, 4) << arguments[0];
    EXPECT_TRUE(contains(ran.err, "cannot write to standard output: Bad file descriptor"))
        << ran.err;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"k.npy", "q.npy", "v.npy"}));
}

TEST_F(BrokenStreamsTest, AFullDiskBehindStandardOutputIsAnErrorOfEveryCommand) {
  save_problem();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"info", "q.npy"},
                                                    {"list"},
                                                    {"man", "attend"},
                                                    {"completions", "bash"},
                                                    {"--json-usage"},
                                                    {"mask", "causal"},
                                                    attend({"--stats"}),
                                                    {"check", "q4k4d4"},
                                                    {"bench", "q4k4d4", "-r", "1"},
                                                    {"cpu"}}) {
    const Ran ran = rapt(arguments, {.out = Stdout::full_disk});
    EXPECT_EQ(ran.exit, 4) << arguments[0] << " " << ran.err;
    EXPECT_TRUE(contains(ran.err, "cannot write to standard output: No space left on device"))
        << ran.err;
  }
}

TEST_F(BrokenStreamsTest, AClosedStandardInputIsAnError) {
  const Ran ran = rapt({"info", "-"}, {.closed = {0}});
  EXPECT_EQ(ran.exit, 4);
  EXPECT_TRUE(contains(ran.err, "standard input: Bad file descriptor")) << ran.err;
}

TEST_F(BrokenStreamsTest, SignalsEndTheWaitForASilentInput) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Ran ran =
        rapt({"convert", "-", "o.npy"}, {.hold_input = true, .watch = [&](int child, auto&) {
                                           if (!waits(child)) return false;
                                           kill(child, signal);
                                           return true;
                                         }});
    EXPECT_EQ(ran.exit, 130) << ran.err << " signal " << ran.signal;
    EXPECT_EQ(files(), std::vector<std::string>{});
  }
}

TEST_F(BrokenStreamsTest, SignalsWhileItComputesLeaveTheOldOutput) {
  save_zeros("x.npy", 60'000);
  write("o.npy", "mine");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1}) {
    const bool by_signal = signal != SIGINT && signal != SIGTERM && signal != SIGHUP;
    const Ran ran = rapt({"attend", "--query", "x.npy", "--key", "x.npy", "--value", "x.npy",
                          "--output", "o.npy", "--lse", "l.npz", "--force"},
                         {.env = {{"RAPT_ISA", "scalar"}}, .watch = [&](int child, auto&) {
                            if (!has_temporary()) return false;
                            kill(child, signal);
                            return true;
                          }});
    EXPECT_EQ(ran.exit, by_signal ? -1 : 130) << ran.err;
    EXPECT_EQ(ran.signal, by_signal ? signal : 0);
    EXPECT_EQ(read("o.npy"), "mine");
    EXPECT_EQ(files(), (std::vector<std::string>{"o.npy", "x.npy"}));
  }
}

TEST_F(BrokenStreamsTest, SignalsWhileItWritesLeaveTheOldOutput) {
  save_zeros("x.npy", int64_t{4} << 20);  // 1 GiB, so that the kill comes before the end
  write("o.npy", "mine");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const bool by_signal = signal == SIGQUIT;
    const Ran ran = rapt({"convert", "x.npy", "o.npy", "--force"}, {.watch = [&](int child, auto&) {
                           if (!has_temporary()) return false;
                           kill(child, signal);
                           return true;
                         }});
    EXPECT_EQ(ran.exit, by_signal ? -1 : 130) << ran.err;
    EXPECT_EQ(ran.signal, by_signal ? signal : 0);
    EXPECT_EQ(read("o.npy"), "mine");
    EXPECT_EQ(files(), (std::vector<std::string>{"o.npy", "x.npy"}));
  }
}

}  // namespace
}  // namespace rapt::cli_test
