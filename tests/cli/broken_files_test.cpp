// Failures of files while rapt works on them: full disks, folders without permission, readers that
// disappear, files that shrink, and a kill. The old output remains, and no partial file is left.
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "cli/support/run_rapt.h"
#include "cli/support/run_shell.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

#ifdef SYS_rename
constexpr int kRename = SYS_rename, kLink = SYS_link;
#else  // newer architectures have only renameat and linkat
constexpr int kRename = SYS_renameat, kLink = SYS_linkat;
#endif

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
    const bool narrated = err.starts_with("computes for about ");
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), narrated ? 2 : 1) << err;
  }
};

TEST_F(BrokenFilesTest, AFileThatShrinksWhileItIsComputedOnIsNamed) {
  save_zeros("x.npy", 60'000);
  write("o.npy", "mine");
  // The call is long enough for the test to shrink the file on any machine, and reads keys
  // repeatedly.
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
  save_zeros("x.npy", 4 * kMiB);  // 1 GiB; the pipe is slower than this test
  const Ran ran = rapt({"convert", "x.npy", "-"}, {.watch = [this](int child, auto&) {
                         if (!maps(child, "x.npy")) return false;
                         shrink("x.npy");
                         return true;
                       }});
  EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "x.npy: became shorter while it was being read")) << ran.err;
  expect_one_line(ran.err);
}

// Every kind of file that rapt writes.
const std::vector<std::string> kTensorFiles = {"o.npy", "o.npz",  "o.safetensors",
                                               "o.csv", "o.json", "o.raw"};

TEST_F(BrokenFilesTest, AFullDiskLeavesTheOldOutput) {
  save_zeros("x.npy", 4096);  // 1 MiB
  for (const std::string& file : kTensorFiles) {
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

TEST_F(BrokenFilesTest, AFullDiskLeavesTheOldPicture) {
  for (const std::string file : {"o.svg", "o.png"}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"attend", "--text", "a b c a b c"},
          {"explain"},
          {"mask", "causal"}}) {
      SCOPED_TRACE(command[0] + " " + file);
      write(file, "mine");
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--heatmap", file, "--force"});
      const std::vector<std::string> before = files();
      const Ran ran = rapt(arguments, {.most_file_bytes = 100});
      EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
      EXPECT_TRUE(contains(ran.err, file + ": cannot be written")) << ran.err;
      EXPECT_EQ(read(file), "mine");
      EXPECT_EQ(files(), before);
    }
  }
}

TEST_F(BrokenFilesTest, OfSeveralOutputsAllStayWhenOneCannotBeWritten) {
  save_zeros("x.npy", 512);
  const std::vector<std::string> outputs = {"o.npy",         "w.npy", "l.npz",
                                            "e.safetensors", "h.svg", "h.png"};
  for (const std::string& file : outputs) write(file, "mine");
  const std::vector<std::string> before = files();
  // 128 KiB of output fit, but 1 MiB of weights do not.
  const Ran ran =
      rapt({"attend",        "--query",   "x.npy",     "--key",     "x.npy", "--value", "x.npy",
            "--output",      "o.npy",     "--weights", "w.npy",     "--lse", "l.npz",   "--entropy",
            "e.safetensors", "--heatmap", "h.svg",     "--heatmap", "h.png", "--force"},
           {.most_file_bytes = kMiB / 2});
  EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "w.npy: cannot be written")) << ran.err;
  expect_one_line(ran.err);
  for (const std::string& file : outputs) EXPECT_EQ(read(file), "mine") << file;
  EXPECT_EQ(files(), before);
}

// Quotas and network disks may report a full disk only at fsync, close or rename.
TEST_F(BrokenFilesTest, ADiskThatIsFoundFullAtTheEndLeavesTheOldOutput) {
  save_zeros("x.npy", 16);
  write("o.npy", "mine");
  struct Case {
    RefusedCall call;
    std::string message;
  };
  for (const Case& c : {Case{{SYS_fsync, ENOSPC}, "cannot be written: No space left on device"},
                        Case{{SYS_fsync, EIO}, "cannot be written: Input/output error"},
                        Case{{SYS_close, EDQUOT, 4}, "cannot be written: Disk quota exceeded"},
                        Case{{kRename, EIO}, "cannot be given its name: Input/output error"}}) {
    SCOPED_TRACE(c.message);
    // Sanitizers open files of their own, so the output has another descriptor.
    if (RAPT_SANITIZED && c.call.number == SYS_close) continue;
    const Ran ran = rapt({"convert", "x.npy", "o.npy", "--force"}, {.refused = {c.call}});
    if (ran.exit == kNoSuchRight) GTEST_SKIP() << "the system has no seccomp filters";
    EXPECT_EQ(ran.exit, 4) << ran.err << " signal " << ran.signal;
    EXPECT_TRUE(contains(ran.err, "o.npy: " + c.message)) << ran.err;
    expect_one_line(ran.err);
    EXPECT_EQ(read("o.npy"), "mine");
    EXPECT_EQ(files(), (std::vector<std::string>{"o.npy", "x.npy"}));
  }
}

TEST_F(BrokenFilesTest, AFileSystemWithoutHardLinksIsWrittenTo) {
  save_zeros("x.npy", 16);
  const How how = {.refused = {{kLink, EPERM}}};
  const Ran ran = rapt({"convert", "x.npy", "o.npy"}, how);
  if (ran.exit == kNoSuchRight) GTEST_SKIP() << "the system has no seccomp filters";
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(read("o.npy"), read("x.npy"));
  EXPECT_EQ(rapt({"convert", "x.npy", "o.npy"}, how).exit, 4) << "still nothing is overwritten";
  EXPECT_EQ(files(), (std::vector<std::string>{"o.npy", "x.npy"}));
}

// Mounts a file system in a mount namespace, which only this run can access and which ends with it.
TEST_F(BrokenFilesTest, AFullFileSystemLeavesTheOldOutput) {
  save_zeros("x.npy", 4096);
  std::filesystem::create_directory(path("disk"));
  write("run.sh",
        "mount -t tmpfs -o size=512k,nr_inodes=$2 none disk || exit 77\n"
        "echo mine > disk/$1\n"
        "'" RAPT_PROGRAM
        "' convert x.npy disk/$1 --force\n"
        "echo exit $?; ls -A disk; cat disk/$1\n");
  const auto run = [&](const std::string& file, const std::string& inodes) {
    return run_shell(folder().string(),
                     "unshare --map-root-user --mount sh run.sh " + file + " " + inodes);
  };
  if (run("o.npy", "9").exit != 0) GTEST_SKIP() << "no right to a name space with a file system";
  for (const std::string& file : kTensorFiles) {
    EXPECT_EQ(run(file, "9").out, "rapt convert: disk/" + file +
                                      ": cannot be written: No space left on device\n" +
                                      "exit 4\n" + file + "\nmine\n");
  }
  EXPECT_EQ(run("o.npy", "2")
                .out,  // two inodes: the folder and the old file, so no room for another file
            "rapt convert: OUT: disk/o.npy: cannot create a file in folder '" + path("disk") +
                "': No space left on device\nexit 4\no.npy\nmine\n");
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
  std::filesystem::create_directory(path("mine"));
  write("mine/o.npy", "mine");
  write("mine/o.svg", "mine");
  std::filesystem::permissions(path("mine"), std::filesystem::perms(0555));
  const auto tried = [&](const std::vector<std::string>& arguments, const std::string& file) {
    const Ran ran = rapt(arguments, {.without_rights = true});
    EXPECT_EQ(ran.exit, 4) << ran.err;
    EXPECT_TRUE(contains(ran.err, file) && contains(ran.err, "Permission denied")) << ran.err;
    expect_one_line(ran.err);
  };
  for (const std::string file : {"mine/new.npy", "mine/o.npy"})
    tried({"convert", "x.npy", file, "--force"}, file);
  for (const std::string file : {"mine/new.png", "mine/o.svg"})
    tried({"mask", "causal", "--heatmap", file, "--force"}, file);
  std::filesystem::permissions(path("mine"), std::filesystem::perms(0755));
  std::filesystem::permissions(path("mine/o.npy"), std::filesystem::perms(0444));
  tried({"convert", "x.npy", "mine/o.npy", "--force"}, "mine/o.npy");
  EXPECT_EQ(read("mine/o.npy"), "mine");
  EXPECT_EQ(read("mine/o.svg"), "mine");
  std::filesystem::permissions(path("x.npy"), std::filesystem::perms(0));
  tried({"info", "x.npy"}, "x.npy");
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
  save_zeros("x.npy", 4 * kMiB);  // 1 GiB, so that the kill comes before the end
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
  // The temporary file that it left behind does no harm.
  save_zeros("x.npy", 2);
  const Ran again = rapt({"convert", "x.npy", "o.npy", "--force"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(read("o.npy"), read("x.npy"));
}

TEST_F(BrokenFilesTest, AnOutputMayBeAnInput) {
  save_problem();
  const Ran apart = rapt(attend({"--output", "o.npy"}));
  ASSERT_EQ(apart.exit, 0) << apart.err;
  EXPECT_EQ(rapt(attend({"--output", "v.npy"})).exit, 4) << "not without --force";
  std::filesystem::create_symlink("v.npy", path("link.npy"));
  const Ran onto = rapt(attend({"--output", "link.npy", "--force"}));
  EXPECT_EQ(onto.exit, 0) << onto.err;
  EXPECT_EQ(read("v.npy"), read("o.npy"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.npy")));
  const Ran itself = rapt({"convert", "o.npy", "o.npy", "--dtype", "f64", "--force"});
  EXPECT_EQ(itself.exit, 0) << itself.err;
  EXPECT_EQ(load("o.npy").dtype(), DType::f64);
}

TEST_F(BrokenFilesTest, OfRunsThatWriteOneFileTheLastOneStaysWhole) {
  save("a.npy", filled(DType::f32, {300, 300}, 1));
  save("b.npy", filled(DType::f32, {300, 300}, 2));
  const auto at_once = [&](const std::string& force) {
    std::string command;
    for (const std::string from : {"a", "b", "a", "b"})
      command += "('" RAPT_PROGRAM "' convert " + from + ".npy o.npy" + force +
                 " 2> /dev/null && echo done) &\n";
    return run_shell(folder().string(), command + "wait").out;
  };
  EXPECT_EQ(at_once(""), "done\n") << "the others find a file";
  EXPECT_EQ(at_once(" --force"), "done\ndone\ndone\ndone\n");
  EXPECT_TRUE(read("o.npy") == read("a.npy") || read("o.npy") == read("b.npy"));
  EXPECT_EQ(files(), (std::vector<std::string>{"a.npy", "b.npy", "o.npy"}));
}

}  // namespace
}  // namespace rapt::cli_test
