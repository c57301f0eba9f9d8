#pragma once
// A mask from a function (query, key, head) -> bool. The function is evaluated for every pair when
// the mask is made; calls only read the answers.
//
//   const rapt::PredicateMask mask(
//       [](int64_t i, int64_t j, int64_t) { return j <= i && (i - j) % 3 == 0; },
//       {.q_len = 4096, .k_len = 4096});
//
// Cost: heads x q_len x k_len evaluations, shared by the threads of the context. The answers are
// kept by blocks of 64 x 64 pairs: 512 bytes for a block that is neither empty nor full. A mask of
// your own that computes its answers needs neither (docs/your_own.md).
#include <exception>
#include <type_traits>
#include <vector>

#include "rapt/context.h"
#include "rapt/mask/mask.h"

namespace rapt {

// The calls that a mask is made for, and how its function is evaluated.
struct PredicateSizes {
  // Those of the calls that the mask is for. In packed calls: of all sequences together; the
  // function gets positions within a sequence, and all sequences have the same pairs.
  int64_t q_len = 0;
  int64_t k_len = 0;  // the same of keys
  // 1: one answer for all heads, and the function gets head 0. Otherwise the last leading dimension
  // of the calls, and the function gets the index there.
  int64_t heads = 1;
  // Evaluates the function twice and throws where the answers differ. A function must be pure,
  // which nothing can prove.
  bool twice = false;
};

template <class F>
concept PairPredicate = std::is_invocable_r_v<bool, const F&, int64_t, int64_t, int64_t>;

class PredicateMask final : public Mask {
 public:
  // Evaluates allowed(query, key, head) for every pair, on several threads at once. The function is
  // not kept.
  // Throws Error(argument) for negative sizes, for a function that throws and for one whose answers
  // differ, Error(overflow), Error(cancelled), std::bad_alloc.
  template <PairPredicate F>
  PredicateMask(const F& allowed, const PredicateSizes& sizes, const Context& context = {})
      : PredicateMask(Function{&allowed, &evaluate<F>}, sizes, context) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  // Throws Error(shape) for other lengths and heads than those given.
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  KeyRange next_run(const BoundMask& bound, Positions queries,
                    int64_t from) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;

 private:
  friend class PredicateRow;

  // The pairs of at most 64 queries and 64 keys.
  struct Tile {
    int64_t head, query, queries, key, keys;
  };
  struct Function {
    const void* object;
    // Writes bit i of bits[j]: may query i attend to key j? Throws Error(argument).
    void (*evaluate)(const void* object, const Tile& tile, uint64_t* bits);
  };
  // Consecutive blocks of a row that are all full, or all partial.
  struct Run {
    int64_t begin, end;
    int64_t words;  // of the first block, 64 per block; -1: full
  };
  struct Row {  // 64 queries of a head
    std::vector<Run> runs;
    std::vector<uint64_t> words;
  };

  PredicateMask(Function function, const PredicateSizes& sizes, const Context& context);
  void make_row(const Function& function, bool twice, const Context& context, int64_t row);

  template <class F>
  static void evaluate(const void* object, const Tile& tile, uint64_t* bits) {
    const F& allowed = *static_cast<const F*>(object);
    int64_t i = 0, j = 0;
    try {
      for (j = 0; j < tile.keys; ++j) {
        uint64_t word = 0;
        for (i = 0; i < tile.queries; ++i)
          word |= uint64_t{bool(allowed(tile.query + i, tile.key + j, tile.head))} << i;
        bits[j] = word;
      }
    } catch (const std::exception& error) {
      fail_at(tile, i, j, error.what());
    } catch (...) {
      fail_at(tile, i, j, "an exception of a type of its own");
    }
  }
  [[noreturn]] static void fail_at(const Tile& tile, int64_t i, int64_t j, const char* what);

  int64_t q_len_, k_len_, heads_;
  std::vector<Row> rows_;  // [heads][rows of 64 queries]
};

}  // namespace rapt
