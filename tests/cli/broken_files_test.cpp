// What happens to files while rapt works on them: full disks, folders without permission, readers
// that go away, files that shrink, a kill. The old output stays, and nothing half is left.
#include <sys/mount.h>

#include <csignal>
#include <fstream>

#include "run_rapt.h"

namespace rapt::cli_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class BrokenFilesTest : public RaptTest {
 protected:
  void shrink(const std::string& name) const { std::filesystem::resize_file(path(name), 4096); }

  bool has_temporary() const {
    for (const std::string& name : files())
      if (name.starts_with(".rapt-")) return true;
    return false;
  }
  static bool maps(int child, const std::string& name) {
    std::ifstream in("/proc/" + std::to_string(child) + "/maps");
    for (std::string line; std::getline(in, line);)
      if (contains(line, name)) return true;
    return false;
  }
  static void expect_one_line(const std::string& err) {
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  }
};

TEST_F(BrokenFilesTest, AFileThatShrinksWhileItIsComputedOnIsNamed) {
  save_zeros("x.npy", 60'000);
  write("o.npy", "mine");
  // Long enough to be shrunk meanwhile on any machine, and keys are read again and again.
  const Ran ran = rapt({"attend", "--query", "x.npy", "--key", "x.npy", "--value", "x.npy",
                        "--output", "o.npy", "--lse", "l.npz", "--force"},
                       {.env = {{"RAPT_ISA", "scalar"}}, .watch = [this](int child, auto&) {
                          if (!has_temporary() || !maps(child, "x.npy")) return false;
                          shrink("x.npy");
                          return true;
                        }});
  EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "rapt attend: x.npy: became shorter while it was being read"))
      << ran.err;
  expect_one_line(ran.err);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(read("o.npy"), "mine");
  EXPECT_EQ(files(), (std::vector<std::string>{"o.npy", "x.npy"}));
}

TEST_F(BrokenFilesTest, AFileThatShrinksWhileItIsCopiedIsNamed) {
  save_zeros("x.npy", 4 * kMiB);  // 1 GiB, through a pipe that is slower than this test
  const Ran ran = rapt({"convert", "x.npy", "-"}, {.watch = [this](int child, auto&) {
                         if (!maps(child, "x.npy")) return false;
                         shrink("x.npy");
                         return true;
                       }});
  EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "x.npy: became shorter while it was being read")) << ran.err;
  expect_one_line(ran.err);
}

TEST_F(BrokenFilesTest, AFullDiskLeavesTheOldOutput) {
  save_zeros("x.npy", 4096);  // 1 MiB
  for (const std::string file : {"o.npy", "o.npz", "o.safetensors", "o.csv", "o.json", "o.raw"}) {
    SCOPED_TRACE(file);
    write(file, "mine");
    const std::vector<std::string> before = files();
    const Ran ran = rapt({"convert", "x.npy", file, "--force"}, {.most_file_bytes = kMiB / 2});
    EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
    EXPECT_TRUE(contains(ran.err, file + ": cannot be written")) << ran.err;
    expect_one_line(ran.err);
    EXPECT_EQ(read(file), "mine");
    EXPECT_EQ(files(), before);
  }
}

TEST_F(BrokenFilesTest, AFullFileSystemLeavesTheOldOutput) {
  save_zeros("x.npy", 4096);
  std::filesystem::create_directory(path("disk"));
  if (mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=512k") != 0)
    GTEST_SKIP() << "no right to mount a file system";
  write("disk/o.npy", "mine");
  const Ran ran = rapt({"convert", "x.npy", "disk/o.npy", "--force"});
  const std::string kept = read("disk/o.npy");
  const auto left = std::distance(std::filesystem::directory_iterator(path("disk")), {});
  umount(path("disk").c_str());
  EXPECT_EQ(ran.exit, 4) << ran.err;
  EXPECT_TRUE(contains(ran.err, "disk/o.npy: cannot be written: No space left on device"))
      << ran.err;
  EXPECT_EQ(kept, "mine");
  EXPECT_EQ(left, 1);
}

TEST_F(BrokenFilesTest, AFullDeviceIsAnError) {
  save_zeros("x.npy", 4096);
  const Ran file = rapt({"convert", "x.npy", "/dev/full"});
  EXPECT_EQ(file.exit, 4);
  EXPECT_TRUE(contains(file.err, "/dev/full: cannot be written: No space left")) << file.err;
  const Ran out = rapt({"convert", "x.npy", "-"}, {.out = Stdout::full_disk});
  EXPECT_EQ(out.exit, 4);
  EXPECT_TRUE(contains(out.err, "cannot write to standard output: No space left")) << out.err;
  expect_one_line(out.err);
}

TEST_F(BrokenFilesTest, AFolderWithoutPermissionIsAnError) {
  save_zeros("x.npy", 16);
  std::filesystem::permissions(folder(), std::filesystem::perms(0755));
  std::filesystem::create_directory(path("mine"));
  write("mine/o.npy", "mine");
  std::filesystem::permissions(path("mine"), std::filesystem::perms(0555));
  const Ran there = rapt({"--version"}, {.as_nobody = true});
  if (there.exit != 0) GTEST_SKIP() << "another user cannot run the program here";
  for (const std::string file : {"mine/new.npy", "mine/o.npy"}) {
    const Ran ran = rapt({"convert", "x.npy", file, "--force"}, {.as_nobody = true});
    EXPECT_EQ(ran.exit, 4) << ran.err;
    EXPECT_TRUE(contains(ran.err, file) && contains(ran.err, "Permission denied")) << ran.err;
    expect_one_line(ran.err);
  }
  EXPECT_EQ(read("mine/o.npy"), "mine");
  std::filesystem::permissions(path("mine"), std::filesystem::perms(0755));
}

TEST_F(BrokenFilesTest, AReaderThatGoesAwayEndsItAndNoOutputIsLeft) {
  save_zeros("x.npy", 4096);
  for (const Stdout out : {Stdout::closed_pipe, Stdout::closed_pipe_without_signal}) {
    const bool signal = out == Stdout::closed_pipe;
    const Ran ran = rapt({"attend", "--query", "x.npy", "--key", "x.npy", "--value", "x.npy",
                          "--output", "-", "--lse", "l.npy"},
                         {.out = out});
    EXPECT_EQ(ran.signal, signal ? SIGPIPE : 0) << ran.err;
    EXPECT_EQ(ran.exit, signal ? -1 : 4) << ran.err;
    EXPECT_EQ(ran.err, signal ? "" : "rapt attend: cannot write to standard output: Broken pipe\n");
    EXPECT_EQ(files(), std::vector<std::string>{"x.npy"});
  }
}

TEST_F(BrokenFilesTest, KilledWhileItWritesItLeavesTheOldOutput) {
  save_zeros("x.npy", 4 * kMiB);  // 1 GiB: written in more time than passes until the kill
  save_zeros("o.npy", 1);
  const std::string old = read("o.npy");
  const Ran ran =
      rapt({"convert", "x.npy", "o.npy", "--force"}, {.watch = [this](int child, auto&) {
             if (!has_temporary()) return false;
             kill(child, SIGKILL);
             return true;
           }});
  EXPECT_EQ(ran.signal, SIGKILL) << ran.err;
  EXPECT_EQ(read("o.npy"), old);
  // What it left does not stand in the way.
  save_zeros("x.npy", 2);
  const Ran again = rapt({"convert", "x.npy", "o.npy", "--force"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(read("o.npy"), read("x.npy"));
}

}  // namespace
}  // namespace rapt::cli_test
