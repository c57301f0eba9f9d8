// Masks from functions. Bound: values[0] = the first row of the head.
#include "rapt/predicate_mask.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

#include "mask/block_rows.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt {

// 64 queries are a word of bits, and 64 keys a block of 512 bytes.
constexpr int64_t kSide = 64;

// Operations that an evaluation is counted as, for the choice of threads: the time of a comparison
// or two behind a call.
constexpr double kWorkOfPair = 8;

class PredicateRow {  // what block_rows.h asks of a row
 public:
  using Run = PredicateMask::Run;

  PredicateRow(const PredicateMask& mask, const BoundMask& bound, int64_t row) noexcept
      : row_(mask.rows_[static_cast<size_t>(bound.values[0] + row)]) {}

  KeyRange next(int64_t from) const noexcept {
    const Run* const run = first_run(from);
    return run == end_of_runs() ? KeyRange{0, 0} : KeyRange{std::max(from, run->begin), run->end};
  }
  int64_t end() const noexcept { return row_.runs.empty() ? 0 : row_.runs.back().end; }

  // The first run that ends behind a block.
  const Run* first_run(int64_t from) const noexcept {
    return std::partition_point(row_.runs.data(), end_of_runs(),
                                [from](const Run& run) { return run.end <= from; });
  }
  const Run* end_of_runs() const noexcept { return row_.runs.data() + row_.runs.size(); }

  // The queries of the row that may attend to a key of a partial run.
  uint64_t word(const Run& run, int64_t key) const noexcept {
    return row_.words[static_cast<size_t>(run.words + key - run.begin * kSide)];
  }

 private:
  const PredicateMask::Row& row_;
};

namespace {

// Of the `queries` of a tile, those in one row: which queries of the tile they are, and which bits
// of the row's words are theirs.
class RowQueries {
 public:
  RowQueries(Positions queries, const TileRow& row) noexcept
      : step_(queries.step),
        begin_(row.begin),
        end_(row.end),
        bit_(queries[row.begin] - row.row * kSide) {}
  uint64_t all() const noexcept { return low_bits(end_) & ~low_bits(begin_); }
  // The bits of a word of the row, moved to the queries of the tile.
  uint64_t moved(uint64_t word) const noexcept {
    if (step_ == 1) return (word >> bit_ << begin_) & all();
    uint64_t bits = 0;
    for (int64_t i = begin_, bit = bit_; i < end_; ++i, bit += step_)
      bits |= (word >> bit & 1) << i;
    return bits;
  }

 private:
  int64_t step_, begin_, end_, bit_;
};

BlockGrid words_of(const BoundMask& bound) noexcept { return {kSide, kSide, 0, bound.k_len}; }

template <class Answer>
auto answer_by_words(const PredicateMask& mask, const BoundMask& bound, Positions queries,
                     const Answer& answer) noexcept {
  const BlockGrid grid = words_of(bound);
  const auto row_at = [&](int64_t row) noexcept { return PredicateRow(mask, bound, row); };
  return answer(BlockRows(grid, queries, row_at));
}

// The error of the first task that failed, whichever failed first: all tasks before it run.
class FirstError {
 public:
  bool is_behind(int64_t task) const noexcept { return task > task_.load(); }
  void keep(int64_t task) noexcept {
    const std::lock_guard lock(mutex_);
    if (task >= task_.load()) return;
    task_ = task;
    error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<int64_t> task_{INT64_MAX};
  std::mutex mutex_;
  std::exception_ptr error_;
};

int64_t checked_rows(const PredicateSizes& sizes, size_t most_rows) {
  const auto reject = [](ErrorCode code, const std::string& what) {
    throw Error(code, "mask of a predicate: " + what);
  };
  if (sizes.q_len < 0 || sizes.k_len < 0 || sizes.heads < 0)
    reject(ErrorCode::argument,
           "q_len = " + std::to_string(sizes.q_len) + ", k_len = " + std::to_string(sizes.k_len) +
               ", heads = " + std::to_string(sizes.heads) + "; expected 0 or more");
  int64_t pairs = 0;
  if (__builtin_mul_overflow(sizes.q_len, sizes.k_len, &pairs) ||
      __builtin_mul_overflow(pairs, sizes.heads, &pairs))
    reject(ErrorCode::overflow, std::to_string(sizes.heads) + " heads of " +
                                    std::to_string(sizes.q_len) + " queries and " +
                                    std::to_string(sizes.k_len) +
                                    " keys; expected a number of pairs below 2^63");
  if (sizes.k_len == 0) return 0;                                    // nothing to keep
  const int64_t rows = sizes.heads * blocks_of(sizes.q_len, kSide);  // at most the pairs
  if (static_cast<size_t>(rows) > most_rows)
    reject(ErrorCode::overflow, std::to_string(sizes.heads) + " heads of " +
                                    std::to_string(sizes.q_len) + " queries; expected at most " +
                                    std::to_string(most_rows) + " rows of " +
                                    std::to_string(kSide) + " queries");
  return rows;
}

}  // namespace

const Declaration PredicateMask::kDeclaration = {
    "predicate", "a query attends to the keys that a function allows", "PyTorch FlexAttention", {}};

PredicateMask::PredicateMask(Function function, const PredicateSizes& sizes, const Context& context)
    : q_len_(sizes.q_len), k_len_(sizes.k_len), heads_(sizes.heads) {
  const int64_t rows = checked_rows(sizes, rows_.max_size());
  rows_.resize(static_cast<size_t>(rows));
  const double pairs = static_cast<double>(q_len_) * static_cast<double>(k_len_) *
                       static_cast<double>(heads_) * (sizes.twice ? 2 : 1);
  const Workers workers(pairs * kWorkOfPair, context);
  FirstError error;
  TaskRun(context, rows)
      .run(rows, workers.of_tasks(rows), workers.to_executor(), [&](int64_t row, int) noexcept {
        if (error.is_behind(row)) return;
        try {
          make_row(function, sizes.twice, context, row);
        } catch (...) {
          error.keep(row);
        }
      });
  error.rethrow();
}

void PredicateMask::make_row(const Function& function, bool twice, const Context& context,
                             int64_t row) {
  const int64_t rows = blocks_of(q_len_, kSide), first = row % rows * kSide;
  Tile tile{row / rows, first, std::min(kSide, q_len_ - first), 0, 0};
  Row made;
  for (int64_t block = 0; block * kSide < k_len_; ++block) {
    if (context.cancel && context.cancel->cancelled()) return;
    tile.key = block * kSide, tile.keys = std::min(kSide, k_len_ - tile.key);
    uint64_t bits[kSide], again[kSide];
    function.evaluate(function.object, tile, bits);
    if (twice) {
      function.evaluate(function.object, tile, again);
      for (int64_t j = 0; j < tile.keys; ++j)
        if (bits[j] != again[j]) fail_at(tile, std::countr_zero(bits[j] ^ again[j]), j, nullptr);
    }
    uint64_t any = 0, all = low_bits(tile.queries);
    for (int64_t j = 0; j < tile.keys; ++j) any |= bits[j], all &= bits[j];
    if (any == 0) continue;
    const bool full = all == low_bits(tile.queries);
    const bool joined =
        !made.runs.empty() && made.runs.back().end == block && (made.runs.back().words < 0) == full;
    if (joined)
      ++made.runs.back().end;
    else
      made.runs.push_back({block, block + 1, full ? -1 : static_cast<int64_t>(made.words.size())});
    if (!full) {
      made.words.insert(made.words.end(), bits, bits + tile.keys);
      made.words.resize((made.words.size() + kSide - 1) / kSide * kSide);
    }
  }
  made.runs.shrink_to_fit(), made.words.shrink_to_fit();
  rows_[static_cast<size_t>(row)] = std::move(made);
}

void PredicateMask::fail_at(const Tile& tile, int64_t i, int64_t j, const char* what) {
  const std::string pair = "query " + std::to_string(tile.query + i) + ", key " +
                           std::to_string(tile.key + j) + ", head " + std::to_string(tile.head);
  throw Error(ErrorCode::argument,
              what ? "the predicate of a mask threw for " + pair + ": " + what
                   : "the predicate of a mask answered differently the second time for " + pair +
                         "; expected a function that depends on its arguments alone");
}

void PredicateMask::check(Shape leading, int64_t q_len, int64_t k_len) const {
  const bool fits = q_len == q_len_ && k_len == k_len_ &&
                    (heads_ == 1 || (!leading.empty() && leading.back() == heads_));
  if (!fits)
    throw Error(ErrorCode::shape, "a mask of a predicate for " + std::to_string(q_len_) +
                                      " queries, " + std::to_string(k_len_) + " keys and " +
                                      std::to_string(heads_) + " heads in a call of " +
                                      std::to_string(q_len) + " queries, " + std::to_string(k_len) +
                                      " keys and leading dimensions " + to_string(leading) +
                                      "; make one for these lengths");
}

void PredicateMask::bind(const Head& head, BoundMask* bound) const noexcept {
  const int64_t index = heads_ == 1 ? 0 : head.index[head.rank - 1];
  bound->values[0] = index * blocks_of(q_len_, kSide);
}

KeyRange PredicateMask::key_range(const BoundMask& bound, Positions queries) const noexcept {
  if (k_len_ == 0) return {0, 0};
  return answer_by_words(*this, bound, queries, [](const auto& rows) { return rows.key_range(); });
}

KeyRange PredicateMask::next_run(const BoundMask& bound, Positions queries,
                                 int64_t from) const noexcept {
  if (k_len_ == 0) return {0, 0};
  return answer_by_words(*this, bound, queries,
                         [&](const auto& rows) { return rows.next_run(from); });
}

Cover PredicateMask::cover(const BoundMask& bound, Positions queries,
                           Positions keys) const noexcept {
  const Cover blocks =
      answer_by_words(*this, bound, queries, [&](const auto& rows) { return rows.cover(keys); });
  if (blocks != Cover::all) return blocks;
  // All blocks are attended to; some of them may be partial.
  const int64_t begin = keys.start / kSide, end = keys.last() / kSide + 1;
  const BlockGrid grid = words_of(bound);
  for (TileRow at = grid.row_at(queries, 0); at.begin < queries.count;
       at = grid.row_at(queries, at.end)) {
    const PredicateRow of_row(*this, bound, at.row);
    for (const Run* run = of_row.first_run(begin); run != of_row.end_of_runs() && run->begin < end;
         ++run)
      if (run->words >= 0) return Cover::some;
  }
  return Cover::all;
}

void PredicateMask::exclude(const BoundMask& bound, Positions queries, Positions keys,
                            uint64_t* bits) const noexcept {
  const BlockGrid grid = words_of(bound);
  for (int64_t j = 0; j < keys.count;) {  // one block of keys after the other
    const int64_t block = keys[j] / kSide;
    const int64_t end =
        std::min(keys.count, queries_before((block + 1) * kSide - keys.start, keys));
    uint64_t seen[kSide] = {};
    for (TileRow at = grid.row_at(queries, 0); at.begin < queries.count;
         at = grid.row_at(queries, at.end)) {
      const PredicateRow of_row(*this, bound, at.row);
      const Run* run = of_row.first_run(block);
      if (run == of_row.end_of_runs() || run->begin > block) continue;
      const RowQueries of_tile(queries, at);
      for (int64_t k = j; k < end; ++k)
        seen[k - j] |= run->words < 0 ? of_tile.all() : of_tile.moved(of_row.word(*run, keys[k]));
    }
    for (int64_t k = j; k < end; ++k) bits[k] &= seen[k - j];
    j = end;
  }
}

}  // namespace rapt
