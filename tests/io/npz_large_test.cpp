// .npz archives that exceed the 32-bit fields, tested without using that much memory or disk.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "in_memory.h"
#include "io/npz/zip_writer.h"
#include "rapt/io/npz.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

constexpr int64_t k4GiB = int64_t{1} << 32;

// A file in which skipped parts take no room on the disk.
class SparseFile {
 public:
  explicit SparseFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  ~SparseFile() { close(descriptor_); }
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  void write(const void* data, int64_t bytes) {
    if (pwrite(descriptor_, data, static_cast<size_t>(bytes), at_) != bytes)
      throw std::runtime_error("cannot write a sparse file");
    at_ += bytes;
  }
  void leave_out(int64_t bytes) { at_ += bytes; }
  int64_t bytes() const { return at_; }

 private:
  int descriptor_;
  int64_t at_ = 0;
};

// The headers show which sizes need ZIP64. The elements of the arrays are skipped, so each CRC-32
// covers its header alone.
TEST(NpzLarge, SizesAndOffsetsBeyond4GiBNeedZip64) {
  const ScratchFolder folder;
  const std::string path = folder / "large.npz";
  for (const int64_t length :
       {k4GiB / 2 + 1, k4GiB - 130, k4GiB - 129, k4GiB - 128, k4GiB - 127, k4GiB, 5 * k4GiB / 2}) {
    SCOPED_TRACE(length);
    const std::vector<int64_t> lengths = {length, 100, length};
    SparseFile file(path);
    const WriteBytes write = [&](const void* data, int64_t bytes) { file.write(data, bytes); };
    ZipWriter zip(write);
    for (size_t i = 0; i < lengths.size(); ++i) {
      const std::string header = npy_header_for(DType::u8, Shape(&lengths[i], 1));
      int calls = 0;
      zip.add({std::to_string(i) + ".npy", false, std::ssize(header) + lengths[i]},
              [&](const WriteBytes& to) {
                to(header.data(), std::ssize(header));
                if (++calls == 2) file.leave_out(lengths[i]);  // the first call computes the CRC
              });
    }
    zip.finish();
    const TensorFile opened = open_tensor_file(path);
    ASSERT_EQ(std::filesystem::file_size(path), static_cast<uintmax_t>(file.bytes()));
    ASSERT_EQ(opened.tensors.size(), 3u);
    for (size_t i = 0; i < lengths.size(); ++i) {
      const StoredTensor& tensor = opened.tensors[i];
      EXPECT_EQ(tensor.name, std::to_string(i));
      EXPECT_EQ(tensor.shape, std::vector<int64_t>{lengths[i]});
      EXPECT_EQ(tensor.offset % 64, 0);
      EXPECT_EQ(memory_of(tensor), 0);
    }
    EXPECT_GT(opened.tensors[2].offset, length);
    // The local header uses ZIP64 where the array and its .npy header have 2^32 - 1 bytes or more.
    const std::string start = [&] {
      std::string bytes(64, '\0');
      InputFile(path).read(0, reinterpret_cast<std::byte*>(bytes.data()), std::ssize(bytes));
      return bytes;
    }();
    EXPECT_EQ(start.substr(18, 4) == "\xff\xff\xff\xff", length + 128 >= k4GiB - 1);
    std::filesystem::remove(path);
  }
}

// Before load() only directory and header are read. So the member may hold less data than it
// declares, provided that deflate could expand the data to the declared size.
TEST(NpzLarge, DeflatedMembersBeyond4GiBNeedZip64) {
  for (const int64_t length : {k4GiB / 2 + 1, k4GiB + 7}) {
    SCOPED_TRACE(length);
    std::mt19937_64 random(1);
    std::vector<uint64_t> noise(static_cast<size_t>(length / 1030 / 8));
    for (uint64_t& x : noise) x = random();
    const std::string header = npy_header_for(DType::u8, Shape(&length, 1));
    std::string bytes;
    const WriteBytes write = [&](const void* data, int64_t count) {
      bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
    };
    ZipWriter zip(write);
    zip.add({"noise.npy", true, std::ssize(header) + length}, [&](const WriteBytes& to) {
      to(header.data(), std::ssize(header));
      to(noise.data(), 8 * std::ssize(noise));
    });
    zip.finish();
    const TensorFile file = open_npz(in_memory(bytes));
    ASSERT_EQ(file.tensors.size(), 1u);
    EXPECT_EQ(file.tensors[0].shape, std::vector<int64_t>{length});
    EXPECT_EQ(memory_of(file.tensors[0]), length);
    EXPECT_EQ(bytes.substr(18, 8) == std::string(8, '\xff'), length > k4GiB);
    EXPECT_EQ(bytes.find("PK\x06\x06"), std::string::npos) << "only the member is large";
  }
}

}  // namespace
}  // namespace rapt::test
