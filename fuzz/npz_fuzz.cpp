// .npz archives from any bytes: an Error, or tensors that load or are rejected one by one, and that
// survive writing and reading. No allocation is larger than the input allows: about 64 KiB for
// zlib, a small multiple of the input, and the inflated size of deflated members.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "io/npz/zip_member.h"
#include "io/npz/zip_writer.h"
#include "largest_allocation.h"
#include "rapt/io/npz.h"

using namespace rapt;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::shared_ptr<const InputFile> in_memory(std::vector<std::byte> bytes) {
  return std::make_shared<InputFile>("fuzz", std::move(bytes));
}

WriteBytes append_to(std::vector<std::byte>& bytes) {
  return [&](const void* data, int64_t count) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + count);
  };
}

// Inputs that inflate to more are skipped: neither bombs nor large files find bugs.
constexpr int64_t kMostBytes = 1 << 20;

void round_trip(const TensorFile& file) {
  std::vector<LoadedTensor> loaded;
  std::vector<NamedTensor> tensors;
  for (const StoredTensor& stored : file.tensors) {
    require(stored.bytes >= 0 && stored.member_bytes > 0);
    if (stored.bytes > kMostBytes) continue;
    try {
      loaded.push_back(load(stored));
    } catch (const Error& e) {  // damaged, or a type that is not read
      require(e.code() == (stored.dtype ? ErrorCode::format : ErrorCode::dtype));
      continue;
    }
    require(stored.bytes == 0 || loaded.back().mapped() == (memory_of(stored) == 0));
    if (!stored.name.empty()) tensors.push_back({stored.name, loaded.back().view()});
  }
  for (const Compression compression : {Compression::stored, Compression::deflated}) {
    std::vector<std::byte> bytes;
    write_npz(append_to(bytes), tensors, compression, NpyV2::bf16);
    const TensorFile again = open_npz(in_memory(std::move(bytes)), NpyV2::bf16);
    require(again.tensors.size() == tensors.size());
    for (const NamedTensor& tensor : tensors) {
      const StoredTensor* stored = again.find(tensor.name);
      require(stored != nullptr && stored->dtype == tensor.view.dtype);
      require(std::ranges::equal(stored->shape, tensor.view.dims()));
      const Tensor came = Tensor::copy_of(load(*stored).view());
      const Tensor went = Tensor::copy_of(tensor.view);
      require(stored->bytes == 0 ||
              std::memcmp(came.data(), went.data(), static_cast<size_t>(stored->bytes)) == 0);
    }
  }
}

struct Content {
  ZipMember member;
  std::vector<uint8_t> bytes;
};

std::vector<Content> contents_of(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const auto file = in_memory({begin, begin + size});
  std::vector<Content> contents;
  for (const ZipMember& member : read_zip_directory(*file)) {
    if (member.bytes > kMostBytes) continue;
    std::vector<uint8_t> bytes(static_cast<size_t>(member.bytes));
    ZipMemberReader(*file, member).read(reinterpret_cast<std::byte*>(bytes.data()), member.bytes);
    contents.push_back({member, std::move(bytes)});
  }
  return contents;
}

}  // namespace

// A change of arbitrary bytes usually gives records that contradict each other. So every other time
// the mutator changes the contents of a member, or how it is stored, and builds a valid archive.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  try {
    std::vector<Content> contents = contents_of(data, size);
    if (contents.empty()) return LLVMFuzzerMutate(data, size, max_size);
    Content& chosen = contents[seed / 2 % contents.size()];
    const size_t room = chosen.bytes.size() + 64;
    chosen.bytes.resize(room);
    chosen.bytes.resize(LLVMFuzzerMutate(chosen.bytes.data(), room - 64, room));
    chosen.member.deflated = seed / 4 % 2 != 0;
    if (seed / 8 % 8 == 0) contents.push_back({{"n" + std::to_string(seed % 997)}, chosen.bytes});
    std::vector<std::byte> bytes;
    const WriteBytes write = append_to(bytes);
    ZipWriter zip(write);
    for (const Content& content : contents)
      zip.add({content.member.name, content.member.deflated, std::ssize(content.bytes)},
              [&](const WriteBytes& to) { to(content.bytes.data(), std::ssize(content.bytes)); });
    zip.finish();
    if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
  } catch (const Error&) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const size_t small = (size_t{1} << 17) + 16 * size;
  fuzz::begin_watching();
  TensorFile file;
  try {
    file = open_npz(in_memory({begin, begin + size}), NpyV2::bf16);
  } catch (const Error&) {
    require(fuzz::largest_allocation <= small);
    return 0;
  }
  require(fuzz::largest_allocation <= small);
  size_t loaded = 0;
  for (const StoredTensor& stored : file.tensors) {
    require(stored.deflated || stored.bytes <= static_cast<int64_t>(size));
    require(stored.bytes <= kMaxDeflateRatio * stored.member_bytes);
    if (stored.bytes <= kMostBytes) loaded += static_cast<size_t>(stored.bytes) + 512;
  }
  round_trip(file);
  // Room for one inflated tensor, and for writing all of them into a vector that doubles.
  require(fuzz::largest_allocation <= small + 2 * loaded);
  return 0;
}
