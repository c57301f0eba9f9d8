#pragma once
// Lays out arrays in scratch memory before it is allocated.
//
// A class that works in scratch declares a struct of Places beside it: one for each array, with a
// function that reserves those that a call needs. A planner gives them offsets, one after the
// other. So a plan needs only the number of bytes. Where an access too far can be reported, gaps
// lie between the arrays (scratch_gap.h).
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/rare.h"
#include "base/scratch_gap.h"
#include "rapt/error.h"

namespace rapt {

// Memory that exists once per call, once per component at work (a backward pass in two passes: once
// per worker), or once per worker.
enum class Per : uint8_t { call, component, worker };

// Every array begins at a multiple of this: a cache line.
inline constexpr size_t kScratchAlignment = 64;

template <Per kPer>
class ScratchPlanner;

// Where the array behind one that ends at `end` may begin.
constexpr size_t behind_array(size_t end) noexcept {
  return ((end + kScratchAlignment - 1) & ~(kScratchAlignment - 1)) + kScratchGap;
}

// An array [rows][columns] of T, or [rows], in memory of one kind. It is not laid out until a
// planner places it or declares it absent. Reading a place that is absent or not laid out is a bug,
// which assertions find.
template <class T, Per kPer = Per::worker>
class Place {
  static_assert(alignof(T) <= kScratchAlignment);

 public:
  bool exists() const noexcept {
    assert(begin_ != kNotLaidOut);
    return has_memory();
  }
  // The array, from a row on. `memory` is the beginning of the memory that the planner laid out.
  T* in(std::byte* memory, int64_t row = 0) const noexcept {
    assert(has_memory() && 0 <= row && row * columns_ <= count_);
    if (kScratchGap > 0) {
      const size_t end = begin_ + static_cast<size_t>(count_) * sizeof(T);
      close_gap(memory + end, behind_array(end) - end);
    }
    return reinterpret_cast<T*>(memory + begin_) + row * columns_;
  }
  // The same; null if the array is absent.
  T* in_or_null(std::byte* memory, int64_t row = 0) const noexcept {
    return exists() ? in(memory, row) : nullptr;
  }

  // The number of elements, and those between two rows.
  int64_t count() const noexcept { return assert(has_memory()), count_; }
  int64_t columns() const noexcept { return assert(has_memory()), columns_; }
  // Bytes before the array; SIZE_MAX or one less if it has no memory.
  size_t begin() const noexcept { return begin_; }

 private:
  friend class ScratchPlanner<kPer>;
  static constexpr size_t kNotLaidOut = SIZE_MAX, kAbsent = SIZE_MAX - 1;

  bool has_memory() const noexcept { return begin_ < kAbsent; }

  // Only builds with assertions initialise a new place: most places of a small call stay unused.
#ifdef NDEBUG
  size_t begin_;
#else
  size_t begin_ = kNotLaidOut;
#endif
  int64_t count_, columns_;
};

template <class T>
using CallPlace = Place<T, Per::call>;
template <class T>
using ComponentPlace = Place<T, Per::component>;

// Memory that exists several times, one after the other, within other memory.
struct RepeatedMemory {
  size_t begin = 0, bytes = 0;

  std::byte* nth(std::byte* memory, int64_t n) const noexcept {
    return memory + begin + static_cast<size_t>(n) * bytes;
  }
};

template <Per kPer>
class ScratchPlanner {
 public:
  // Places an array. The last of several lengths is that of a row.
  template <class T>
  void place(Place<T, kPer>& array, std::initializer_list<int64_t> lengths) noexcept {
    assert(array.begin_ == array.kNotLaidOut);  // else it was placed before
    int64_t count = 1, size;
    for (const int64_t length : lengths) overflow_ |= __builtin_mul_overflow(count, length, &count);
    overflow_ |= __builtin_mul_overflow(count, int64_t{sizeof(T)}, &size);
    array.begin_ = bytes_;
    array.count_ = count;
    array.columns_ = lengths.size() > 1 ? lengths.end()[-1] : 1;
    // A size below 2^63 can be rounded up.
    add((static_cast<size_t>(size) + kScratchAlignment - 1 + kScratchGap) &
        ~(kScratchAlignment - 1));
  }
  // The same if it is needed; else the array is absent.
  template <class T>
  void place_if(bool needed, Place<T, kPer>& array,
                std::initializer_list<int64_t> lengths) noexcept {
    if (rare(needed))
      place(array, lengths);
    else
      array.begin_ = Place<T, kPer>::kAbsent;
  }

  // Places memory with all arrays of another planner, `times` times.
  template <Per kPart>
  RepeatedMemory repeat(const ScratchPlanner<kPart>& part, int64_t times) noexcept {
    const RepeatedMemory memory{bytes_, part.bytes_};
    size_t all;
    overflow_ |= part.overflow_;
    overflow_ |= __builtin_mul_overflow(part.bytes_, static_cast<size_t>(times), &all);
    add(all);
    return memory;
  }

  // Bytes to allocate, so that the first array can be aligned. Throws Error(overflow).
  size_t total() {
    add(kScratchAlignment - 1);
    return aligned_total();
  }
  // Bytes of all arrays, in memory whose beginning is aligned. Throws Error(overflow).
  size_t aligned_total() const {
    if (overflow_)
      throw Error(ErrorCode::overflow, "the workspace does not fit into 64-bit addresses");
    return bytes_;
  }

 private:
  template <Per>
  friend class ScratchPlanner;

  void add(size_t more) noexcept { overflow_ |= __builtin_add_overflow(bytes_, more, &bytes_); }

  size_t bytes_ = 0;
  bool overflow_ = false;
};

}  // namespace rapt
