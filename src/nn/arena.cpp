#include "rapt/nn/arena.h"

#include <algorithm>
#include <string>

#include "base/call_memory.h"

namespace rapt::nn {
namespace {

// A cache line, a zmm register.
constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return bytes > SIZE_MAX - kAlignment ? SIZE_MAX : (bytes + kAlignment - 1) & ~(kAlignment - 1);
}

}  // namespace

Arena::Arena(std::span<std::byte> memory) noexcept : counts_(false) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const size_t lost = (kAlignment - address % kAlignment) % kAlignment;
  if (memory.size() < lost) return;
  begin_ = memory.data() + lost;
  size_ = memory.size() - lost;
}

TensorView Arena::take(DType dtype, Shape shape) {
  element_count(shape);  // throws if the shape is none
  const size_t bytes = aligned(bytes_of(shape, dtype));
  const size_t end = add_or_max(used_, bytes);
  if (!counts_ && end > size_)
    throw Error(ErrorCode::argument,
                "the arena of " + std::to_string(size_) + " bytes has " +
                    std::to_string(size_ - used_) + " left; a tensor " + to_string(shape) + " of " +
                    name_of(dtype) + " takes " + std::to_string(bytes) +
                    ". An arena without memory counts what the same calls need");
  TensorView view(counts_ ? nullptr : begin_ + used_, dtype, shape, false);
  used_ = end;
  most_ = std::max(most_, used_);
  return view;
}

std::span<std::byte> Arena::rest() const noexcept {
  return counts_ ? std::span<std::byte>() : std::span(begin_ + used_, size_ - used_);
}

void Arena::need(size_t bytes) noexcept { most_ = std::max(most_, add_or_max(used_, bytes)); }

}  // namespace rapt::nn
