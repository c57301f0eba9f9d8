// Problems whose keys and values lie in a cache: what is drawn, where keys lie, and that the
// reference computes every sequence on its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "check/compare/case.h"
#include "check/compare/comparison.h"

namespace check {
namespace {

// The entries of a table or list of any integer type, row-major.
std::vector<int64_t> entries_of(const TensorView& t) {
  std::vector<int64_t> entries;
  for (int64_t i = 0; i < t.count(); ++i)
    entries.push_back(t.dtype == DType::i64 ? static_cast<const int64_t*>(t.data)[i]
                                            : static_cast<const int32_t*>(t.data)[i]);
  return entries;
}

// Where a call finds the keys of each sequence: pages and rows in them, by the formula of
// cached_keys.h.
std::vector<std::vector<std::pair<int64_t, int64_t>>> places_of_keys(const Case& c) {
  const rapt::CachedKeys cache = c.wanted_options().cache;
  const TensorView key = c.laid_out().key;
  const int64_t page_keys = key.shape[key.rank - 2];
  const bool paged = cache.block_table.defined();
  const int64_t columns = paged ? cache.block_table.shape[1] : 1, capacity = columns * page_keys;
  EXPECT_EQ(capacity, c.descriptor.k_len);
  const std::vector<int64_t> lengths = entries_of(cache.lengths);
  const auto table = paged ? entries_of(cache.block_table) : std::vector<int64_t>();
  const auto starts =
      cache.starts.defined() ? entries_of(cache.starts) : std::vector<int64_t>(lengths.size(), 0);
  std::vector<std::vector<std::pair<int64_t, int64_t>>> places(lengths.size());
  for (size_t s = 0; s < lengths.size(); ++s)
    for (int64_t j = 0; j < lengths[s]; ++j) {
      const int64_t slot = (starts[s] + j) % capacity, column = slot / page_keys;
      const auto at = static_cast<size_t>(static_cast<int64_t>(s) * columns + column);
      places[s].emplace_back(paged ? table[at] : static_cast<int64_t>(s), slot % page_keys);
    }
  return places;
}

// The last head of a key's row in the cache.
Dims cache_index(const TensorView& key, std::pair<int64_t, int64_t> place) {
  Dims index(static_cast<size_t>(key.rank), 0);
  if (key.rank > 3) index[index.size() - 3] = key.shape[key.rank - 3] - 1;
  index.front() = place.first;
  index[index.size() - 2] = place.second;
  return index;
}

const char* const kLines[] = {
    "b4h4/2q3k24d5:cache=linear:seed=1",
    "b4h2q3k24d5:f64:layout=interleaved:cache=circular:seed=2",
    "b4h4/2q3k24d5:bf16:layout=negative:cache=pages(4):seed=3",
    "h5q3k24d5:cache=pages(6,circular):seed=4",
    "[4,2]h2q3k24d5:f16:layout=padded:cache=pages(3,shared):seed=5",
    "h4/2q9k24d5:packed=4:cache=linear:seed=6",
    "q9k24d5:packed=4:cache=pages(1,circular,shared):seed=7",
    "b2h2q9k24d5:packed=4:cache=pages(24):seed=8",
};

TEST(CachedCase, KeysLieWhereTheCallFindsThem) {
  for (const char* line : kLines) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const TensorView cache = c.laid_out().key, key = c.key;
    const auto places = places_of_keys(c);
    std::set<std::pair<int64_t, int64_t>> used;
    int64_t before = 0;  // keys of earlier sequences
    for (size_t s = 0; s < places.size(); ++s) {
      for (size_t j = 0; j < places[s].size(); ++j) {
        const Dims from = cache_index(cache, places[s][j]);
        const auto position = static_cast<int64_t>(j);
        // Packed sequences follow each other; others have the sequence in front.
        const bool packed = c.descriptor.packed > 0;
        Dims at(from.begin() + packed, from.end());
        if (!packed) at.front() = static_cast<int64_t>(s);
        at[at.size() - 2] = packed ? before + position : position;
        EXPECT_EQ(get(cache, from), get(key, at)) << s << ", " << j;
        used.insert(places[s][j]);
      }
      before += static_cast<int64_t>(places[s].size());
    }
    if (c.descriptor.packed > 0) {
      EXPECT_EQ(key.shape[key.rank - 2], before);
    }
    for_each_index(cache.dims(), [&](auto index) {
      const bool belongs = used.contains({index.front(), index[index.size() - 2]});
      EXPECT_NE(std::isnan(get(cache, index)), belongs);
    });
  }
}

TEST(CachedCase, DrawsEveryKindOfSequence) {
  int empty = 0, full = 0, others = 0, narrow = 0, wide = 0, no_page = 0, shared = 0;
  for (int seed = 0; seed < 40; ++seed) {
    const Case c(
        parse_descriptor("b4h2q3k24d5:cache=pages(4,shared):seed=" + std::to_string(seed)));
    const rapt::CachedKeys cache = c.wanted_options().cache;
    const int64_t pages = c.laid_out().key.shape[0];
    for (const int64_t length : entries_of(cache.lengths))
      ++(length == 0 ? empty : length == 24 ? full : others);
    for (const TensorView& t : {cache.lengths, cache.block_table})
      ++(t.dtype == DType::i32 ? narrow : wide);
    for (const int64_t page : entries_of(cache.block_table)) no_page += page < 0 || page >= pages;
    std::set<int64_t> of_earlier;
    for (const auto& places : places_of_keys(c)) {
      std::set<int64_t> own;
      for (const auto& [page, row] : places) own.insert(page);
      for (const int64_t page : own) shared += !of_earlier.insert(page).second;
    }
  }
  for (const int count : {empty, full, others, narrow, wide, no_page, shared}) EXPECT_GT(count, 5);
}

// The output of one sequence, computed from its own tensors. Masks: causal(bottom-right).
std::vector<long double> output_alone(const Case& c, const TensorView& query, const TensorView& key,
                                      const TensorView& value) {
  Problem own;
  own.query = query, own.key = key, own.value = value;
  own.normalizer = c.descriptor.normalizer;
  own.rows = c.descriptor.rows;
  const int64_t offset = key.shape[key.rank - 2] - query.shape[query.rank - 2];
  if (own.rows.rotary) own.rows.rotary->query.start = offset;
  own.allowed = [offset](auto, int64_t i, int64_t j) { return j <= i + offset; };
  return attention<long double>(own).output;
}

TEST(CachedCase, SequencesOfABatchAreProblemsOfTheirOwn) {
  for (const char* line :
       {"b5h4/2q3k24d6:f64:mask=causal(bottom-right):cache=pages(4,circular):seed=1",
        "b5h2q3k24d6:f64:mask=causal(bottom-right):rows=rotary(query-only):cache=linear:seed=2",
        "b5h2q3k24d6:f64:mask=causal(bottom-right):norm=relu:cache=circular:seed=3",
        "h5q3k24d6:f64:mask=causal(bottom-right):cache=pages(8,shared):seed=4"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const Result<long double> all = attention<long double>(c.for_reference());
    const TensorView query = c.query, key = c.key, value = c.value;
    std::vector<long double> expected;
    for (int64_t s = 0; s < 5; ++s) {
      const int64_t length = c.cache->length(s);
      const std::vector<long double> own =
          output_alone(c, query.slice(0, s, s + 1), key.slice(0, s, s + 1).slice(-2, 0, length),
                       value.slice(0, s, s + 1).slice(-2, 0, length));
      expected.insert(expected.end(), own.begin(), own.end());
    }
    EXPECT_EQ(all.output, expected);
  }
}

TEST(CachedCase, PackedSequencesAreProblemsOfTheirOwn) {
  for (const char* line :
       {"h2q20k24d6:f64:mask=causal(bottom-right):packed=5:cache=pages(4):seed=1",
        "h2q20k24d6:f64:mask=causal(bottom-right):rows=rotary(query-only):packed=5:cache=circular:"
        "seed=2"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const Result<long double> all = attention<long double>(c.for_reference());
    const TensorView query = c.query, key = c.key, value = c.value;
    const auto q = c.query_starts.values<int64_t>(), k = c.key_starts.values<int64_t>();
    for (size_t s = 0; s < 5; ++s) {
      EXPECT_EQ(k[s + 1] - k[s], c.cache->length(static_cast<int64_t>(s)));
      const std::vector<long double> own =
          output_alone(c, query.slice(-2, q[s], q[s + 1]), key.slice(-2, k[s], k[s + 1]),
                       value.slice(-2, k[s], k[s + 1]));
      const int64_t count = (q[s + 1] - q[s]) * 6;  // numbers of a head
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t n = 0; n < count; ++n)
          EXPECT_EQ(all.output[static_cast<size_t>((h * 20 + q[s]) * 6 + n)],
                    own[static_cast<size_t>(h * count + n)]);
    }
  }
}

// An element that belongs to no key changes nothing; one of a key is found.
TEST(CachedCase, ElementsAreThoseOfKeys) {
  const std::string problem = "b1h1q1k8d2:cache=linear:set=key[0,0,7,*]=nan:seed=";
  for (int seed = 0; seed < 20; ++seed) {
    const Case c(parse_descriptor(problem + std::to_string(seed)));
    EXPECT_EQ(std::isnan(get(c.key, Dims{0, 0, 7, 1})), c.cache->length(0) == 8);
  }
  const Case packed(parse_descriptor("q4k8d2:packed=1:cache=linear:set=key[0,0,0]=inf:seed=1"));
  if (packed.cache->length(0) > 0) {
    EXPECT_TRUE(std::isinf(get(packed.key, Dims{0, 0})));
  }
}

}  // namespace
}  // namespace check
