// Layouts of blocks as lists. Bound: values[0] = the offset of the head's starts.
#include "rapt/mask/blocks.h"

#include <string>

#include "mask/block_rows.h"
#include "mask/per_batch.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Blocks, &Blocks::query_block>("query_block", "queries of a row of blocks",
                                            {1, 9007199254740992.0}, {}, true),
    parameter<Blocks, &Blocks::key_block>("key_block", "keys of a block", {1, 9007199254740992.0},
                                          {}, true),
    parameter<Blocks, &Blocks::starts>(
        "starts", "int64 [..., rows + 1]: where the list of each row begins", kAnyNumber, {}, true),
    parameter<Blocks, &Blocks::indices>(
        "indices", "int64 [n]: the lists, one after the other: key blocks that the row attends to",
        kAnyNumber, {}, true),
};

constexpr const char* kExamples[] = {"64,64", "2,3", "5,1", "48,128"};

class List {  // elements of an int64 tensor, `stride` apart
 public:
  List(const TensorView& tensor, int64_t offset)
      : data_(static_cast<const int64_t*>(tensor.data)),
        offset_(offset),
        stride_(tensor.strides[tensor.rank - 1]) {}
  int64_t operator[](int64_t i) const noexcept { return data_[offset_ + i * stride_]; }

 private:
  const int64_t* data_;  // not advanced: it is null if the tensor has no element
  int64_t offset_, stride_;
};

class BlockRow {  // the list of a row
 public:
  BlockRow(const Blocks& mask, const BoundMask& bound, int64_t row) noexcept
      : indices_(mask.indices, 0) {
    const List starts(mask.starts, bound.values[0]);
    begin_ = starts[row], end_ = starts[row + 1];
  }

  KeyRange next(int64_t from) const noexcept {
    const int64_t at = place_of(indices_, begin_, end_, from);
    if (at == end_) return {0, 0};
    return {indices_[at], indices_[at] + end_of_run(indices_, at, end_) - at};
  }

  int64_t end() const noexcept { return begin_ == end_ ? 0 : indices_[end_ - 1] + 1; }

 private:
  List indices_;
  int64_t begin_, end_;
};

// Calls answer(rows) with the rows of blocks that the queries touch.
template <class Answer>
auto answer_by_lists(const Blocks& mask, const BoundMask& bound, Positions queries,
                     const Answer& answer) noexcept {
  const BlockGrid grid{mask.query_block, mask.key_block, 0, bound.k_len};
  const auto row_at = [&](int64_t row) noexcept { return BlockRow(mask, bound, row); };
  return answer(BlockRows(grid, queries, row_at));
}

[[noreturn]] void reject(ErrorCode code, const std::string& what) {
  throw Error(code, "mask blocks: " + what);
}

// The lists of one head.
void check_lists(const List& starts, int64_t rows, const List& indices, int64_t listed,
                 int64_t key_blocks) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = starts[row], end = starts[row + 1];
    if (begin < 0 || begin > end || end > listed)
      reject(ErrorCode::argument, "the list of row " + std::to_string(row) + " is [" +
                                      std::to_string(begin) + ", " + std::to_string(end) +
                                      ") of the indices; expected starts that never fall, from 0 "
                                      "to the number of indices, " +
                                      std::to_string(listed));
    int64_t before = -1;
    for (int64_t at = begin; at < end; before = indices[at++]) {
      if (indices[at] < 0 || indices[at] >= key_blocks)
        reject(ErrorCode::argument, "row " + std::to_string(row) + " lists key block " +
                                        std::to_string(indices[at]) + "; expected 0 to " +
                                        std::to_string(key_blocks - 1));
      if (indices[at] <= before)
        reject(ErrorCode::argument,
               "row " + std::to_string(row) + " lists key block " + std::to_string(indices[at]) +
                   " behind " + std::to_string(before) + "; expected blocks that go up, each once");
    }
  }
}

}  // namespace

const Declaration Blocks::kDeclaration = {
    "blocks", "a query attends to the key blocks that are listed for its block",
    "FlexAttention BlockMask; Child et al. 2019, arXiv:1904.10509", kParameters, kExamples};

void Blocks::check(Shape leading, int64_t q_len, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  check_per_batch("mask blocks: starts", starts, leading, 1);
  check_per_batch("mask blocks: indices", indices, {}, 1);
  const int64_t rows = blocks_of(q_len, query_block);
  if (starts.shape[starts.rank - 1] != rows + 1)
    reject(ErrorCode::shape, "starts of shape " + to_string(starts.dims()) + "; expected " +
                                 std::to_string(rows + 1) +
                                 " for each head: q_len = " + std::to_string(q_len) + " has " +
                                 std::to_string(rows) + " rows of " + std::to_string(query_block));
  if (starts.count() == 0) return;
  const List list(indices, 0);
  const int64_t listed = indices.shape[0], key_blocks = blocks_of(k_len, key_block);
  const auto visit = [&](const auto& self, int dim, int64_t at) -> void {
    if (dim == starts.rank - 1)
      return check_lists(List(starts, at), rows, list, listed, key_blocks);
    for (int64_t i = 0; i < starts.shape[dim]; ++i)
      self(self, dim + 1, at + i * starts.strides[dim]);
  };
  visit(visit, 0, 0);
}

void Blocks::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(starts, head, 1);
}

KeyRange Blocks::key_range(const BoundMask& bound, Positions queries) const noexcept {
  return answer_by_lists(*this, bound, queries, [](const auto& rows) { return rows.key_range(); });
}

KeyRange Blocks::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  return answer_by_lists(*this, bound, queries,
                         [&](const auto& rows) { return rows.next_run(from); });
}

Cover Blocks::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  return answer_by_lists(*this, bound, queries, [&](const auto& rows) { return rows.cover(keys); });
}

void Blocks::exclude(const BoundMask& bound, Positions queries, Positions keys,
                     uint64_t* bits) const noexcept {
  answer_by_lists(*this, bound, queries, [&](const auto& rows) { rows.exclude(keys, bits); });
}

}  // namespace rapt
