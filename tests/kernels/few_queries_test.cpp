// The products of few queries have the bits of the tiles that they replace, for every storage type
// and number of queries, and read nothing beyond the rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/kernel_table.h"
#include "rapt/float16.h"

namespace rapt {
namespace {

// Rows of keys or values: stored, and as elements of E.
template <class E>
struct Rows {
  std::vector<std::byte> stored;
  std::vector<E> elements;

  Rows(DType dtype, int64_t count, std::mt19937& generator) {
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<E>(normal(generator));
      if (dtype == DType::bf16)
        add(BFloat16::from(static_cast<float>(x)));
      else if (dtype == DType::f16)
        add(Float16::from(static_cast<float>(x)));
      else
        add(x);
    }
  }

 private:
  template <class Stored>
  void add(Stored x) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&x);
    stored.insert(stored.end(), bytes, bytes + sizeof x);
    elements.push_back(static_cast<E>(x));
  }
};

// The same rows in runs that lie apart, in another order and at strides of their own. Each run has
// memory of its own, so that a read beyond it is found.
class Runs {
 public:
  Runs(const std::vector<std::byte>& rows, int64_t count, int64_t dims, int64_t element_size) {
    for (int64_t first = 0; first < count; first += kRunRows) {
      const int64_t stride = dims + static_cast<int64_t>(memory_.size()) % 3;
      const int64_t in_run = std::min(kRunRows, count - first);
      std::vector<std::byte>& run =
          memory_.emplace_back(static_cast<size_t>(((in_run - 1) * stride + dims) * element_size));
      for (int64_t i = 0; i < in_run; ++i)
        std::copy_n(rows.data() + (first + i) * dims * element_size, dims * element_size,
                    run.data() + i * stride * element_size);
      runs_.push_back({run.data(), stride});
    }
    for (int64_t n = 0; n < kRunsAhead; ++n) runs_.push_back(runs_.front());
  }

  const RowRun* begin() const { return runs_.data(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<RowRun> runs_;
};

// One product by a route of few queries and by the fma route.
template <class E>
void expect_bits_of_tiles(const RouteKernels<E>& few, const RouteKernels<E>& tile, DType dtype,
                          int64_t queries, int64_t keys, int64_t dims, std::mt19937& generator) {
  const int64_t lanes = kernels<E>().lanes;
  const Rows<E> rows(dtype, keys * dims, generator);
  const Runs runs(rows.stored, keys, dims, few.element_size);
  EXPECT_TRUE(few.reads_runs);
  const auto random_tile = [&](int64_t count) {
    std::normal_distribution<double> normal;
    std::vector<E> values(static_cast<size_t>(count * lanes));
    for (size_t i = 0; i < values.size(); ++i)
      if (static_cast<int64_t>(i) % lanes < queries) values[i] = static_cast<E>(normal(generator));
    return values;
  };
  const std::vector<E> query_t = random_tile(dims), weights = random_tile(keys);
  const std::vector<E> before = random_tile(dims), rescale = random_tile(1);
  const auto expect_equal = [&](const std::vector<E>& a, const std::vector<E>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (static_cast<int64_t>(i) % lanes < queries) {
        ASSERT_EQ(a[i], b[i]) << i;
      }
    }
  };

  std::vector<E> scores[2], maxima[2], outputs[2], masked[2];
  std::vector<uint64_t> bits(static_cast<size_t>(keys));
  for (uint64_t& word : bits) word = generator();
  for (const int n : {0, 1}) {
    const RouteKernels<E>& route = n == 0 ? few : tile;
    const void* const from = n == 0 ? static_cast<const void*>(runs.begin()) : rows.elements.data();
    scores[n].resize(static_cast<size_t>(keys * lanes));
    maxima[n].resize(static_cast<size_t>(lanes));
    route.products[0].scores(query_t.data(), from, dims, keys, dims, E(1), scores[n].data(),
                             maxima[n].data());
    for (const E* factor : {static_cast<const E*>(nullptr), rescale.data()}) {
      outputs[n] = factor ? outputs[n] : before;
      route.products[0].output(weights.data(), from, dims, keys, dims, factor, outputs[n].data());
    }
    masked[n] = before;
    route.output_of_bits(weights.data(), bits.data(), from, dims, keys, dims, rescale.data(), lanes,
                         masked[n].data());
  }
  EXPECT_TRUE(few.all_finite(rows.stored.data(), dims, keys, dims));
  expect_equal(scores[0], scores[1]);
  expect_equal(maxima[0], maxima[1]);
  expect_equal(outputs[0], outputs[1]);
  expect_equal(masked[0], masked[1]);
}

template <class E>
void expect_bits_of_tiles(DType dtype) {
  const KernelTable<E>& table = kernels<E>();
  std::mt19937 generator(1);
  int routes = 0;
  for (int width = 0; width < kFewWidths; ++width) {
    const RouteKernels<E>* const few = table.few_queries[static_cast<int>(dtype)][width];
    if (!few) continue;
    ++routes;
    for (int64_t queries = 1; queries <= int64_t{1} << width; ++queries)
      for (const int64_t keys : {1, 3, 8, 15, 16, 17, 33, 64, 128})
        for (const int64_t dims : {1, 2, 5, 8, 15, 16, 31, 32, 40, 63, 64, 129, 300}) {
          SCOPED_TRACE(testing::Message() << "up to " << (1 << width) << " queries, " << queries
                                          << "; " << keys << " keys, " << dims << " dims");
          expect_bits_of_tiles(*few, *table.fma[static_cast<int>(dtype)], dtype, queries, keys,
                               dims, generator);
          if (testing::Test::HasFailure()) return;
        }
  }
  EXPECT_GE(routes, 1);
}

TEST(FewQueries, BitsOfTiles) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    expect_bits_of_tiles<float>(dtype);
  }
  SCOPED_TRACE("f64");
  expect_bits_of_tiles<double>(DType::f64);
}

// A value that is not finite is found in every place of a row, as it is stored.
TEST(FewQueries, FindsWhatIsNotFinite) {
  constexpr int64_t kDims = 70;
  std::vector<BFloat16> rows(3 * kDims, BFloat16::from(1));
  const RouteKernels<float>* const few =
      kernels<float>().few_queries[static_cast<int>(DType::bf16)][0];
  for (BFloat16& x : rows) {
    EXPECT_TRUE(few->all_finite(rows.data(), kDims, 3, kDims));
    x = BFloat16::from(__builtin_inff());
    EXPECT_FALSE(few->all_finite(rows.data(), kDims, 3, kDims));
    x = BFloat16::from(1);
  }
}

}  // namespace
}  // namespace rapt
