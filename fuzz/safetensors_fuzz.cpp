// .safetensors files and indices of shards from any bytes. The tensors of a valid file cover it
// exactly, load, and survive writing and reading.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "io/safetensors/safetensors_index.h"
#include "largest_allocation.h"
#include "rapt/io/safetensors.h"

using namespace rapt;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kLengthBytes = 8;
// The parsed header is larger than its text, in proportion: the shortest entry of __metadata__ has
// 6 bytes of text and 64 in a list, which has up to twice the room that it needs.
constexpr size_t kBytesPerByte = 22, kBytesBeyond = 4096;

void require(bool condition) {
  if (!condition) std::abort();
}

TensorFile open(std::vector<std::byte> bytes) {
  return open_safetensors(std::make_shared<InputFile>("fuzz", std::move(bytes)));
}

void round_trip(const TensorFile& file) {
  std::vector<LoadedTensor> loaded;
  std::vector<NamedTensor> tensors;
  for (const StoredTensor& stored : file.tensors) {
    try {
      loaded.push_back(load(stored));
    } catch (const Error& e) {  // booleans other than 0 and 1, a type that is not read
      require(e.code() == (stored.dtype ? ErrorCode::format : ErrorCode::dtype));
      continue;
    }
    tensors.push_back({stored.name, loaded.back().view()});
  }
  std::vector<std::byte> bytes;
  write_safetensors(
      [&](const void* data, int64_t count) {
        const auto* begin = static_cast<const std::byte*>(data);
        bytes.insert(bytes.end(), begin, begin + count);
      },
      tensors, file.metadata);
  const TensorFile again = open(std::move(bytes));
  require(again.tensors.size() == tensors.size() && again.metadata == file.metadata);
  for (const NamedTensor& tensor : tensors) {
    const StoredTensor* stored = again.find(tensor.name);
    require(stored != nullptr && stored->dtype == tensor.view.dtype);
    require(std::ranges::equal(stored->shape, tensor.view.dims()));
    const LoadedTensor came = load(*stored);
    require(stored->bytes == 0 || std::memcmp(came.view().data, tensor.view.data,
                                              static_cast<size_t>(stored->bytes)) == 0);
  }
}

// The bytes of elements that a header needs: the largest number before a ']'.
size_t elements_for(const uint8_t* json, size_t size, size_t most) {
  size_t largest = 0, number = 0;
  for (size_t i = 0; i < size; ++i) {
    if (json[i] >= '0' && json[i] <= '9') {
      number = std::min(number * 10 + (json[i] - '0'), most);
    } else {
      if (json[i] == ']') largest = std::max(largest, number);
      number = 0;
    }
  }
  return largest;
}

}  // namespace

// A change of arbitrary bytes usually fails at the length or at the end of the file. So the mutator
// usually changes the JSON, and adjusts the rest.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  const bool header_at_8 = size > kLengthBytes && data[kLengthBytes] == '{';
  if (seed % 8 == 0 || !header_at_8) return LLVMFuzzerMutate(data, size, max_size);
  uint64_t length = 0;
  std::memcpy(&length, data, kLengthBytes);
  length = std::min<uint64_t>(length, size - kLengthBytes);
  uint8_t* const json = data + kLengthBytes;
  length = LLVMFuzzerMutate(json, length, max_size - kLengthBytes);
  std::memcpy(data, &length, kLengthBytes);
  const size_t room = max_size - kLengthBytes - length;
  const size_t elements = seed % 8 == 1 ? 0 : elements_for(json, length, room);
  std::memset(json + length, 1, elements);
  return kLengthBytes + length + elements;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  fuzz::begin_watching();
  try {
    const TensorFile file = open({begin, begin + size});
    uint64_t length = 0;
    std::memcpy(&length, data, kLengthBytes);
    auto end = static_cast<int64_t>(kLengthBytes + length);
    for (const StoredTensor& tensor : file.tensors) {
      require(tensor.offset == end && tensor.bytes >= 0);
      end += tensor.bytes;
    }
    require(end == static_cast<int64_t>(size));
    round_trip(file);
  } catch (const Error&) {
  }
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& [tensor, shard] : parse_safetensors_index(text, "fuzz"))
      require(shard.find('/') == std::string::npos && shard != ".." && !shard.empty());
  } catch (const Error&) {
  }
  require(fuzz::largest_allocation <= kBytesPerByte * size + kBytesBeyond);
  return 0;
}
