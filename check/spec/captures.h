#pragma once
// The captures that a check requests beside output and lse, as plain data (attention.h).
#include <cstdint>
#include <optional>
#include <vector>

namespace check {

// How the pairs of a cell of a map become one number; in the order of rapt::Pool.
enum class Pooling : uint8_t { mean, max, sum };
inline constexpr const char* kPoolingNames[] = {"mean", "max", "sum"};

struct WeightsWanted {
  int64_t begin = 0, end = -1;  // rows; an end of -1 is q_len
  std::vector<int64_t> rows;    // instead of begin and end, in any order
  std::vector<int64_t> heads;   // flat indices into the leading dimensions; empty: all
  bool operator==(const WeightsWanted&) const = default;
};

struct MapWanted {
  int64_t rows = 1, columns = 1;
  Pooling pooling = Pooling::mean;
  std::vector<int64_t> heads;
  bool operator==(const MapWanted&) const = default;
};

struct Captures {
  std::optional<WeightsWanted> weights;
  std::optional<MapWanted> map;
  int64_t top_k = 0;
  bool entropy = false, received = false;
  bool operator==(const Captures&) const = default;
};

// Requests all weights, and no other capture.
inline Captures all_weights() {
  Captures captures;
  captures.weights.emplace();
  return captures;
}

}  // namespace check
