#pragma once
// Rows of keys, or of values, of one sequence in a cache (rapt/cached_keys.h). The rows of a key
// block may lie in several pages. Kernels of few queries read runs of rows where they lie. For
// other kernels such rows are copied to scratch, so that they follow each other. The functions are
// in the header because they are inlined into the loop over blocks.
#include "attention/call/key_pages.h"
#include "attention/rows/row_transformer.h"
#include "base/copy_rows.h"
#include "kernels/kernel_table.h"

namespace rapt {

class CachedRows {
 public:
  CachedRows() = default;
  // `first`: row 0 of page 0 for the current head. `page_stride` in elements.
  CachedRows(const KeyPages& pages, const RowsAt& first, int64_t page_stride,
             int64_t sequence) noexcept
      : pages_(&pages), first_(first), page_stride_(page_stride), sequence_(sequence) {}

  // The address of a row.
  std::byte* at(int64_t key) const noexcept { return at(pages_->run(sequence_, key, 1)); }

  // Rows [begin, begin + count): in the cache, or copied to `copies` [count, dims].
  RowsAt rows(int64_t begin, int64_t count, int64_t dims, std::byte* copies) const noexcept {
    KeyPages::Run run = pages_->run(sequence_, begin, count);
    if (run.keys == count) return {at(run), first_.dtype, first_.row_stride, first_.dim_stride};
    const int64_t size = size_of(first_.dtype);
    const RowStrides stored{first_.row_stride * size, first_.dim_stride * size};
    const RowStrides dense{dims * size, size};
    for (int64_t done = 0;;) {
      copy_rows(copies + done * dense.row, dense, at(run), stored, run.keys, dims, size);
      done += run.keys;
      if (done == count) return {copies, first_.dtype, dims, 1};
      run = pages_->run(sequence_, begin + done, count - done);
    }
  }

  // The same rows as runs of kRunRows, and the runs that follow them. Runs that no page holds whole
  // are copied.
  void runs(int64_t begin, int64_t count, int64_t dims, std::byte* copies,
            RowRun* runs) const noexcept {
    int64_t done = 0;
    for (; done < count; done += kRunRows) {
      std::byte* const to = copies + done * dims * size_of(first_.dtype);
      const RowsAt found = rows(begin + done, std::min(kRunRows, count - done), dims, to);
      *runs++ = {found.data, found.row_stride};
    }
    for (int64_t n = 0; n < kRunsAhead; ++n, done += kRunRows) {
      // Past the last key there is nothing to read ahead, but lines that have been read.
      const bool exists = begin + done < pages_->length(sequence_);
      runs[n] = exists ? RowRun{at(begin + done), first_.row_stride} : runs[-1];
    }
  }

 private:
  std::byte* at(const KeyPages::Run& run) const noexcept {
    return first_.data +
           (run.page * page_stride_ + run.row * first_.row_stride) * size_of(first_.dtype);
  }

  // Unset where keys lie in no cache.
  const KeyPages* pages_;
  RowsAt first_;
  int64_t page_stride_, sequence_;
};

}  // namespace rapt
