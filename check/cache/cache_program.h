#pragma once
// Random programs of a KeyValueCache: appends of every form, truncations, clears and sharing,
// compared with a plain model after every step.
#include <cstdint>
#include <functional>
#include <optional>

#include "check/cache/cache_model.h"
#include "check/tensors/arrays.h"
#include "rapt/key_value_cache.h"

namespace check {

class CacheProgram {
 public:
  // A choice in [0, count).
  using Choose = std::function<int64_t(int64_t count)>;

  // Chooses the kind of the cache, its sizes and where its memory is.
  explicit CacheProgram(Choose choose);

  // One change, and the comparison of all sequences that it may concern. Throws std::logic_error
  // for a difference, also in whether the cache accepts the change.
  void step();

  const rapt::KeyValueCache& cache() const { return *cache_; }
  // The keys or values that a sequence should hold, [num_kv_heads, length, dim].
  Tensor keys(int64_t sequence) const;
  Tensor values(int64_t sequence) const;

 private:
  enum class Side : uint8_t { key, value };

  void make_cache();
  void append_to_all();
  void append_to_one();
  void append_packed();
  void truncate_one();
  void clear_some();
  void share_one();
  void append(const CacheModel& after, const std::function<void()>& call);

  int64_t dim(Side side) const;
  // The rows of the tokens [num_kv_heads, tokens, dim].
  Tensor rows_of(Side side, const std::vector<int64_t>& tokens) const;
  // Rows [sequences, num_kv_heads, n, dim] of the tokens from first on, in any layout.
  Strided new_rows(Side side, int64_t sequences, int64_t n, int64_t first);
  void compare(int64_t sequence) const;
  void compare_rows(Side side, int64_t sequence) const;

  Choose choose_;
  rapt::KeyValueCacheOptions options_;
  Tensor keys_, values_;  // the caller's memory, if the cache has none of its own
  std::optional<rapt::KeyValueCache> cache_;
  std::optional<CacheModel> model_;
  int64_t next_token_ = 0;
};

}  // namespace check
