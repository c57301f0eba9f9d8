// An output file appears whole or not at all; after any error no partial file is left.
#include "rapt/io/output_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "rapt/io/input_file.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

void write_text(const std::string& path, const std::string& text, Overwrite overwrite) {
  OutputFile file(path, overwrite);
  file.write(text.data(), std::ssize(text));
  file.commit();
}

TEST(OutputFile, AppearsOnlyOnCommit) {
  const ScratchFolder folder;
  const std::string path = folder / "out";
  {
    OutputFile file(path, Overwrite::no);
    file.write("abc", 3);
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
    EXPECT_EQ(file_bytes(path), "abc");
  }
  EXPECT_EQ(file_bytes(path), "abc");
  EXPECT_EQ(folder.entries(), 1);
}

// commit() frees the number of its descriptor, and the next file that is opened gets it.
TEST(OutputFile, ClosesNoOtherFileAfterCommit) {
  const ScratchFolder folder;
  int other = -1;
  {
    OutputFile file(folder / "out", Overwrite::no);
    file.write("abc", 3);
    file.commit();
    other = open((folder / "out").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(other, 0);
  }
  char text[3];
  EXPECT_EQ(read(other, text, 3), 3);
  EXPECT_EQ(close(other), 0);
}

TEST(OutputFile, LeavesNothingWithoutCommit) {
  const ScratchFolder folder;
  {
    OutputFile file(folder / "out", Overwrite::no);
    file.write("abc", 3);
    EXPECT_EQ(folder.entries(), 1);
  }
  EXPECT_EQ(folder.entries(), 0);
}

TEST(OutputFile, OverwritesOnlyWhenAsked) {
  const ScratchFolder folder;
  const std::string path = folder / "out";
  make_file(path, "old");
  expect_error(
      ErrorCode::io, [&] { write_text(path, "new", Overwrite::no); }, path, "the file exists");
  EXPECT_EQ(file_bytes(path), "old");
  write_text(path, "new", Overwrite::yes);
  EXPECT_EQ(file_bytes(path), "new");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(OutputFile, AFileMadeMeanwhileSurvives) {
  const ScratchFolder folder;
  const std::string path = folder / "out";
  {
    OutputFile file(path, Overwrite::no);
    make_file(path, "another's");
    expect_error(
        ErrorCode::io, [&] { file.commit(); }, path, "the file exists");
  }
  EXPECT_EQ(file_bytes(path), "another's");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(OutputFile, AFolderMadeMeanwhileSurvives) {
  const ScratchFolder folder;
  const std::string path = folder / "out";
  {
    OutputFile file(path, Overwrite::yes);
    std::filesystem::create_directory(path);
    expect_error(
        ErrorCode::io, [&] { file.commit(); }, path, "cannot be given its name");
  }
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_EQ(folder.entries(), 1);
}

TEST(OutputFile, KeepsPermissionsAndLinks) {
  const ScratchFolder folder;
  make_file(folder / "file", "old");
  std::filesystem::permissions(folder / "file", std::filesystem::perms(0640));
  std::filesystem::create_symlink("file", folder / "link");
  write_text(folder / "link", "new", Overwrite::yes);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(file_bytes(folder / "file"), "new");
  EXPECT_EQ(std::filesystem::status(folder / "file").permissions(), std::filesystem::perms(0640));
  std::filesystem::create_symlink("nowhere", folder / "broken");
  expect_error(
      ErrorCode::io, [&] { write_text(folder / "broken", "new", Overwrite::yes); }, "broken",
      "cannot be followed");
}

TEST(OutputFile, NewFilesFollowTheUmask) {
  const ScratchFolder folder;
  const mode_t before = umask(027);
  write_text(folder / "out", "abc", Overwrite::no);
  umask(before);
  EXPECT_EQ(std::filesystem::status(folder / "out").permissions(), std::filesystem::perms(0640));
}

TEST(OutputFile, PathsThatCannotBeWritten) {
  const ScratchFolder folder;
  const auto tried = [](const std::string& path) {
    return [path] { OutputFile(path, Overwrite::yes); };
  };
  expect_error(ErrorCode::io, tried(folder / "none/out"), "none/out", "No such file or directory");
  expect_error(ErrorCode::io, tried(folder / "none/"), "folder");
  expect_error(ErrorCode::io, tried(folder.path()), "got a folder");
  expect_error(ErrorCode::io, tried(""), "empty");
  expect_error(ErrorCode::io, tried(std::string("a\0b", 3)), "zero byte");
  expect_error(ErrorCode::io, tried(folder / std::string(300, 'a')), "too long");
  EXPECT_EQ(folder.entries(), 0);
}

TEST(OutputFile, LongestNameFits) {
  const ScratchFolder folder;
  const std::string path = folder / std::string(255, 'a');  // NAME_MAX
  write_text(path, "abc", Overwrite::no);
  EXPECT_EQ(file_bytes(path), "abc");
}

TEST(OutputFile, FoldersAndFilesWithoutPermission) {
  const ScratchFolder folder;
  make_file(folder / "file", "old");
  std::filesystem::permissions(folder / "file", std::filesystem::perms(0444));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  {
    const AsOrdinaryUser user;
    expect_error(
        ErrorCode::io, [&] { OutputFile(folder / "out", Overwrite::no); }, "out",
        "cannot create a file in folder", "Permission denied");
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
  {
    const AsOrdinaryUser user;
    expect_error(
        ErrorCode::io, [&] { OutputFile(folder / "file", Overwrite::yes); }, "file",
        "cannot be overwritten", "Permission denied");
  }
  EXPECT_EQ(file_bytes(folder / "file"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(OutputFile, FullDevice) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  expect_error(
      ErrorCode::io, [] { write_text("/dev/full", "abc", Overwrite::no); }, "/dev/full",
      "No space left on device");
}

TEST(OutputFile, DevicesAreNotReplaced) {
  write_text("/dev/null", "abc", Overwrite::yes);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFile, TemporariesCanBeRemovedByAHandlerOfASignal) {
  const ScratchFolder folder;
  make_file(folder / "old", "old");
  OutputFile a(folder / "a", Overwrite::no), old(folder / "old", Overwrite::yes);
  { OutputFile gone(folder / "gone", Overwrite::no); }
  a.write("abc", 3);
  EXPECT_EQ(folder.entries(), 3);
  remove_temporaries();
  EXPECT_EQ(folder.entries(), 1);
  expect_error(
      ErrorCode::io, [&] { a.commit(); }, "a", "cannot be given its name");
  EXPECT_EQ(file_bytes(folder / "old"), "old");
}

TEST(OutputFile, NamesTheMappedFileThatHasBecomeShorter) {
  const ScratchFolder folder;
  make_file(folder / "in", std::string(1 << 20, 'x'));
  const InputFile in(folder / "in");
  const auto bytes = in.map();
  std::filesystem::resize_file(folder / "in", 4096);
  expect_error(
      ErrorCode::io,
      [&] {
        OutputFile out(folder / "out", Overwrite::no);
        out.write(bytes.data(), std::ssize(bytes));
      },
      folder / "in", "became shorter while it was being read");
  EXPECT_EQ(folder.entries(), 1);
}

// RLIMIT_FSIZE makes the write fail half-way, as a full disk does.
TEST(OutputFile, NothingIsLeftWhenTheDiskIsFull) {
  const ScratchFolder folder;
  const std::string path = folder / "out", text(100000, 'x');
  make_file(path, "old");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 50000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(
      ErrorCode::io, [&] { write_text(path, text, Overwrite::yes); }, path, "cannot be written");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(file_bytes(path), "old");
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace rapt::test
