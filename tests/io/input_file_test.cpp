// InputFile reads bytes from memory, from a file, and from a file that changes meanwhile.
#include "rapt/io/input_file.h"

#include <sys/resource.h>
#include <unistd.h>

#include "in_memory.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

std::string read_text(const InputFile& file, int64_t offset, int64_t count) {
  std::string text(static_cast<size_t>(count), '?');
  file.read(offset, reinterpret_cast<std::byte*>(text.data()), count);
  return text;
}

std::string map_text(const InputFile& file) {
  const auto bytes = file.map();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(InputFile, ReadsAndMapsWhatAFileHolds) {
  const ScratchFolder folder;
  make_file(folder / "in", "0123456789");
  const InputFile file(folder / "in");
  EXPECT_EQ(file.name(), folder / "in");
  EXPECT_EQ(file.bytes(), 10);
  EXPECT_EQ(read_text(file, 3, 4), "3456");
  EXPECT_EQ(read_text(file, 10, 0), "");
  EXPECT_EQ(map_text(file), "0123456789");
  EXPECT_EQ(file.map().data(), file.map().data());
}

TEST(InputFile, BytesInMemoryAreAFileToo) {
  const auto file = in_memory("0123456789", "-");
  EXPECT_EQ(file->name(), "-");
  EXPECT_EQ(file->bytes(), 10);
  EXPECT_EQ(read_text(*file, 3, 4), "3456");
  EXPECT_EQ(map_text(*file), "0123456789");
  EXPECT_EQ(mapped_file_at(file->map().data()), nullptr);
}

TEST(InputFile, EmptyFilesHaveNothingToReadOrMap) {
  const ScratchFolder folder;
  make_file(folder / "in", "");
  const InputFile empty(folder / "in");
  const auto held = in_memory("");
  for (const InputFile* file : {&empty, held.get()}) {
    EXPECT_EQ(file->bytes(), 0);
    file->read(0, nullptr, 0);
    EXPECT_TRUE(file->map().empty());
  }
}

TEST(InputFile, AFileThatBecameShorterIsAnError) {
  const ScratchFolder folder;
  make_file(folder / "in", "0123456789");
  const InputFile file(folder / "in");
  ASSERT_EQ(truncate((folder / "in").c_str(), 5), 0);
  EXPECT_EQ(read_text(file, 0, 5), "01234");
  for (const int64_t offset : {0, 4, 5, 7}) {
    expect_error(
        ErrorCode::io, [&] { read_text(file, offset, 3 + 7 - offset); }, folder / "in",
        "became shorter while it was being read");
  }
}

TEST(InputFile, TensorsOfAFileThatBecameShorterAreAnError) {
  const ScratchFolder folder;
  const std::string big_endian = npy_file(npy_dict("'>f4'", "(4,)"), 16);
  make_file(folder / "in.npy", big_endian);
  const TensorFile file = open_tensor_file(folder / "in.npy");
  std::filesystem::resize_file(folder / "in.npy", big_endian.size() - 1);
  expect_error(
      ErrorCode::io, [&] { load(file.tensors[0]); }, "in.npy", "became shorter");
}

TEST(InputFile, AFileThatIsReplacedIsReadAsItWas) {
  const ScratchFolder folder;
  make_file(folder / "in", "old");
  const InputFile file(folder / "in");
  make_file(folder / "other", "new and longer");
  std::filesystem::rename(folder / "other", folder / "in");
  EXPECT_EQ(map_text(file), "old");
}

TEST(InputFile, AddressesTellTheirFile) {
  const ScratchFolder folder;
  make_file(folder / "a", "aaaa");
  make_file(folder / "b", "bbbb");
  const std::byte* address = nullptr;
  {
    const InputFile a(folder / "a"), b(folder / "b");
    EXPECT_EQ(mapped_file_at(nullptr), nullptr);
    address = a.map().data();
    EXPECT_EQ(mapped_file_at(address), folder / "a");
    EXPECT_EQ(mapped_file_at(address + 3), folder / "a");
    EXPECT_EQ(mapped_file_at(address + 4), nullptr);
    EXPECT_EQ(mapped_file_at(b.map().data()), folder / "b");
    EXPECT_EQ(mapped_file_at(&address), nullptr);
  }
  EXPECT_EQ(mapped_file_at(address), nullptr);
}

// mapped_file_at() remembers few names, but any number of files can be mapped.
TEST(InputFile, ManyFilesCanBeMapped) {
  const ScratchFolder folder;
  make_file(folder / "in", "0123");
  std::vector<std::unique_ptr<InputFile>> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(std::make_unique<InputFile>(folder / "in"));
    ASSERT_EQ(map_text(*files.back()), "0123");
  }
  files.clear();
  const InputFile file(folder / "in");
  EXPECT_EQ(mapped_file_at(file.map().data()), folder / "in");
}

// A map needs address space. If the system refuses it, the result is an Error, not a crash.
TEST(InputFile, AMapThatTheSystemRefusesIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#else
  const ScratchFolder folder;
  make_file(folder / "in", "");
  std::filesystem::resize_file(folder / "in",
                               uintmax_t{1} << 36);  // 64 GiB without a block on disk
  const InputFile file(folder / "in");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = rlim_t{1} << 33;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  expect_error(
      ErrorCode::memory_limit, [&] { file.map(); }, folder / "in", "cannot be mapped");
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
#endif
}

}  // namespace
}  // namespace rapt::test
