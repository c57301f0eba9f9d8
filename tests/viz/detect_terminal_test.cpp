// Detection of a pipe and of a pseudo-terminal, under environments that the tests set.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "rapt/viz/terminal.h"

namespace rapt::viz {
namespace {

class DetectTerminal : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"NO_COLOR", "COLORTERM", "TERM", "COLUMNS"}) {
      const char* value = std::getenv(name);
      before_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
    ASSERT_EQ(pipe(pipe_), 0);
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 40, .ws_col = 123, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(slave_, TIOCSWINSZ, &size);
  }
  void TearDown() override {
    for (int fd : {pipe_[0], pipe_[1], master_, slave_})
      if (fd >= 0) close(fd);
    for (const auto& [name, value] : before_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

  int pipe_[2] = {-1, -1};
  int master_ = -1, slave_ = -1;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(DetectTerminal, PipeHasNoColourAndTheWidthOfColumns) {
  setenv("TERM", "xterm-256color", 1);
  setenv("COLORTERM", "truecolor", 1);
  EXPECT_EQ(detect_terminal(pipe_[1]).color, TerminalColor::ascii);
  EXPECT_EQ(detect_terminal(pipe_[1]).width, 80);
  setenv("COLUMNS", "132", 1);
  EXPECT_EQ(detect_terminal(pipe_[1]).width, 132);
  for (const char* nonsense : {"wide", "12x", "-5", "0", "", "99999999999"}) {
    setenv("COLUMNS", nonsense, 1);
    EXPECT_EQ(detect_terminal(pipe_[1]).width, 80) << nonsense;
  }
  setenv("COLUMNS", "3", 1);
  EXPECT_EQ(detect_terminal(pipe_[1]).width, kMinTerminalWidth);
}

TEST_F(DetectTerminal, WhoAsksForColourGetsWhatTheEnvironmentPromises) {
  setenv("NO_COLOR", "1", 1);
  setenv("TERM", "xterm-256color", 1);
  EXPECT_EQ(promised_color(), TerminalColor::palette256);
  setenv("COLORTERM", "truecolor", 1);
  EXPECT_EQ(promised_color(), TerminalColor::truecolor);
  unsetenv("COLORTERM");
  setenv("TERM", "dumb", 1);
  EXPECT_EQ(promised_color(), TerminalColor::truecolor);
}

TEST_F(DetectTerminal, TerminalHasItsOwnWidthAndTheColoursOfItsEnvironment) {
  if (slave_ < 0) GTEST_SKIP() << "this system gives no pseudo-terminal";
  setenv("COLUMNS", "132", 1);
  EXPECT_EQ(detect_terminal(slave_).width, 123);
  const auto color = [&](const char* term, const char* colorterm) {
    setenv("TERM", term, 1);
    setenv("COLORTERM", colorterm, 1);
    return detect_terminal(slave_).color;
  };
  EXPECT_EQ(color("xterm-256color", ""), TerminalColor::palette256);
  EXPECT_EQ(color("xterm-256color", "truecolor"), TerminalColor::truecolor);
  EXPECT_EQ(color("xterm", "24bit"), TerminalColor::truecolor);
  EXPECT_EQ(color("xterm-direct", ""), TerminalColor::truecolor);
  EXPECT_EQ(color("vt100", ""), TerminalColor::ascii);
  EXPECT_EQ(color("dumb", "truecolor"), TerminalColor::ascii);
  EXPECT_EQ(color("", "truecolor"), TerminalColor::ascii);
  setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(color("xterm-256color", "truecolor"), TerminalColor::ascii);
  setenv("NO_COLOR", "", 1);  // set but empty, so it has no effect
  EXPECT_EQ(color("xterm-256color", "truecolor"), TerminalColor::truecolor);
}

}  // namespace
}  // namespace rapt::viz
