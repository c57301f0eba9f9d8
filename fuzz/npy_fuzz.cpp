// .npy files from any bytes: an Error, or an array that is exactly the rest of the file, and that
// survives writing and reading. No allocation is larger than the input allows.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "largest_allocation.h"
#include "rapt/io/npy.h"

using namespace rapt;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

TensorFile open(std::vector<std::byte> bytes, NpyV2 v2) {
  return open_npy(std::make_shared<InputFile>("fuzz", std::move(bytes)), v2);
}

void round_trip(const Tensor& array, NpyV2 v2) {
  std::vector<std::byte> bytes;
  write_npy(
      [&](const void* data, int64_t count) {
        const auto* begin = static_cast<const std::byte*>(data);
        bytes.insert(bytes.end(), begin, begin + count);
      },
      array.view(), v2);
  const TensorFile again = open(std::move(bytes), v2);
  const LoadedTensor came = load(again.tensors[0]);
  require(came.view().dtype == array.dtype());
  require(std::ranges::equal(came.view().dims(), array.dims()));
  const int64_t count = array.count() * size_of(array.dtype());
  require(count == 0 ||
          std::memcmp(came.view().data, array.data(), static_cast<size_t>(count)) == 0);
}

}  // namespace

// A change of arbitrary bytes usually gives a length that does not fit the file. So the mutator
// usually changes the dict, and adjusts the header's length.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  constexpr size_t kDict = 10;  // of version 1, behind its length
  if (seed % 4 == 0 || size < kDict || data[6] != 1 || max_size < kDict + 256)
    return LLVMFuzzerMutate(data, size, max_size);
  const size_t length = std::min<size_t>(data[8] + 256u * data[9], size - kDict);
  std::vector<uint8_t> elements(data + kDict + length, data + size);
  const size_t most = std::min<size_t>(max_size - kDict, 0xffff);
  const size_t dict = LLVMFuzzerMutate(data + kDict, length, most);
  data[8] = static_cast<uint8_t>(dict & 255);
  data[9] = static_cast<uint8_t>(dict >> 8);
  elements.resize(std::min(elements.size(), max_size - kDict - dict));
  std::copy(elements.begin(), elements.end(), data + kDict + dict);
  return kDict + dict + elements.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  fuzz::begin_watching();
  for (const NpyV2 v2 : {NpyV2::refuse, NpyV2::bf16}) {
    Tensor array;
    try {
      const TensorFile file = open({begin, begin + size}, v2);
      const StoredTensor& stored = file.tensors.at(0);
      require(stored.bytes >= 0 && stored.offset + stored.bytes == static_cast<int64_t>(size));
      array = Tensor::copy_of(load(stored).view());
    } catch (const Error&) {
      continue;
    }
    round_trip(array, v2);
  }
  // Room for messages and for writing the array: a header of 32 dimensions, a vector that doubles.
  require(fuzz::largest_allocation <= 4096 + 4 * size);
  return 0;
}
