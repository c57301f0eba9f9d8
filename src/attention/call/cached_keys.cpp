// All checks of options.cache.
#include "attention/call/cached_keys.h"

#include <string>

namespace rapt {
namespace {

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
  throw Error(code, "cache." + message, "cache");
}

// Takes integers of `rank` dimensions, whose first has one entry per sequence.
Integers integers_of(const char* name, const TensorView& view, int rank, int64_t sequences) {
  const auto expected = [&] {
    return std::string("; expected i32 or i64 [sequences") +
           (rank == 2 ? ", pages of a sequence]" : "]") + " of " + std::to_string(sequences) +
           " sequences";
  };
  if (view.dtype != DType::i32 && view.dtype != DType::i64)
    fail(ErrorCode::dtype, std::string(name) + " is " + name_of(view.dtype) + expected());
  if (view.rank != rank || view.shape[0] != sequences)
    fail(ErrorCode::shape, std::string(name) + " is " + to_string(view.dims()) + expected());
  if (!view.data && !view.empty())
    fail(ErrorCode::argument, std::string(name) + " " + to_string(view.dims()) +
                                  " has elements but a null data pointer");
  extent_of(name, view);
  check_alignment(name, view);
  Integers taken{view.data, view.dtype == DType::i64, 0, view.strides[rank - 1]};
  if (rank == 2) taken.row_stride = view.strides[0];
  return taken;
}

// Checks the lengths, the first slots and the pages that are in use.
void check_places(const KeyPages& pages, int64_t sequences, int64_t page_count) {
  const int64_t capacity = pages.capacity();
  for (int64_t s = 0; s < sequences; ++s) {
    const auto nth = [&] { return "[" + std::to_string(s) + "] is "; };
    const int64_t length = pages.length(s);
    if (length < 0 || length > capacity)
      fail(ErrorCode::argument, "lengths" + nth() + std::to_string(length) + "; expected 0 to " +
                                    std::to_string(capacity) + ", the capacity");
    if (pages.starts.data)
      if (const int64_t start = pages.starts.at(0, s);
          start < 0 || start >= std::max<int64_t>(capacity, 1))
        fail(ErrorCode::argument, "starts" + nth() + std::to_string(start) + "; expected 0 to " +
                                      std::to_string(std::max<int64_t>(capacity, 1) - 1));
    if (!pages.table.data) continue;
    for (int64_t key = 0; key < length;) {
      const KeyPages::Run run = pages.run(s, key, length - key);
      if (run.page < 0 || run.page >= page_count)
        fail(ErrorCode::argument, "block_table names page " + std::to_string(run.page) +
                                      " for key " + std::to_string(key) + " of sequence " +
                                      std::to_string(s) + "; there are " +
                                      std::to_string(page_count) + " pages");
      key += run.keys;
    }
  }
}

void check_combinations(const AttentionOptions& options) {
  if (options.packed.key_starts.defined())
    fail(ErrorCode::argument,
         "lengths beside packed.key_starts; the lengths say which keys a "
         "sequence has, expected query_starts alone");
  const auto refuse = [](bool wanted, const char* what) {
    if (wanted)
      fail(ErrorCode::unsupported,
           std::string("lengths beside ") + what +
               "; gather the keys, or pass each sequence as a call of its own");
  };
  refuse(options.bias.defined(), "a bias");
  refuse(options.map.has_value(), "a map, whose cells would be those of the capacity");
  refuse(options.received && options.packed.defined(),
         "received attention of packed queries, whose keys have no axis of sequences");
  refuse(options.cosine.has_value(), "cosine attention, which divides keys by their lengths");
  refuse(options.rotary.embedding && options.rotary.rotate_key,
         "keys that the call rotates (rotate_key = false for keys rotated as they were appended)");
  refuse(options.relative.any(), "distance tables");
  for_each_mask_tensor(options.masks, [&](const char* name, const TensorView& tensor) {
    // No text without an error: a call allocates nothing.
    if (tensor.defined()) refuse(true, (std::string("masks with tensors (") + name + ")").c_str());
  });
}

}  // namespace

TensorView one_page(const char* name, const TensorView& query, const TensorView& rows,
                    const AttentionOptions& options) {
  check_rank(name, rows);
  const bool packed = options.packed.defined();
  const int rank = query.rank + (packed ? 1 : 0);
  if (rows.rank != rank || (!packed && rank < 3))
    fail(ErrorCode::shape,
         std::string("lengths: ") + described(name, rows) + " beside " + described("query", query) +
             "; expected " +
             (packed ? "[pages, ..., num_kv_heads, page_keys, dim] beside packed queries [..., "
                       "num_heads, all queries, head_dim]"
                     : "[pages, ..., num_kv_heads, page_keys, dim] beside queries [sequences, "
                       "..., num_heads, q_len, head_dim]"));
  TensorView page = rows;
  if (!packed) {
    page.shape[0] = 1;
    return page;
  }
  page.rank = rank - 1;
  for (int i = 0; i < page.rank; ++i)
    page.shape[i] = rows.shape[i + 1], page.strides[i] = rows.strides[i + 1];
  return page;
}

void take_capacity(const AttentionOptions& options, Problem& p) {
  check_combinations(options);
  const TensorView& table = options.cache.block_table;
  KeyPages& pages = p.pages;
  pages.page_keys = p.k_len;
  if (pages.page_keys == 0) fail(ErrorCode::shape, "lengths: pages of 0 keys; expected at least 1");
  if (table.defined() && table.rank == 2) pages.columns = table.shape[1];
  if (pages.columns < 0 || __builtin_mul_overflow(pages.page_keys, pages.columns, &p.k_len))
    fail(ErrorCode::overflow, "block_table " + to_string(table.dims()) + " of pages of " +
                                  std::to_string(pages.page_keys) +
                                  " keys; the capacity must be countable");
}

void take_pages(const TensorView& key, const TensorView& value, const AttentionOptions& options,
                Problem& p) {
  const CachedKeys& cache = options.cache;
  const int64_t sequences = options.packed.defined() ? p.sequences : p.leading[0];
  KeyPages& pages = p.pages;
  if (key.shape[0] != value.shape[0])
    fail(ErrorCode::shape, "lengths: " + described("key", key) + " and " +
                               described("value", value) +
                               " have another number of pages; expected the same");
  if (!cache.lengths.defined())
    fail(ErrorCode::argument, "lengths is missing; expected the number of keys of each sequence");
  pages.lengths = integers_of("lengths", cache.lengths, 1, sequences);
  pages.starts.data = pages.table.data = nullptr;
  if (cache.starts.defined()) pages.starts = integers_of("starts", cache.starts, 1, sequences);
  if (cache.block_table.defined()) {
    pages.table = integers_of("block_table", cache.block_table, 2, sequences);
  } else if (key.shape[0] != sequences) {
    fail(ErrorCode::shape, "lengths: " + described("key", key) + " has " +
                               std::to_string(key.shape[0]) + " pages for " +
                               std::to_string(sequences) +
                               " sequences; without a block_table expected one for each");
  }
  pages.key_stride = key.empty() ? 0 : key.strides[0];
  pages.value_stride = value.empty() ? 0 : value.strides[0];
  if (key.empty()) std::fill_n(p.key.lead_strides, p.leading_rank, 0);
  if (value.empty()) std::fill_n(p.value.lead_strides, p.leading_rank, 0);
  check_places(pages, sequences, key.shape[0]);
}

}  // namespace rapt
