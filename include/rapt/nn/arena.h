#pragma once
// Memory of layers: states that the caller keeps between forward and backward, and scratch.
//
// An arena hands out pieces of one block of memory, one after the other. An arena without memory
// counts instead: it hands out tensors with null data, and every forward and backward call that is
// given one takes its pieces and computes nothing. So the code that uses memory is the code that
// says how much is needed:
//
//   Arena counter;
//   auto sizes = make_state(layer, shape, counter);       // and forward(..), backward(..)
//   std::vector<std::byte> memory(counter.bytes());
//   Arena arena(memory);                                  // the same calls, now with memory
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "rapt/tensor.h"

namespace rapt::nn {

class Arena {
 public:
  Arena() = default;  // counts
  // `memory` must outlive the arena. Its first 63 bytes may be lost to alignment.
  explicit Arena(std::span<std::byte> memory) noexcept;

  bool counts() const noexcept { return counts_; }

  // An uninitialised tensor, 64-byte aligned. Throws Error(argument) if the memory does not
  // suffice, Error(shape, overflow) for its shape.
  TensorView take(DType dtype, Shape shape);
  // The same.
  TensorView take(DType dtype, std::initializer_list<int64_t> shape) {
    return take(dtype, Shape(shape.begin(), shape.size()));
  }

  // All memory that is left, as the workspace of a call; nothing is taken.
  std::span<std::byte> rest() const noexcept;
  // Counts `bytes` as needed beyond what is taken now; nothing is taken.
  void need(size_t bytes) noexcept;

  // The bytes that suffice for everything that was taken and needed at once so far.
  size_t bytes() const noexcept { return most_ + 63; }

  // What is taken while a Frame lives is given back at its end.
  class Frame {
   public:
    // `arena` must outlive the frame.
    explicit Frame(Arena& arena) noexcept : arena_(arena), used_(arena.used_) {}
    ~Frame() { arena_.used_ = used_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Arena& arena_;
    size_t used_;
  };

 private:
  std::byte* begin_ = nullptr;
  size_t size_ = 0, used_ = 0, most_ = 0;  // size_: from begin_ on
  bool counts_ = true;
};

}  // namespace rapt::nn
