// Processes blocks that stay in the cache: first the mean of a block, then the squares about that
// mean. Blocks are joined by the formula of Chan, Golub and LeVeque 1983, which avoids the
// cancellation of a running sum of squares.
#include "cli/files/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "cli/process/interrupt.h"
#include "rapt/error.h"

namespace rapt::cli {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;  // of one read
constexpr int64_t kBlock = 2048;                   // numbers; 16 KiB as doubles
constexpr int kLanes = 8;  // sums side by side, so that no addition waits for the one before

template <class T>
double real(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

// Squares of large doubles overflow a double. long double has the range on x87; elsewhere they
// become infinite.
using Wide = long double;

// count, mean and sum of squares about it, of finite numbers.
struct Moments {
  int64_t count = 0;
  Wide mean = 0, squares = 0;

  void join(const Moments& other) {
    if (other.count == 0) return;
    const auto mine = static_cast<Wide>(count), theirs = static_cast<Wide>(other.count);
    const Wide all = mine + theirs, apart = other.mean - mean;
    mean += apart * (theirs / all);
    squares += other.squares + apart * apart * (mine / all * theirs);
    count += other.count;
  }
};

double sum_of(const double* values, int64_t count) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  for (; i < count; ++i) lanes[0] += values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double squares_about(double mean, const double* values, int64_t count) {
  double lanes[kLanes] = {};
  const auto square = [mean](double value) { return (value - mean) * (value - mean); };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += square(values[i + lane]);
  for (; i < count; ++i) lanes[0] += square(values[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

Moments moments_of(const double* values, int64_t count) {
  if (count == 0) return {};
  const double mean = sum_of(values, count) / static_cast<double>(count);
  const double squares = squares_about(mean, values, count);
  if (std::isfinite(mean) && std::isfinite(squares)) return {count, mean, squares};
  Moments wide;
  for (int64_t i = 0; i < count; ++i) wide.join({1, values[i], 0});
  return wide;
}

class Collector {
 public:
  // Elements one after the other, at any address.
  template <class T>
  void add(const std::byte* elements, int64_t count) {
    for (int64_t done = 0; done < count; done += kBlock)
      add_block<T>(elements + done * static_cast<int64_t>(sizeof(T)),
                   std::min(kBlock, count - done));
  }

  TensorStats stats() {
    const Wide count = static_cast<Wide>(moments_.count);
    stats_.finite = moments_.count;
    if (moments_.count == 0) return stats_;
    stats_.min = least_;
    stats_.max = most_;
    stats_.mean = static_cast<double>(moments_.mean);
    stats_.std = static_cast<double>(std::sqrt(moments_.squares / count));
    return stats_;
  }

 private:
  template <class T>
  void add_block(const std::byte* elements, int64_t count) {
    T block[kBlock];
    std::memcpy(block, elements, static_cast<size_t>(count) * sizeof(T));
    double values[kBlock];
    for (int64_t i = 0; i < count; ++i) values[i] = real(block[i]);
    if constexpr (std::is_integral_v<T>) {
      const auto [least, most] = std::minmax_element(block, block + count);
      stats_.whole_min = stats_.count == 0 ? static_cast<int64_t>(*least)
                                           : std::min(stats_.whole_min, int64_t{*least});
      stats_.whole_max = stats_.count == 0 ? static_cast<int64_t>(*most)
                                           : std::max(stats_.whole_max, int64_t{*most});
    }
    stats_.count += count;
    int64_t zeros = 0, strange = 0;
    for (int64_t i = 0; i < count; ++i) {
      zeros += values[i] == 0;
      strange += !(std::abs(values[i]) <= std::numeric_limits<double>::max());
    }
    stats_.zeros += zeros;
    if (strange > 0) count = without_strange(values, count);
    double least = least_, most = most_;
    for (int64_t i = 0; i < count; ++i) {
      least = values[i] < least ? values[i] : least;
      most = values[i] > most ? values[i] : most;
    }
    least_ = least;
    most_ = most;
    moments_.join(moments_of(values, count));
  }

  // Moves the finite numbers to the front and counts the others.
  int64_t without_strange(double* values, int64_t count) {
    int64_t finite = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(values[i])) {
        ++stats_.nan;
      } else if (std::isinf(values[i])) {
        ++stats_.infinite;
      } else {
        values[finite++] = values[i];
      }
    }
    return finite;
  }

  TensorStats stats_;
  Moments moments_;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
};

void add_elements(DType dtype, const std::byte* elements, int64_t bytes, Collector& collector) {
  const int64_t count = bytes / size_of(dtype);
  switch (dtype) {
    case DType::f32:
      return collector.add<float>(elements, count);
    case DType::f64:
      return collector.add<double>(elements, count);
    case DType::bf16:
      return collector.add<BFloat16>(elements, count);
    case DType::f16:
      return collector.add<Float16>(elements, count);
    case DType::i64:
      return collector.add<int64_t>(elements, count);
    case DType::i32:
      return collector.add<int32_t>(elements, count);
    case DType::u8:
    case DType::boolean:
      return collector.add<uint8_t>(elements, count);
  }
}

// load() checks checksums, and that booleans are 0 or 1.
bool needs_loading(const StoredTensor& tensor) {
  return tensor.member_bytes > 0 || tensor.dtype == DType::boolean;
}

}  // namespace

int64_t memory_of_stats(const StoredTensor& tensor) noexcept {
  return needs_loading(tensor) ? memory_of(tensor) : 0;
}

TensorStats stats_of(const StoredTensor& tensor, const Progress& progress) {
  const DType dtype = *tensor.dtype;
  Collector collector;
  if (needs_loading(tensor)) {
    const LoadedTensor loaded = load(tensor);
    add_elements(dtype, static_cast<const std::byte*>(loaded.view().data), tensor.bytes, collector);
    return collector.stats();
  }
  // Reads the file instead of mapping it, so that memory stays small and no other process can
  // truncate it away.
  const int64_t element = size_of(dtype);
  std::vector<std::byte> chunk(static_cast<size_t>(std::min(tensor.bytes, kChunkBytes)));
  for (int64_t done = 0; done < tensor.bytes; done += kChunkBytes) {
    stop_if_interrupted();
    const int64_t bytes = std::min(kChunkBytes, tensor.bytes - done);
    tensor.file->read(tensor.offset + done, chunk.data(), bytes);
    if (tensor.byte_order != std::endian::native)
      for (int64_t i = 0; i < bytes; i += element)
        std::reverse(chunk.data() + i, chunk.data() + i + element);
    add_elements(dtype, chunk.data(), bytes, collector);
    if (progress.report != nullptr) {
      progress.report(progress.user,
                      static_cast<double>(done + bytes) / static_cast<double>(tensor.bytes));
    }
  }
  return collector.stats();
}

}  // namespace rapt::cli
