#include "check/compare/drawn_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace check {
namespace {

// i32 or i64.
Tensor drawn_integers(Random& random, const Dims& dims, const Dims& values) {
  Tensor tensor(random.chance(0.5) ? DType::i32 : DType::i64, dims);
  if (tensor.dtype() == DType::i64)
    std::ranges::copy(values, tensor.values<int64_t>().begin());
  else
    std::ranges::transform(values, tensor.values<int32_t>().begin(),
                           [](int64_t x) { return static_cast<int32_t>(x); });
  return tensor;
}

// The rows of a dense tensor [first, ..., rows, dim].
class DenseRows {
 public:
  explicit DenseRows(const TensorView& t)
      : data_(static_cast<std::byte*>(t.data)),
        rows_(t.shape[t.rank - 2]),
        bytes_(t.shape[t.rank - 1] * rapt::size_of(t.dtype)) {
    for (int d = 1; d < t.rank - 2; ++d) matrices_ *= t.shape[d];
  }

  int64_t matrices() const { return matrices_; }  // of one entry of the first dimension
  size_t bytes() const { return static_cast<size_t>(bytes_); }
  std::byte* at(int64_t first, int64_t matrix, int64_t row) const {
    return data_ + ((first * matrices_ + matrix) * rows_ + row) * bytes_;
  }

 private:
  std::byte* data_;
  int64_t rows_, bytes_, matrices_ = 1;
};

// Copies a row of all matrices.
void copy_rows(const DenseRows& from, int64_t from_first, int64_t from_row, const DenseRows& to,
               int64_t to_first, int64_t to_row) {
  if (from.bytes() == 0) return;
  for (int64_t m = 0; m < from.matrices(); ++m)
    std::memcpy(to.at(to_first, m, to_row), from.at(from_first, m, from_row), from.bytes());
}

Dims dims_with(const Tensor& tensor, int64_t first, int64_t rows) {
  Dims dims(tensor.dims().begin(), tensor.dims().end());
  dims.front() = first;
  dims[dims.size() - 2] = rows;
  return dims;
}

}  // namespace

DrawnCache::DrawnCache(Random& random, const CacheSpec& spec, int64_t sequences, int64_t capacity)
    : sequences_(sequences),
      capacity_(capacity),
      page_keys_(spec.page_keys > 0 ? spec.page_keys : capacity) {
  draw_lengths(random);
  starts_.assign(static_cast<size_t>(sequences), 0);
  if (spec.circular) {
    for (int64_t& start : starts_) start = random.between(0, capacity - 1);
    starts = drawn_integers(random, {sequences}, starts_);
  }
  if (spec.page_keys > 0) {
    draw_table(random, spec.shared);
    draw_block_table(random);
  } else {
    pages_ = sequences;
    table_.resize(static_cast<size_t>(sequences));
    std::iota(table_.begin(), table_.end(), int64_t{0});
  }
}

void DrawnCache::draw_lengths(Random& random) {
  for (int64_t s = 0; s < sequences_; ++s) {
    const double kind = random.uniform();
    lengths_.push_back(kind < 0.15 ? 0 : kind < 0.4 ? capacity_ : random.between(0, capacity_));
  }
  lengths = drawn_integers(random, {sequences_}, lengths_);
}

void DrawnCache::draw_table(Random& random, bool shared) {
  const int64_t columns = capacity_ / page_keys_;
  const int64_t common = shared ? random.between(1, columns) : 0, own = columns - common;
  pages_ = common + sequences_ * own + random.between(0, kMostUnusedPages);
  const Dims pages = random.permutation(pages_);
  for (int64_t s = 0; s < sequences_; ++s)
    for (int64_t column = 0; column < columns; ++column)
      table_.push_back(pages[static_cast<size_t>(column < common ? column : column + s * own)]);
}

void DrawnCache::draw_block_table(Random& random) {
  const int64_t columns = capacity_ / page_keys_;
  std::vector<char> belongs(table_.size(), 0);
  for_each_key([&](int64_t s, int64_t j, int64_t, int64_t) {
    const int64_t slot = (starts_[static_cast<size_t>(s)] + j) % capacity_;
    belongs[static_cast<size_t>(s * columns + slot / page_keys_)] = 1;
  });
  Dims entries = table_;
  for (size_t i = 0; i < entries.size(); ++i)
    if (!belongs[i])
      entries[i] = random.pick<int64_t>({-1, -1, pages_, std::numeric_limits<int32_t>::max(),
                                         std::numeric_limits<int32_t>::min()});
  block_table = drawn_integers(random, {sequences_, columns}, entries);
}

template <class Visit>
void DrawnCache::for_each_key(const Visit& visit) const {
  const int64_t columns = capacity_ / page_keys_;
  for (int64_t s = 0; s < sequences_; ++s)
    for (int64_t j = 0; j < length(s); ++j) {
      const int64_t slot = (starts_[static_cast<size_t>(s)] + j) % capacity_;
      visit(s, j, table_[static_cast<size_t>(s * columns + slot / page_keys_)], slot % page_keys_);
    }
}

Tensor DrawnCache::stored(const Tensor& rows) const {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Tensor cache = filled(rows.dtype(), dims_with(rows, pages_, page_keys_), kNan);
  const DenseRows from(rows), to(cache);
  for_each_key([&](int64_t s, int64_t j, int64_t page, int64_t row) {
    copy_rows(from, s, j, to, page, row);
  });
  return cache;
}

Tensor DrawnCache::found(const Tensor& cache) const {
  Tensor rows = filled(cache.dtype(), dims_with(cache, sequences_, capacity_), 0);
  const DenseRows from(cache), to(rows);
  for_each_key([&](int64_t s, int64_t j, int64_t page, int64_t row) {
    copy_rows(from, page, row, to, s, j);
  });
  return rows;
}

Tensor DrawnCache::joined(const Tensor& rows) const {
  Dims dims = dims_with(rows, 1, std::reduce(lengths_.begin(), lengths_.end()));
  Tensor all(rows.dtype(), Dims(dims.begin() + 1, dims.end()));
  const DenseRows from(rows), to(TensorView(all.data(), all.dtype(), dims, false));
  int64_t begin = 0;
  for (int64_t s = 0; s < sequences_; begin += length(s++))
    for (int64_t j = 0; j < length(s); ++j) copy_rows(from, s, j, to, 0, begin + j);
  return all;
}

}  // namespace check
