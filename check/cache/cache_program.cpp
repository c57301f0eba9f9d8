#include "check/cache/cache_program.h"

#include <numeric>
#include <stdexcept>
#include <string>

#include "rapt/error.h"

namespace check {
namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(what);
}

// An element of a row, from -127 / 64 to 127 / 64: exact in every dtype.
double number_of(bool is_key, int64_t token, int64_t head, int64_t d) {
  uint64_t z = static_cast<uint64_t>(((token * 2 + is_key) * 64 + head) * 64 + d);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z ^= z >> 29;
  return (static_cast<double>(z % 255) - 127) / 64;
}

Tensor integers(const std::vector<int64_t>& numbers) {
  Tensor t(DType::i64, {static_cast<int64_t>(numbers.size())});
  std::copy(numbers.begin(), numbers.end(), t.values<int64_t>().begin());
  return t;
}

std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

int64_t integer_in(const TensorView& view, int64_t offset) {
  if (view.dtype == DType::i32) return static_cast<const int32_t*>(view.data)[offset];
  return static_cast<const int64_t*>(view.data)[offset];
}

// Where key j of sequence s lies, as cached_keys.h says.
struct KeyPlace {
  int64_t page, row;
};
KeyPlace place_of_key(const rapt::CacheViews& views, int64_t s, int64_t j) {
  const rapt::CachedKeys& cache = views.cache;
  const int64_t page_keys = views.key.shape[2];
  const int64_t columns = cache.block_table.defined() ? cache.block_table.shape[1] : 1;
  const int64_t start = cache.starts.defined() ? integer_in(cache.starts, s) : 0;
  const int64_t slot = (start + j) % (columns * page_keys);
  if (!cache.block_table.defined()) return {s, slot};
  return {integer_in(cache.block_table, s * columns + slot / page_keys), slot % page_keys};
}

}  // namespace

CacheProgram::CacheProgram(Choose choose) : choose_(std::move(choose)) {
  const DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  options_.sequences = 1 + choose_(4);
  options_.num_kv_heads = 1 + choose_(2);
  options_.capacity = 1 + choose_(24);
  options_.head_dim = 1 + choose_(4);
  options_.value_dim = 1 + choose_(4);
  options_.dtype = dtypes[choose_(4)];
  const int64_t kind = choose_(4);
  if (kind == 1) options_.end = rapt::CacheEnd::circular;
  if (kind > 1) {
    options_.page_keys = 1 + choose_(5);
    options_.pages = 1 + choose_(12);
    options_.capacity = choose_(1 + options_.page_keys * options_.pages);
  }
  make_cache();
  options_ = cache_->options();
  model_.emplace(options_);
}

// In memory of its own, in [pages, page_keys, num_kv_heads, dim], or with keys and values by turns.
void CacheProgram::make_cache() {
  const bool paged = options_.page_keys > 0;
  const int64_t pages = paged ? options_.pages : options_.sequences;
  const int64_t page_keys = paged ? options_.page_keys : options_.capacity;
  switch (choose_(3)) {
    case 0:
      cache_.emplace(options_);
      break;
    case 1: {
      keys_ =
          filled(options_.dtype, {pages, page_keys, options_.num_kv_heads, options_.head_dim}, 100);
      values_ = filled(options_.dtype,
                       {pages, page_keys, options_.num_kv_heads, options_.value_dim}, 100);
      cache_.emplace(options_, keys_.view().transposed(1, 2), values_.view().transposed(1, 2));
      break;
    }
    default: {
      options_.value_dim = options_.head_dim;
      keys_ = filled(options_.dtype,
                     {pages, 2, options_.num_kv_heads, page_keys, options_.head_dim}, 100);
      const auto half = [&](int64_t i) {
        const TensorView both = keys_.view().slice(1, i, i + 1);
        TensorView view = both;
        view.rank = 4;
        for (int d = 1; d < 4; ++d)
          view.shape[d] = both.shape[d + 1], view.strides[d] = both.strides[d + 1];
        return view;
      };
      cache_.emplace(options_, half(0), half(1));
    }
  }
}

void CacheProgram::step() {
  switch (choose_(10)) {
    case 0:
    case 1:
    case 2:
      append_to_all();
      break;
    case 3:
    case 4:
      append_to_one();
      break;
    case 5:
      append_packed();
      break;
    case 6:
      truncate_one();
      break;
    case 7:
      clear_some();
      break;
    default:
      share_one();
  }
  for (int64_t s = 0; s < options_.sequences; ++s) compare(s);
  require(cache_->pages_in_use() == model_->pages_in_use(), "other pages in use");
  require(cache_->pages_free() == options_.pages - cache_->pages_in_use(), "pages are lost");
}

// The cache takes rows exactly if the model with them is a state that it may be in.
void CacheProgram::append(const CacheModel& after, const std::function<void()>& call) {
  bool taken = true;
  try {
    call();
  } catch (const rapt::Error&) {
    taken = false;
  }
  require(taken == after.fits(), taken ? "rows that do not fit are taken" : "rows are rejected");
  if (taken) model_ = after;
}

void CacheProgram::append_to_all() {
  const int64_t n = choose_(5), first = next_token_;
  const bool counts_given = choose_(2) == 1;
  next_token_ += options_.sequences * n;
  CacheModel after = *model_;
  std::vector<int64_t> counts;
  for (int64_t s = 0; s < options_.sequences; ++s) {
    counts.push_back(counts_given ? choose_(n + 1) : n);
    after.append(s, first + s * n, counts.back());
  }
  const Strided key = new_rows(Side::key, options_.sequences, n, first);
  const Strided value = new_rows(Side::value, options_.sequences, n, first);
  const Tensor given = counts_given ? integers(counts) : Tensor();
  append(after, [&] { cache_->append(key, value, given); });
}

// Also of more rows than the capacity.
void CacheProgram::append_to_one() {
  const int64_t s = choose_(options_.sequences), n = choose_(2 + options_.capacity);
  const int64_t first = next_token_;
  next_token_ += n;
  CacheModel after = *model_;
  after.append(s, first, n);
  const Tensor key = rows_of(Side::key, counted(first, n));
  const Tensor value = rows_of(Side::value, counted(first, n));
  append(after, [&] { cache_->append(s, key, value); });
}

void CacheProgram::append_packed() {
  const int64_t first = next_token_;
  CacheModel after = *model_;
  std::vector<int64_t> starts = {0};
  for (int64_t s = 0; s < options_.sequences; ++s) {
    const int64_t count = choose_(4);
    after.append(s, next_token_, count);
    next_token_ += count;
    starts.push_back(starts.back() + count);
  }
  const Tensor key = rows_of(Side::key, counted(first, starts.back()));
  const Tensor value = rows_of(Side::value, counted(first, starts.back()));
  append(after, [&] { cache_->append_packed(key, value, integers(starts)); });
}

void CacheProgram::truncate_one() {
  const int64_t s = choose_(options_.sequences), length = choose_(model_->length(s) + 1);
  cache_->truncate(s, length);
  model_->truncate(s, length);
}

void CacheProgram::clear_some() {
  if (choose_(8) == 0) {
    cache_->clear();
    for (int64_t s = 0; s < options_.sequences; ++s) model_->clear(s);
    return;
  }
  const int64_t s = choose_(options_.sequences);
  cache_->clear(s);
  model_->clear(s);
}

// Clears the sequence that shares first, sometimes.
void CacheProgram::share_one() {
  const int64_t from = choose_(options_.sequences), to = choose_(options_.sequences);
  if (from != to && choose_(4) > 0) {
    cache_->clear(to);
    model_->clear(to);
  }
  const int64_t length = choose_(model_->length(from) + 1);
  const bool possible = options_.page_keys > 0 && model_->length(to) == 0;
  bool taken = true;
  try {
    cache_->share(from, to, length);
  } catch (const rapt::Error&) {
    taken = false;
  }
  require(taken == possible, "share() is taken or rejected wrongly");
  if (taken) model_->share(from, to, length);
}

int64_t CacheProgram::dim(Side side) const {
  return side == Side::key ? options_.head_dim : options_.value_dim;
}

Tensor CacheProgram::keys(int64_t sequence) const {
  return rows_of(Side::key, model_->tokens(sequence));
}
Tensor CacheProgram::values(int64_t sequence) const {
  return rows_of(Side::value, model_->tokens(sequence));
}

Tensor CacheProgram::rows_of(Side side, const std::vector<int64_t>& tokens) const {
  Tensor rows(options_.dtype,
              {options_.num_kv_heads, static_cast<int64_t>(tokens.size()), dim(side)});
  for_each_index(rows.dims(), [&](std::span<const int64_t> at) {
    set(rows, at, number_of(side == Side::key, tokens[static_cast<size_t>(at[1])], at[0], at[2]));
  });
  return rows;
}

Strided CacheProgram::new_rows(Side side, int64_t sequences, int64_t n, int64_t first) {
  Tensor rows(options_.dtype, {sequences, options_.num_kv_heads, n, dim(side)});
  for_each_index(rows.dims(), [&](std::span<const int64_t> at) {
    set(rows, at, number_of(side == Side::key, first + at[0] * n + at[2], at[1], at[3]));
  });
  return Strided(rows, static_cast<Layout>(choose_(kLayouts)));
}

void CacheProgram::compare(int64_t sequence) const {
  const rapt::CacheViews views = cache_->views();
  require(cache_->length(sequence) == model_->length(sequence) &&
              integer_in(views.cache.lengths, sequence) == model_->length(sequence),
          "another length");
  require(cache_->position(sequence) == model_->position(sequence), "another position");
  compare_rows(Side::key, sequence);
  compare_rows(Side::value, sequence);
}

void CacheProgram::compare_rows(Side side, int64_t sequence) const {
  const rapt::CacheViews views = cache_->views();
  const TensorView& rows = side == Side::key ? views.key : views.value;
  const std::vector<int64_t>& tokens = model_->tokens(sequence);
  for (int64_t j = 0; j < model_->length(sequence); ++j) {
    const KeyPlace place = place_of_key(views, sequence, j);
    require(place.page >= 0 && place.page < rows.shape[0], "a key without a page");
    for (int64_t h = 0; h < options_.num_kv_heads; ++h)
      for (int64_t d = 0; d < dim(side); ++d)
        require(element_at(rows, place.page * rows.strides[0] + h * rows.strides[1] +
                                     place.row * rows.strides[2] + d * rows.strides[3]) ==
                    number_of(side == Side::key, tokens[static_cast<size_t>(j)], h, d),
                "another row");
  }
}

}  // namespace check
