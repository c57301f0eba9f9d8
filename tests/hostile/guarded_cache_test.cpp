// Caches in protected memory: no row beyond a length, no row of a page that belongs to no sequence
// and no byte outside of lengths, starts and block table is read or written. Appends write the new
// rows alone.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "hostile/row_pages.h"
#include "rapt/key_value_cache.h"
#include "rapt/mask/causal.h"
#include "support/call.h"

namespace laws {
namespace {

using rapt::CacheEnd;
using rapt::CacheViews;
using rapt::KeyValueCache;
using rapt::KeyValueCacheOptions;
using Access = RowPages::Access;

constexpr Edge kEdges[] = {Edge::front, Edge::back};

int64_t entry_of(const TensorView& integers, int64_t i) {
  return integers.dtype == DType::i64 ? static_cast<const int64_t*>(integers.data)[i]
                                      : static_cast<const int32_t*>(integers.data)[i];
}

// Calls visit(page, row) for the place of every key, which cached_keys.h states.
void for_each_place(const rapt::CachedKeys& cache, int64_t page_keys,
                    const std::function<void(int64_t, int64_t)>& visit) {
  const bool paged = cache.block_table.defined();
  const int64_t columns = paged ? cache.block_table.shape[1] : 1;
  for (int64_t s = 0; s < cache.lengths.shape[0]; ++s)
    for (int64_t j = 0; j < entry_of(cache.lengths, s); ++j) {
      const int64_t start = cache.starts.defined() ? entry_of(cache.starts, s) : 0;
      const int64_t slot = (start + j) % (columns * page_keys);
      visit(paged ? entry_of(cache.block_table, s * columns + slot / page_keys) : s,
            slot % page_keys);
    }
}

Dims dims_of_view(const TensorView& view) { return {view.dims().begin(), view.dims().end()}; }

// The same cache with every row in pages of its own, of which only those of keys can be read.
std::unique_ptr<RowPages> only_keys(const TensorView& dense, const rapt::CachedKeys& cache,
                                    Edge edge) {
  auto pages = std::make_unique<RowPages>(dense.dtype, dims_of_view(dense), edge);
  for_each_place(cache, dense.shape[dense.rank - 2], [&](int64_t page, int64_t row) {
    pages->allow(page, row, Access::write);
    pages->copy_row(dense, page, row);
    pages->allow(page, row, Access::read);
  });
  return pages;
}

// A view in guarded memory, if there is one.
class GuardedView {
 public:
  GuardedView(const TensorView& view, Edge edge) {
    if (view.defined()) tensor_ = std::make_unique<GuardedTensor>(view, edge);
  }
  operator TensorView() const { return tensor_ ? tensor_->view() : TensorView(); }

 private:
  std::unique_ptr<GuardedTensor> tensor_;
};

// A call on a drawn cache with all tensors in guarded memory equals the simple call. Sequences that
// are not packed return weights and received attention, too.
void expect_guarded_call(const std::string& line, Edge edge) {
  SCOPED_TRACE(line);
  const Case c(parse_descriptor(line));
  const Case::Inputs in = c.laid_out();
  AttentionOptions options = c.wanted_options();
  options.received = c.descriptor.packed == 0;
  if (options.received) options.weights.emplace();
  const AttentionResult expected =
      scaled_dot_product_attention(in.query, in.key, in.value, options);

  const auto key = only_keys(in.key, options.cache, edge);
  const auto value = only_keys(in.value, options.cache, edge);
  const GuardedTensor query(in.query, edge);
  const GuardedView lengths(options.cache.lengths, edge), starts(options.cache.starts, edge);
  const GuardedView table(options.cache.block_table, edge);
  const GuardedView query_starts(options.packed.query_starts, edge);
  options.cache = {lengths, table, starts};
  options.packed.query_starts = query_starts;
  const auto room_for = [&](const Tensor& result) {
    if (!result.defined()) return std::unique_ptr<GuardedTensor>();
    return std::make_unique<GuardedTensor>(result.dtype(), dims_of_view(result), edge);
  };
  const auto output = room_for(expected.output), statistic = room_for(expected.statistic);
  const auto weights = room_for(expected.weights), received = room_for(expected.received);
  rapt::AttentionOutputs outputs;
  outputs.state = {*output, *statistic};
  if (weights) outputs.weights = *weights, outputs.received = *received;
  const size_t bytes = rapt::plan(query, *key, *value, options).workspace_bytes;
  const Guarded workspace(bytes, edge);
  scaled_dot_product_attention(query, *key, *value, options, outputs, {workspace.data(), bytes});
  EXPECT_TRUE(same_bits(*output, expected.output));
  EXPECT_TRUE(same_bits(*statistic, expected.statistic));
  if (!weights) return;
  EXPECT_TRUE(same_bits(*weights, expected.weights));
  EXPECT_TRUE(same_bits(*received, expected.received));
}

TEST(GuardedCache, CallsReadNothingButKeys) {
  uint64_t seed = base_seed() % 1000;
  for (const char* dtype : {"", ":bf16", ":f64", ":f16"})
    for (const char* cache :
         {"linear", "circular", "pages(5)", "pages(5,circular)", "pages(20,shared)", "pages(1)"})
      for (const int64_t queries : {1, 3, 20})
        for (const Edge edge : kEdges) {
          const std::string fields = std::string(dtype) +
                                     ":mask=causal(bottom-right):cache=" + cache +
                                     ":seed=" + std::to_string(++seed);
          const std::string rows = "q" + std::to_string(queries);
          // Heads that are whole vectors, and heads that are not.
          expect_guarded_call("b3h4/2" + rows + "k40d16v32" + fields, edge);
          expect_guarded_call("b3h2" + rows + "k100d13v7" + fields, edge);
        }
}

// Several blocks of keys, and packed queries.
TEST(GuardedCache, LongAndPackedCalls) {
  uint64_t seed = base_seed() % 1000;
  for (const char* dtype : {"", ":bf16"})
    for (const char* cache : {"linear", "circular", "pages(30)", "pages(30,circular,shared)"})
      for (const Edge edge : kEdges) {
        const std::string fields =
            std::string(dtype) + ":cache=" + cache + ":seed=" + std::to_string(++seed);
        expect_guarded_call("b2h4/2q2k300d40v24" + fields, edge);
        expect_guarded_call("h4/2q30k300d40v24:packed=3" + fields, edge);
      }
}

// Dense caches, whose rows the products read in place: what is inaccessible are whole pages of
// memory, each of 32 rows of 128 bytes.
TEST(GuardedCache, DenseCaches) {
  constexpr int64_t kRows = 32, kBytes = 128;
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(rapt::name_of(dtype));
    const int64_t dim = kBytes / rapt::size_of(dtype);
    Tensor lengths(DType::i64, {3}), table(DType::i32, {3, 4});
    const auto call = [&](const Tensor& rows, int64_t q_len) {
      const Tensor query = random_normal(random, dtype, {3, 4, q_len, dim});
      AttentionOptions options;
      options.cache.lengths = lengths;
      if (rows.dim(0) != 3) options.cache.block_table = table;
      const AttentionResult expected = scaled_dot_product_attention(query, rows, rows, options);
      const GuardedTensor key(rows, Edge::back), value(rows, Edge::back);
      std::vector<char> used(static_cast<size_t>(rows.dim(0) * rows.dim(2) / kRows), 0);
      const int64_t parts = rows.dim(2) / kRows;  // of a page, each inaccessible or not
      for_each_place(options.cache, rows.dim(2), [&](int64_t page, int64_t row) {
        used[static_cast<size_t>(page * parts + row / kRows)] = 1;
      });
      for (int64_t page = 0; page < rows.dim(0); ++page)
        for (int64_t head = 0; head < 2; ++head)
          for (int64_t part = 0; part < parts; ++part) {
            if (used[static_cast<size_t>(page * parts + part)]) continue;
            const int64_t begin = (page * 2 + head) * rows.dim(2) + part * kRows;
            key.forbid_rows(begin, begin + kRows);
            value.forbid_rows(begin, begin + kRows);
          }
      EXPECT_TRUE(same_results(scaled_dot_product_attention(query, key, value, options), expected));
    };
    const Tensor linear = random_normal(random, dtype, {3, 2, 160, dim});
    const Tensor pages = random_normal(random, dtype, {8, 2, kRows, dim});
    std::ranges::copy(Dims{6, 1, 2, -1, 6, 3, -1, 8, 0, -1, -1, -1},
                      table.values<int32_t>().begin());
    for (const int64_t q_len : {1, 4, 40}) {
      std::ranges::copy(Dims{64, 160, 0}, lengths.values<int64_t>().begin());
      call(linear, q_len);
      std::ranges::copy(Dims{96, 64, 32}, lengths.values<int64_t>().begin());
      call(pages, q_len);
    }
  }
}

// A cache in protected memory, and its twin in ordinary memory. Every change is made to the twin
// first. Then the rows that it has written may be written, other rows of keys may be read, and no
// other row may be touched.
class ProtectedCache {
 public:
  ProtectedCache(const KeyValueCacheOptions& options, Edge edge)
      : twin_(options),
        keys_(options.dtype, dims_of_view(twin_.views().key), edge),
        values_(options.dtype, dims_of_view(twin_.views().value), edge),
        cache_(options, keys_, values_) {}

  const KeyValueCache& twin() const { return twin_; }
  const KeyValueCache& cache() const { return cache_; }

  void change(const std::function<void(KeyValueCache&)>& step) {
    const std::vector<char> before = rows_of_keys();
    const bool accepted = accepts(twin_, step);
    const std::vector<char> after = rows_of_keys();
    const CacheViews now = twin_.views();
    for (int64_t page = 0; page < now.key.shape[0]; ++page)
      for (int64_t row = 0; row < page_keys(); ++row) {
        const auto at = static_cast<size_t>(page * page_keys() + row);
        // `rows` still holds what the twin held before the step.
        const auto protect = [&](const RowPages& rows, const TensorView& twin) {
          const bool kept = before[at] && rows.equals_row(twin, page, row);
          rows.allow(page, row, !after[at] ? Access::none : kept ? Access::read : Access::write);
        };
        protect(keys_, now.key);
        protect(values_, now.value);
      }
    EXPECT_EQ(accepts(cache_, step), accepted);
    for_each_place(now.cache, page_keys(), [&](int64_t page, int64_t row) {
      EXPECT_TRUE(keys_.equals_row(now.key, page, row)) << "page " << page << ", row " << row;
      EXPECT_TRUE(values_.equals_row(now.value, page, row)) << "page " << page << ", row " << row;
    });
  }

 private:
  static bool accepts(KeyValueCache& cache, const std::function<void(KeyValueCache&)>& step) {
    try {
      step(cache);
      return true;
    } catch (const rapt::Error&) {
      return false;
    }
  }
  int64_t page_keys() const { return keys_.view().shape[2]; }
  // [pages * page_keys]: whether the row belongs to a key of the twin.
  std::vector<char> rows_of_keys() const {
    std::vector<char> rows(static_cast<size_t>(keys_.view().shape[0] * page_keys()), 0);
    for_each_place(twin_.views().cache, page_keys(), [&](int64_t page, int64_t row) {
      rows[static_cast<size_t>(page * page_keys() + row)] = 1;
    });
    return rows;
  }

  KeyValueCache twin_;
  RowPages keys_, values_;
  KeyValueCache cache_;
};

Tensor counted(const Dims& numbers) {
  Tensor tensor(DType::i64, {static_cast<int64_t>(numbers.size())});
  std::ranges::copy(numbers, tensor.values<int64_t>().begin());
  return tensor;
}

// A random change of a cache, of rows in guarded memory.
void change_some(ProtectedCache& cache, Random& random, Edge edge) {
  const KeyValueCacheOptions& o = cache.twin().options();
  const auto rows = [&](const Dims& lead, int64_t n, int64_t dim) {
    Dims dims = lead;
    dims.insert(dims.end(), {o.num_kv_heads, n, dim});
    return std::make_unique<GuardedTensor>(random_normal(random, o.dtype, dims), edge);
  };
  const auto append = [&](const Dims& lead, int64_t n, const auto& call) {
    const auto key = rows(lead, n, o.head_dim), value = rows(lead, n, o.value_dim);
    cache.change([&](KeyValueCache& to) { call(to, key->view(), value->view()); });
  };
  const int64_t s = random.between(0, o.sequences - 1), other = (s + 1) % o.sequences;
  const int64_t length = cache.twin().length(s);
  switch (random.between(0, 6)) {
    case 0:
    case 1: {
      const int64_t n = random.between(1, 4);
      Dims numbers;
      for (int64_t i = 0; i < o.sequences; ++i) numbers.push_back(random.between(0, n));
      const GuardedTensor counts(counted(numbers), edge);
      return append({o.sequences}, n, [&](KeyValueCache& to, const auto& key, const auto& value) {
        to.append(key, value, counts.view());
      });
    }
    case 2:
      return append(
          {}, random.between(1, o.capacity + 2),
          [&](KeyValueCache& to, const auto& key, const auto& value) { to.append(s, key, value); });
    case 3: {
      Dims numbers = {0};
      for (int64_t i = 0; i < o.sequences; ++i)
        numbers.push_back(numbers.back() + random.between(0, 3));
      const GuardedTensor starts(counted(numbers), edge);
      return append({}, numbers.back(), [&](KeyValueCache& to, const auto& key, const auto& value) {
        to.append_packed(key, value, starts.view());
      });
    }
    case 4: {
      const int64_t kept = random.between(0, length);
      return cache.change([&](KeyValueCache& to) { to.truncate(s, kept); });
    }
    case 5:
      return cache.change([&](KeyValueCache& to) { to.clear(other); });
    default: {
      const int64_t shared = random.between(0, length);
      cache.change([&](KeyValueCache& to) { to.clear(other); });
      return cache.change([&](KeyValueCache& to) { to.share(s, other, shared); });
    }
  }
}

void expect_same_call(const ProtectedCache& cache, Random& random) {
  const KeyValueCacheOptions& o = cache.twin().options();
  const Tensor query = random_normal(
      random, o.dtype, {o.sequences, 2 * o.num_kv_heads, random.between(1, 3), o.head_dim});
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  const auto result = [&](const CacheViews& views) {
    return scaled_dot_product_attention(query, views.key, views.value,
                                        {.masks = {&causal}, .cache = views.cache});
  };
  EXPECT_TRUE(same_results(result(cache.cache().views()), result(cache.twin().views())));
}

TEST(GuardedCache, AppendsWriteNewRowsAlone) {
  Random random(base_seed());
  KeyValueCacheOptions linear{
      .sequences = 3, .num_kv_heads = 2, .capacity = 9, .head_dim = 5, .value_dim = 3};
  KeyValueCacheOptions circular = linear, paged = linear;
  circular.end = CacheEnd::circular;
  paged.capacity = 0, paged.page_keys = 4, paged.pages = 7;
  for (KeyValueCacheOptions options : {linear, circular, paged})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Edge edge : kEdges) {
        options.dtype = dtype;
        ProtectedCache cache(options, edge);
        for (int step = 0; step < 40 && !HasFailure(); ++step) {
          SCOPED_TRACE(step);
          change_some(cache, random, edge);
          expect_same_call(cache, random);
        }
      }
}

// Rows that write_to_cache() does not write are inaccessible.
TEST(GuardedCache, WriteToCacheTouchesItsRowsAlone) {
  constexpr int64_t kBatch = 2, kCapacity = 9, kRows = 4;
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const CacheEnd end : {CacheEnd::linear, CacheEnd::circular})
      for (const Edge edge : kEdges)
        for (int64_t start = 0; start + kRows <= kCapacity; ++start) {
          const int64_t first[kBatch] = {
              start, end == CacheEnd::linear ? kCapacity - kRows - start : 3 * start + 5};
          const Tensor rows = random_normal(random, dtype, {kBatch, 3, kRows, 5});
          const GuardedTensor update(rows, edge), starts(counted({first[0], first[1]}), edge);
          const RowPages cache(dtype, {kBatch, 3, kCapacity, 5}, edge);
          Tensor expected = filled(dtype, {kBatch, 3, kCapacity, 5}, 0);
          for (int64_t b = 0; b < kBatch; ++b)
            for (int64_t i = 0; i < kRows; ++i)
              cache.allow(b, (first[b] + i) % kCapacity, Access::write);
          write_to_cache(expected, rows, starts, end);
          write_to_cache(cache, update, starts, end);
          for (int64_t b = 0; b < kBatch; ++b)
            for (int64_t i = 0; i < kRows; ++i)
              EXPECT_TRUE(cache.equals_row(expected, b, (first[b] + i) % kCapacity)) << start;
        }
}

}  // namespace
}  // namespace laws
