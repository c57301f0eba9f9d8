// How far LSH attention is from exact attention, by its rounds: on clustered rows, where it becomes
// exact unless pairs of several rounds count each time, and on needles, beside the sketch of a
// tutorial, which is repaired in its syntax only and does not become exact.
//
//   29_lsh_against_rounds [CURVES.svg]      prints the errors, and draws them
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rapt/rapt.h"
#include "rapt/viz/chart.h"

namespace {

using rapt::Tensor;
using rapt::TensorView;

constexpr int64_t kRounds[] = {1, 2, 4, 8, 16, 32};

class Normal {
 public:
  explicit Normal(unsigned seed) : generator_(seed) {}
  // The same with every standard library: a sum of uniform numbers.
  float operator()() {
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(generator_() >> 8) * 0x1p-24f;
    return sum;
  }
  unsigned below(unsigned count) { return static_cast<unsigned>(generator_()) % count; }

 private:
  std::mt19937 generator_;
};

Tensor normal_rows(Normal& normal, int64_t rows, int64_t dims) {
  Tensor t(rapt::DType::f32, {rows, dims});
  for (float& x : t.values<float>()) x = normal();
  return t;
}

float* row(Tensor& t, int64_t i) { return t.values<float>().data() + i * t.dim(1); }

void set_length(Tensor& t, float length) {
  for (int64_t i = 0; i < t.dim(0); ++i) {
    float* const x = row(t, i);
    const float square = std::inner_product(x, x + t.dim(1), x, 0.0f);
    for (int64_t d = 0; d < t.dim(1); ++d) x[d] *= length / std::sqrt(square);
  }
}

// The length of the difference of two outputs, relative to that of the exact one.
double error(const Tensor& got, const Tensor& exact) {
  const auto wanted = exact.values<float>(), found = got.values<float>();
  double difference = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double e = wanted[i], g = found[i];
    difference += (g - e) * (g - e), size += e * e;
  }
  return std::sqrt(difference / size);
}

// Prints the mean errors of some problems, and returns them as a curve.
rapt::viz::Series told(const char* name, const std::vector<double>& errors, double problems) {
  rapt::viz::Series curve{.name = name, .dots = true};
  std::printf("%-34s", name);
  for (size_t r = 0; r < errors.size(); ++r) {
    std::printf("%7.3f", errors[r] / problems);
    curve.x.push_back(std::log2(static_cast<double>(kRounds[r])));
    curve.y.push_back(errors[r] / problems);
  }
  std::printf("\n");
  return curve;
}

void print_head() {
  std::printf("%-34s", "rounds");
  for (const int64_t rounds : kRounds) std::printf("%7lld", static_cast<long long>(rounds));
  std::printf("\n");
}

// 128 rows of length 6 near 8 centres, shared keys, scale 1, chunks of 16.
rapt::viz::Series on_clusters(const char* name, int64_t buckets, rapt::LshDuplicates duplicates) {
  constexpr int64_t kRows = 128, kDims = 32;
  constexpr int kProblems = 8;
  std::vector<double> errors(std::size(kRounds));
  for (unsigned seed = 0; seed < kProblems; ++seed) {
    Normal normal(seed + 1);
    Tensor centres = normal_rows(normal, 8, kDims), rows = normal_rows(normal, kRows, kDims);
    const Tensor value = normal_rows(normal, kRows, kDims);
    for (int64_t i = 0; i < kRows; ++i) {
      const float* const centre = row(centres, normal.below(8));
      for (int64_t d = 0; d < kDims; ++d) row(rows, i)[d] = centre[d] + 0.6f * row(rows, i)[d];
    }
    set_length(rows, 6);
    const auto output = [&](const rapt::Lsh& lsh) {
      return scaled_dot_product_attention(rows, rows, value, {.scale = 1, .method = &lsh}).output;
    };
    rapt::Lsh all(1);
    all.chunk = kRows;  // one chunk: all pairs
    const Tensor exact = output(all);
    for (size_t r = 0; r < std::size(kRounds); ++r) {
      rapt::Lsh lsh(kRounds[r]);
      lsh.chunk = 16, lsh.buckets = buckets, lsh.duplicates = duplicates, lsh.seed = seed;
      errors[r] += error(output(lsh), exact);
    }
  }
  return told(name, errors, kProblems);
}

// Each query is similar to one key, which has 45 % of its weights.
struct Needles {
  static constexpr int64_t kRows = 1024, kDims = 64, kChunk = 64;
  Normal normal;
  Tensor key, query, value;

  explicit Needles(unsigned seed)
      : normal(seed),
        key(normal_rows(normal, kRows, kDims)),
        query(normal_rows(normal, kRows, kDims)),
        value(normal_rows(normal, kRows, kDims)) {
    set_length(key, 1);
    for (int64_t i = 0; i < kRows; ++i) {
      float* const q = row(query, i);
      const float* const k = row(key, (i * 389 + 7) % kRows);
      for (int64_t d = 0; d < kDims; ++d) q[d] = k[d] + 0.06f * q[d];
    }
    set_length(key, 8), set_length(query, 8);
  }
};

// The sketch: keys alone are hashed, by argmax(x R) with as many buckets as dimensions; queries of
// the same positions attend to the keys of their chunk. Rows stay in the order of the round, and
// rounds are averaged.
Tensor by_sketch(Needles& p, int64_t rounds) {
  constexpr int64_t kRows = Needles::kRows, kDims = Needles::kDims;
  Tensor mean(rapt::DType::f32, {kRows, kDims});
  std::ranges::fill(mean.values<float>(), 0.0f);
  for (int64_t r = 0; r < rounds; ++r) {
    const Tensor rotation = normal_rows(p.normal, kDims, kDims);
    std::vector<int64_t> bucket(kRows), order(kRows);
    const float* const matrix = rotation.values<float>().data();
    for (int64_t i = 0; i < kRows; ++i) {
      std::vector<float> rotated(kDims);
      const float* const key = row(p.key, i);
      for (int64_t d = 0; d < kDims; ++d)
        for (int64_t c = 0; c < kDims; ++c) rotated[c] += key[d] * matrix[d * kDims + c];
      bucket[i] = std::max_element(rotated.begin(), rotated.end()) - rotated.begin();
    }
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int64_t i) { return bucket[i]; });
    const auto chunks_of = [&](Tensor& t) {
      Tensor chunks(rapt::DType::f32, {kRows / Needles::kChunk, Needles::kChunk, kDims});
      for (int64_t i = 0; i < kRows; ++i)
        std::copy_n(row(t, order[i]), kDims, chunks.values<float>().data() + i * kDims);
      return chunks;
    };
    const Tensor output =
        scaled_dot_product_attention(chunks_of(p.query), chunks_of(p.key), chunks_of(p.value), {})
            .output;
    const float* const numbers = output.values<float>().data();
    float* const sums = mean.values<float>().data();
    for (int64_t i = 0; i < output.count(); ++i) sums[i] += numbers[i] / static_cast<float>(rounds);
  }
  return mean;
}

std::vector<rapt::viz::Series> on_needles() {
  constexpr int kProblems = 3;
  std::vector<double> sketch(std::size(kRounds)), ours = sketch, mean = sketch;
  for (unsigned seed = 0; seed < kProblems; ++seed) {
    Needles p(seed + 1);
    const Tensor exact = scaled_dot_product_attention(p.query, p.key, p.value, {}).output;
    const auto by_method = [&](const rapt::Method& method) {
      return scaled_dot_product_attention(p.query, p.key, p.value, {.method = &method}).output;
    };
    for (size_t r = 0; r < std::size(kRounds); ++r) {
      rapt::Lsh lsh(kRounds[r]);
      lsh.keys = rapt::LshKeys::separate, lsh.seed = seed;
      lsh.buckets = Needles::kRows / Needles::kChunk;
      sketch[r] += error(by_sketch(p, kRounds[r]), exact);
      ours[r] += error(by_method(lsh), exact);
      mean[r] += error(by_method(rapt::Mean()), exact);
    }
  }
  std::vector<rapt::viz::Series> curves = {
      told("needles: the sketch of a tutorial", sketch, kProblems),
      told("needles: lsh, 16 buckets", ours, kProblems)};
  told("needles: mean of values", mean, kProblems);
  return curves;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto once = rapt::LshDuplicates::count_once, all = rapt::LshDuplicates::count_all;
    print_head();
    rapt::viz::LineChart chart{.title = "Errors of LSH attention",
                               .x_axis = {.label = "log2 of the rounds"},
                               .y_axis = {.label = "relative error of the output"}};
    chart.series = {on_clusters("clusters: 8 buckets, count-once", 8, once),
                    on_clusters("clusters: 8 buckets, count-all", 8, all),
                    on_clusters("clusters: 16 buckets, count-once", 16, once),
                    on_clusters("clusters: 16 buckets, count-all", 16, all)};
    for (rapt::viz::Series& curve : on_needles()) chart.series.push_back(std::move(curve));
    if (argc > 1) std::ofstream(argv[1]) << to_svg(chart);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
