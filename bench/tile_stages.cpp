// Measures how much work the stages of tile registers overlap (src/kernels/amx/tile_stage.simd.h):
// runs each piece of a stage alone, and all pieces in one stage. For developers of these kernels.
//
//   bench_tile_stages [--filter TEXT] [--repetitions N] [--quick] [--json]
//
// Cycles per 16 scores, from the core's clock at that time. A tile of 32 queries (backward: two
// tiles alternately) is multiplied by consecutive blocks of 128 keys, half a mebibyte in all, as
// within a long sequence. Packing, masked pairs and rescaled outputs are not included.
//
// % of peak: the flops of the products against the peak of bf16 tiles, measured before and after; a
// multiplication of f32 counts once. If a stage overlapped both kinds of work perfectly, it would
// take as long as the longer of them: the products, or the vector work.
//
// Where the set has no tile registers nothing is measured. RAPT_ISA=amx_emulated proves that the
// program runs; its numbers mean nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include "arguments.h"
#include "kernels/kernel_table.h"
#include "rapt/float16.h"
#include "rapt/instruction_sets.h"
#include "rapt/normalizer/softmax.h"
#include "rapt/variants.h"
#include "rapt/version.h"
#include "timing/sampling.h"

namespace {

using namespace rapt;
using Route = RouteKernels<float>;

constexpr int kSoftmax = index_in<Softmax>(Normalizers{});
constexpr int64_t kQueries = 32, kBlock = 128, kBytesAtWork = 512 * 1024;
constexpr int kTiles = 2;
constexpr double kPeakSeconds = 0.03;

// An array of zeros that begins at a cache line.
template <class T>
class Array {
 public:
  explicit Array(int64_t count)
      : data_(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), kLine))) {
    std::fill_n(data_, count, T{});
  }
  ~Array() { ::operator delete(data_, kLine); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* get() const { return data_; }

 private:
  static constexpr std::align_val_t kLine{64};
  T* data_;
};

// Dense rows of numbers between -2 and 2 in a storage type; speed does not depend on the numbers.
struct StoredRows {
  const int64_t count, dims;
  const Array<std::byte> bytes;

  StoredRows(DType dtype, int64_t rows, int64_t row_dims)
      : count(rows), dims(row_dims), bytes(rows * row_dims * size_of(dtype)) {
    uint32_t state = 1;
    for (int64_t i = 0; i < count * dims; ++i) {
      state = state * 1664525 + 1013904223;  // Numerical Recipes' generator
      const float x = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-30f;
      if (dtype == DType::f32) reinterpret_cast<float*>(bytes.get())[i] = x;
      if (dtype == DType::bf16) reinterpret_cast<BFloat16*>(bytes.get())[i] = BFloat16::from(x);
      if (dtype == DType::f16) reinterpret_cast<Float16*>(bytes.get())[i] = Float16::from(x);
    }
  }
};

// The operands of both passes: a tile of queries, and blocks of keys that also serve as values.
struct Operands {
  const Route& route;
  const int64_t dims, blocks;
  const float factor;
  Array<std::byte> query_t;     // [dims][kQueries], packed
  Array<std::byte> key, value;  // [blocks * kBlock, dims], packed
  Array<float> scores;          // [kBlock][kQueries]

  Operands(const Route& by, DType dtype, int64_t head_dim)
      : route(by),
        dims(head_dim),
        blocks(std::max<int64_t>(4, kBytesAtWork / (2 * bytes_of(kBlock)))),
        factor(static_cast<float>(1.4427 / std::sqrt(static_cast<double>(dims)))),  // log2 e
        query_t(bytes_of(kQueries)),
        key(bytes_of(blocks * kBlock)),
        value(bytes_of(blocks * kBlock)),
        scores(kBlock * kQueries) {
    const StoredRows queries(dtype, kQueries, dims), keys(dtype, blocks * kBlock, dims);
    route.pack_queries(queries.bytes.get(), dims, 1, kQueries, dims, factor, kQueries,
                       query_t.get());
    route.pack_keys(keys.bytes.get(), dims, 1, keys.count, dims, key.get());
    route.pack_values(keys.bytes.get(), dims, 1, keys.count, dims, value.get());
  }
  int64_t bytes_of(int64_t rows) const { return rows * dims * route.element_size; }
  // Bytes of the weights of a tile.
  int64_t bytes_of_weights() const { return kBlock * kQueries * route.weight_size; }
  const std::byte* block(const Array<std::byte>& rows, int64_t nth) const {
    return rows.get() + bytes_of(nth % blocks * kBlock);
  }
  double flops(int products) const {
    return 2.0 * products * static_cast<double>(kQueries * kBlock * dims);
  }
};

// The pieces of a stage that are computed.
struct Pieces {
  bool next = false, now = false, before = false;
};

class Forward {
 public:
  static constexpr const char* kNames[] = {"scores", "weights", "output", "stage"};

  Forward(const Route& route, DType dtype, int64_t dims)
      : of_(route, dtype, dims),
        rounded_{Array<std::byte>(of_.bytes_of_weights()),
                 Array<std::byte>(of_.bytes_of_weights())},
        block_max_{Array<float>(kQueries), Array<float>(kQueries)},
        factor_(kQueries),
        state_(2 * kQueries),
        output_t_(kQueries * dims) {}

  int64_t stages() const { return of_.blocks; }
  double flops(const Pieces& p) const { return of_.flops(p.next + p.before); }

  void run(int64_t nth, const Pieces& pieces) const {
    const int64_t dims = of_.dims;
    const StageScores<float> next{
        of_.query_t.get(), of_.block(of_.key, nth),  dims, kBlock, dims, of_.factor, true,
        of_.scores.get(),  block_max_[nth & 1].get()};
    Tile<float> tile;
    tile.scores = of_.scores.get();
    tile.block_max = block_max_[(nth + 1) & 1].get();
    tile.state = state_.get();
    tile.factor = factor_.get();
    tile.keys = kBlock, tile.queries = kQueries, tile.log2_units = true;
    const StageWeights<float> now{&tile, of_.factor, rounded_[nth & 1].get()};
    const StageOutput<float> before{rounded_[(nth + 1) & 1].get(),
                                    of_.block(of_.value, nth),
                                    dims,
                                    kBlock,
                                    dims,
                                    nullptr,
                                    output_t_.get()};
    of_.route.stages[kSoftmax](pieces.next ? &next : nullptr, pieces.now ? &now : nullptr,
                               pieces.before ? &before : nullptr);
  }

 private:
  const Operands of_;
  const Array<std::byte> rounded_[2];         // [kBlock][kQueries] of the route's weights
  const Array<float> block_max_[2], factor_;  // [kQueries]
  const Array<float> state_;                  // [2][kQueries]
  const Array<float> output_t_;               // [dims][kQueries]
};

class Backward {
 public:
  static constexpr const char* kNames[] = {"dots", "gradients", "sums", "stage"};

  Backward(const Route& route, DType dtype, int64_t dims)
      : of_(route, dtype, dims),
        rows_(of_.bytes_of(kTiles * kQueries)),
        d_weights_(kBlock * kQueries),
        statistic_(kQueries),
        delta_(kQueries),
        of_query_{operand(), operand()},
        weights_{{operand(), operand()}, {operand(), operand()}},
        d_scores_{{operand(), operand()}, {operand(), operand()}},
        d_query_t_(kQueries * dims),
        d_key_(of_.blocks * kBlock * dims),
        d_value_(of_.blocks * kBlock * dims) {
    const StoredRows queries(dtype, kTiles * kQueries, dims);
    route.pack_rows(queries.bytes.get(), dims, 1, queries.count, dims, rows_.get());
    std::fill_n(statistic_.get(), kQueries, 8.0f);  // weights below 1
  }

  int64_t stages() const { return of_.blocks * kTiles; }
  double flops(const Pieces& p) const { return of_.flops(2 * p.next + 3 * p.before); }

  // Runs the stage of the nth tile of a block, with half of the sums over queries of the previous
  // block.
  void run(int64_t nth, const Pieces& pieces) const {
    const int64_t dims = of_.dims, tile = nth % kTiles, block = nth / kTiles;
    const StageProducts<float> next{
        {of_.query_t.get(), of_.block(of_.key, block), dims, dims, of_.scores.get()},
        {of_.query_t.get(), of_.block(of_.key, block + 1), dims, dims, d_weights_.get()},
        kBlock};
    const StageGradients<float> now{of_.scores.get(),
                                    d_weights_.get(),
                                    of_.factor,
                                    statistic_.get(),
                                    delta_.get(),
                                    nullptr,
                                    kBlock,
                                    weights_[block & 1][tile].get(),
                                    d_scores_[block & 1][tile].get(),
                                    of_query_[nth & 1].get()};
    const int64_t panels = (kBlock / of_.route.step) * (dims / of_.route.step) / kTiles;
    GradientSpan<float> spans[2][kTiles];
    const auto sum_of = [&](GradientSpan<float>(&of)[kTiles], const Array<std::byte>(&from)[kTiles],
                            const Array<float>& to) -> StageKeySums<float> {
      for (int t = 0; t < kTiles; ++t)
        of[t] = {from[t].get(), kQueries, rows_.get() + of_.bytes_of(t * kQueries),
                 dims,          kQueries, nullptr};
      return {of,
              kTiles,
              kBlock,
              dims,
              to.get() + block % of_.blocks * kBlock * dims,
              dims,
              tile * panels,
              (tile + 1) * panels};
    };
    const StageSums<float> before{{of_query_[(nth + 1) & 1].get(), of_.block(of_.value, block),
                                   dims, kBlock, dims, nullptr, d_query_t_.get()},
                                  sum_of(spans[0], weights_[(block + 1) & 1], d_value_),
                                  sum_of(spans[1], d_scores_[(block + 1) & 1], d_key_)};
    of_.route.gradient_stages[kSoftmax](pieces.next ? &next : nullptr, pieces.now ? &now : nullptr,
                                        pieces.before ? &before : nullptr);
  }

 private:
  Array<std::byte> operand() const { return Array<std::byte>(of_.bytes_of_weights()); }

  const Operands of_;
  const Array<std::byte> rows_;           // [kTiles * kQueries, dims], packed: queries and d_output
  const Array<float> d_weights_;          // [kBlock][kQueries]
  const Array<float> statistic_, delta_;  // [kQueries]
  // [kBlock][kQueries] of the route's weights
  const Array<std::byte> of_query_[2], weights_[2][kTiles], d_scores_[2][kTiles];
  const Array<float> d_query_t_;        // [dims][kQueries]
  const Array<float> d_key_, d_value_;  // [blocks * kBlock, dims]
};

// Measures and prints every piece of a pass, and the whole.
template <class Pass>
void measure(const bench::Arguments& arguments, const std::string& name, const Route& route,
             DType dtype, int64_t dims) {
  const Pass pass(route, dtype, dims);
  Route::ThreadState before;
  route.begin(before);
  constexpr Pieces kPieces[] = {
      {.next = true}, {.now = true}, {.before = true}, {true, true, true}};
  for (int piece = 0; piece < 4; ++piece) {
    const auto call = [&] {
      for (int64_t nth = 0; nth < pass.stages(); ++nth) pass.run(nth, kPieces[piece]);
    };
    call();
    const int calls = timing::calls_per_sample(call);
    double peak = measure_tile_gflops(kPeakSeconds);
    double best = std::numeric_limits<double>::infinity(), clock = 0;
    timing::repeat(arguments.repetitions, [&] {
      const double seconds = timing::seconds_per_call(calls, call);
      if (seconds < best) best = seconds, clock = timing::core_clock_ghz();
    });
    peak = std::max(peak, measure_tile_gflops(kPeakSeconds));
    const double stages = static_cast<double>(pass.stages()), vectors = kBlock * kQueries / 16;
    const double cycles = best * clock * 1e9 / (stages * vectors);
    const double percent = 100 * stages * pass.flops(kPieces[piece]) / best * 1e-9 / peak;
    if (arguments.json)
      std::printf(
          "{\"table\": \"tile stages\", \"name\": \"%s\", \"piece\": \"%s\", \"cycles\": %.3f, "
          "\"percent\": %.2f, \"clock_ghz\": %.3f}\n",
          name.c_str(), Pass::kNames[piece], cycles, percent, clock);
    else
      std::printf("%-24s %-10s %8.2f %10.1f %6.2f\n", name.c_str(), Pass::kNames[piece], cycles,
                  percent, clock);
    std::fflush(stdout);
  }
  route.end(before);
}

bool measure_all(const bench::Arguments& arguments) {
  const KernelTable<float>& table = kernels<float>();
  if (!arguments.json) std::printf("rapt %s, %s\n", build_info(), table.isa);
  if (!table.tiles) {
    std::fputs("no tile registers: nothing to measure\n", stderr);
    return true;
  }
  if (!arguments.json)
    std::printf("%-24s %-10s %8s %10s %6s\n", "case", "piece", "cycles", "% of peak", "GHz");
  struct Way {
    const char* name;
    DType dtype;
    const Route* const* routes;
  };
  const Way ways[] = {{"bf16", DType::bf16, table.tiles},
                      {"f32", DType::f32, table.tiles},
                      {"f16", DType::f16, table.tiles},
                      {"f32 fast", DType::f32, table.fast_tiles}};
  bool any = false;
  for (const Way& way : ways)
    for (const int64_t dims : {64, 128}) {
      if (arguments.quick && dims > 64) continue;
      const Route& route = *way.routes[static_cast<int>(way.dtype)];
      const std::string name = std::string(way.name) + " d=" + std::to_string(dims);
      const auto wanted = [&](const std::string& pass) {
        const bool yes = arguments.wants(name + " " + pass);
        any |= yes;
        return yes;
      };
      if (wanted("forward")) measure<Forward>(arguments, name + " forward", route, way.dtype, dims);
      if (wanted("backward"))
        measure<Backward>(arguments, name + " backward", route, way.dtype, dims);
    }
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benchmark(
      argc, argv, "usage: bench_tile_stages [--filter TEXT] [--repetitions N] [--quick] [--json]\n",
      measure_all);
}
