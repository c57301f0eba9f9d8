// Layouts of blocks from other forms.
//
// This room, src/layout, makes masks from data and functions. It may use the public headers,
// src/mask/block_rows.h and src/threads.
#include "rapt/block_layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include "mask/block_rows.h"

namespace rapt {
namespace {

[[noreturn]] void reject_layout(ErrorCode code, const std::string& what) {
  throw Error(code, "layout of blocks: " + what);
}

void check_given(const char* name, const TensorView& tensor, int least_rank) {
  if (!tensor.defined()) reject_layout(ErrorCode::argument, std::string(name) + " is missing");
  if (tensor.rank > kMaxRank || tensor.rank < least_rank)
    reject_layout(ErrorCode::shape, std::string(name) + " of shape " + to_string(tensor.dims()) +
                                        "; expected at least " + std::to_string(least_rank) +
                                        " dimensions");
  if (tensor.count() > 0 && !tensor.data)
    reject_layout(ErrorCode::argument, std::string(name) + ": null pointer");
}

void check_integers(const char* name, const TensorView& tensor, int least_rank) {
  check_given(name, tensor, least_rank);
  if (tensor.dtype != DType::i32 && tensor.dtype != DType::i64)
    reject_layout(ErrorCode::dtype,
                  std::string(name) + ": expected i32 or i64, got " + name_of(tensor.dtype));
}

void check_block_length(int64_t length) {
  if (length < 1)
    reject_layout(ErrorCode::argument,
                  "a block length of " + std::to_string(length) + "; expected 1 or more");
}

int64_t integer_at(const TensorView& tensor, int64_t offset) {
  return tensor.dtype == DType::i32 ? static_cast<const int32_t*>(tensor.data)[offset]
                                    : static_cast<const int64_t*>(tensor.data)[offset];
}

int64_t stride_from_end(const TensorView& tensor, int from_end) {
  return tensor.strides[tensor.rank - from_end];
}
int64_t length_from_end(const TensorView& tensor, int from_end) {
  return tensor.shape[tensor.rank - from_end];
}

// The lists of a layout while they grow.
class Lists {
 public:
  void add(int64_t block) { indices_.push_back(block); }
  void end_row() { ends_.push_back(static_cast<int64_t>(indices_.size())); }

  // starts [..., rows + 1] and indices [n].
  void store(Shape leading, int64_t rows, Tensor& starts, Tensor& indices) const {
    std::vector<int64_t> dims(leading.begin(), leading.end());
    dims.push_back(rows + 1);
    starts = Tensor(DType::i64, dims);
    const auto to = starts.values<int64_t>();
    int64_t before = 0;
    for (size_t head = 0, at = 0; at < to.size(); ++head) {
      to[at++] = before;
      for (int64_t row = 0; row < rows; ++row)
        to[at++] = before = ends_[head * static_cast<size_t>(rows) + static_cast<size_t>(row)];
    }
    indices = Tensor(DType::i64, {static_cast<int64_t>(indices_.size())});
    std::copy(indices_.begin(), indices_.end(), indices.values<int64_t>().begin());
  }

 private:
  std::vector<int64_t> indices_, ends_;
};

class LayoutMaker {
 public:
  LayoutMaker(Shape leading, int64_t rows, int64_t query_block, int64_t key_block)
      : leading_(leading), rows_(rows) {
    layout_.query_block = query_block, layout_.key_block = key_block;
  }

  Lists full, partial;
  void end_row() { full.end_row(), partial.end_row(); }

  BlockLayout made() && {
    full.store(leading_, rows_, layout_.starts, layout_.indices);
    partial.store(leading_, rows_, layout_.partial_starts, layout_.partial_indices);
    return std::move(layout_);
  }

  // Calls visit(index in the leading dimensions) for each head, in row-major order.
  template <class Visit>
  void for_each_head(const Visit& visit) const {
    std::vector<int64_t> index(leading_.size(), 0);
    for (int64_t left = element_count(leading_); left > 0; --left) {
      visit(Shape(index));
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < leading_[d]) break;
        index[d] = 0;
      }
    }
  }

 private:
  Shape leading_;
  int64_t rows_;
  BlockLayout layout_;
};

// The offset of a head's part, whose last `own` dimensions are not leading.
int64_t offset_of_head(const TensorView& tensor, Shape index) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * tensor.strides[d];
  return at;
}

Shape leading_of(const TensorView& tensor, int own) {
  return tensor.dims().first(static_cast<size_t>(tensor.rank - own));
}

// Adds to counts[b] how many of the keys of block b are true in a row: any byte but 0 is, as for
// Boolean.
void count_true(const unsigned char* row, int64_t k_len, int64_t step, int64_t key_block,
                std::vector<int64_t>& counts) {
  for (size_t b = 0; b < counts.size(); ++b) {
    const int64_t begin = static_cast<int64_t>(b) * key_block;
    const int64_t end = k_len - begin < key_block ? k_len : begin + key_block;
    for (int64_t j = begin; j < end; ++j) counts[b] += row[j * step] != 0;
  }
}

// One of the two kinds of lists of a BlockMask.
class BlockMaskLists {
 public:
  BlockMaskLists(const char* kind, const TensorView& numbers, const TensorView& indices)
      : kind_(kind), numbers_(numbers), indices_(indices) {}

  // Checks that it has the rows and columns of `like` [..., rows, columns].
  void check(const TensorView& like) const {
    check_integers((kind_ + "num_blocks").c_str(), numbers_, 1);
    check_integers((kind_ + "indices").c_str(), indices_, 2);
    const bool fits = std::ranges::equal(indices_.dims(), like.dims()) &&
                      std::ranges::equal(numbers_.dims(), leading_of(indices_, 1));
    if (!fits)
      reject_layout(ErrorCode::shape,
                    kind_ + "num_blocks of shape " + to_string(numbers_.dims()) + " and " + kind_ +
                        "indices of shape " + to_string(indices_.dims()) +
                        "; expected [..., rows] and [..., rows, columns], the same for all lists");
  }

  // The blocks of a row, in increasing order. `listed` [columns]: which blocks the row has already.
  std::vector<int64_t> row(Shape head, int64_t row, std::vector<bool>& listed) const {
    const int64_t columns = length_from_end(indices_, 1);
    const int64_t count =
        integer_at(numbers_, offset_of_head(numbers_, head) + row * stride_from_end(numbers_, 1));
    if (count < 0 || count > columns)
      reject_layout(ErrorCode::argument, kind_ + "num_blocks has " + std::to_string(count) +
                                             " in row " + std::to_string(row) + "; expected 0 to " +
                                             std::to_string(columns));
    std::vector<int64_t> blocks;
    const int64_t begin = offset_of_head(indices_, head) + row * stride_from_end(indices_, 2);
    for (int64_t n = 0; n < count; ++n) {
      const int64_t block = integer_at(indices_, begin + n * stride_from_end(indices_, 1));
      if (block < 0 || block >= columns)
        reject_layout(ErrorCode::argument, kind_ + "indices has " + std::to_string(block) +
                                               " in row " + std::to_string(row) +
                                               "; expected 0 to " + std::to_string(columns - 1));
      if (listed[static_cast<size_t>(block)])
        reject_layout(ErrorCode::argument, kind_ + "indices: row " + std::to_string(row) +
                                               " lists block " + std::to_string(block) + " twice");
      listed[static_cast<size_t>(block)] = true;
      blocks.push_back(block);
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  }

 private:
  std::string kind_;  // the beginning of the tensors' names
  const TensorView &numbers_, &indices_;
};

}  // namespace

BlockLayout layout_of_pairs(const TensorView& allowed, int64_t query_block, int64_t key_block) {
  check_given("allowed", allowed, 2);
  if (allowed.dtype != DType::boolean)
    reject_layout(ErrorCode::dtype,
                  std::string("allowed: expected bool, got ") + name_of(allowed.dtype));
  check_block_length(query_block), check_block_length(key_block);
  const int64_t q_len = length_from_end(allowed, 2), k_len = length_from_end(allowed, 1);
  const int64_t rows = blocks_of(q_len, query_block), blocks = blocks_of(k_len, key_block);
  LayoutMaker maker(leading_of(allowed, 2), rows, query_block, key_block);
  std::vector<int64_t> counts(static_cast<size_t>(blocks));
  maker.for_each_head([&](Shape head) {
    const int64_t at = offset_of_head(allowed, head);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row * query_block, queries = std::min(query_block, q_len - first);
      std::fill(counts.begin(), counts.end(), 0);
      for (int64_t i = first; i < first + queries; ++i)
        count_true(
            static_cast<const unsigned char*>(allowed.data) + at + i * stride_from_end(allowed, 2),
            k_len, stride_from_end(allowed, 1), key_block, counts);
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t count = counts[static_cast<size_t>(b)];
        const int64_t pairs = queries * std::min(key_block, k_len - b * key_block);
        if (count > 0) (count == pairs ? maker.full : maker.partial).add(b);
      }
      maker.end_row();
    }
  });
  return std::move(maker).made();
}

BlockLayout layout_of_block_mask(const BlockMaskTensors& tensors) {
  check_block_length(tensors.query_block), check_block_length(tensors.key_block);
  const BlockMaskLists partial("kv_", tensors.kv_num_blocks, tensors.kv_indices);
  const BlockMaskLists full("full_kv_", tensors.full_kv_num_blocks, tensors.full_kv_indices);
  const bool has_full = tensors.full_kv_num_blocks.defined() || tensors.full_kv_indices.defined();
  partial.check(tensors.kv_indices);
  if (has_full) full.check(tensors.kv_indices);
  const int64_t rows = length_from_end(tensors.kv_indices, 2);
  const auto columns = static_cast<size_t>(length_from_end(tensors.kv_indices, 1));
  LayoutMaker maker(leading_of(tensors.kv_indices, 2), rows, tensors.query_block,
                    tensors.key_block);
  maker.for_each_head([&](Shape head) {
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<bool> listed(columns);
      for (const int64_t block : partial.row(head, row, listed)) maker.partial.add(block);
      if (has_full)
        for (const int64_t block : full.row(head, row, listed)) maker.full.add(block);
      maker.end_row();
    }
  });
  return std::move(maker).made();
}

BlockLayout layout_of_bigbird(const TensorView& random_blocks, int64_t block) {
  check_integers("random_blocks", random_blocks, 2);
  check_block_length(block);
  const int64_t blocks = length_from_end(random_blocks, 2) + 2;
  LayoutMaker maker(leading_of(random_blocks, 2), blocks, block, block);
  maker.for_each_head([&](Shape head) {
    const int64_t at = offset_of_head(random_blocks, head);
    for (int64_t row = 0; row < blocks; ++row) {
      const bool whole = row == 0 || row == blocks - 1;
      std::vector<bool> attended(static_cast<size_t>(blocks), whole);
      for (const int64_t b : {int64_t{0}, row - 1, row, row + 1, blocks - 1})
        if (b >= 0 && b < blocks) attended[static_cast<size_t>(b)] = true;
      for (int64_t n = 0; !whole && n < length_from_end(random_blocks, 1); ++n) {
        const int64_t b =
            integer_at(random_blocks, at + (row - 1) * stride_from_end(random_blocks, 2) +
                                          n * stride_from_end(random_blocks, 1));
        if (b < 0 || b >= blocks)
          reject_layout(ErrorCode::argument, "random_blocks has " + std::to_string(b) +
                                                 " for row " + std::to_string(row) +
                                                 "; expected 0 to " + std::to_string(blocks - 1));
        attended[static_cast<size_t>(b)] = true;
      }
      for (int64_t b = 0; b < blocks; ++b)
        if (attended[static_cast<size_t>(b)]) maker.full.add(b);
      maker.end_row();
    }
  });
  return std::move(maker).made();
}

}  // namespace rapt
