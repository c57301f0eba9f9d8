#pragma once
// Random numbers that are the same on every machine and with every standard library.
// Source: SplitMix64, Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators".
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace check {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [begin, end]. The bias of the remainder is below 2^-40 for the ranges of the tests.
  int64_t between(int64_t begin, int64_t end) {
    return begin + static_cast<int64_t>(next() % static_cast<uint64_t>(end - begin + 1));
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  // Nearly normal, mean 0, variance 1. Uses no library function, whose last bit may differ.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  template <class T>
  const T& pick(std::span<const T> choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return pick(std::span(choices));
  }
  // 0, 1, ..., n - 1 in random order.
  std::vector<int64_t> permutation(int64_t n) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
    for (int64_t i = n - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(between(0, i))]);
    return order;
  }

 private:
  uint64_t state_;
};

}  // namespace check
