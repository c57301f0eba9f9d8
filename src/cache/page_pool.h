#pragma once
// The pages of a cache: which are free, and how many sequences hold each of the others.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rapt {

class PagePool {
 public:
  explicit PagePool(int64_t pages)
      : holders_(static_cast<size_t>(pages), 0), free_(static_cast<size_t>(pages)) {
    for (size_t i = 0; i < free_.size(); ++i)  // page 0 is taken first
      free_[i] = static_cast<int32_t>(free_.size() - 1 - i);
  }

  int64_t free() const noexcept { return static_cast<int64_t>(free_.size()); }
  int64_t in_use() const noexcept { return static_cast<int64_t>(holders_.size() - free_.size()); }

  bool shared(int32_t page) const noexcept { return holders_[static_cast<size_t>(page)] > 1; }
  // Takes a free page, of which there must be one.
  int32_t take() noexcept {
    const int32_t page = free_.back();
    free_.pop_back();
    hold(page);
    return page;
  }
  // One sequence more, and one less; without any, the page is free.
  void hold(int32_t page) noexcept { ++holders_[static_cast<size_t>(page)]; }
  void release(int32_t page) noexcept {
    // The stack never outgrows its first size, so this allocates nothing.
    if (--holders_[static_cast<size_t>(page)] == 0) free_.push_back(page);
  }

 private:
  std::vector<int64_t> holders_;  // [pages]
  std::vector<int32_t> free_;     // a stack
};

}  // namespace rapt
