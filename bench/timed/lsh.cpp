// LSH attention beside exact attention in the same process, in turn: f32, d = 64, causal, chunks of
// 64, shared keys.
//
//   bench_lsh [N ...]       lengths; default: 8192 16384 65536
//
// For each length: milliseconds of both, forward and with gradients, and their ratio, the best of
// some runs. Then, for the last length: what takes the time of LSH attention (its hashes and the
// engine's products measured alone; the rest is sort, gather, mask and scatter), the growth with
// rounds, and two heads on two threads.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <random>
#include <vector>

#include "rapt/rapt.h"

namespace {

using rapt::AttentionOptions;
using rapt::TensorView;

constexpr int64_t kDim = 64, kChunk = 64;

template <class Work>
double milliseconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

template <class Work>
double best(int runs, const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) least = std::min(least, milliseconds(work));
  return least;
}

// Rows of one or more heads, and the memory of a call.
struct Rows {
  int64_t heads, length;
  std::vector<float> query, value, d_output;

  Rows(int64_t head_count, int64_t n)
      : heads(head_count), length(n), query(count()), value(count()), d_output(count()) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (auto* part : {&query, &value, &d_output})
      for (float& x : *part) x = normal(generator);
  }
  size_t count() const { return static_cast<size_t>(heads * length * kDim); }
  TensorView view(const std::vector<float>& rows) const {
    return TensorView(rows.data(), {heads, length, kDim});
  }
};

// A forward call with memory of its own, and a backward call, on the given number of threads.
class Call {
 public:
  Call(const Rows& rows, const rapt::Method* method, int threads)
      : rows_(rows),
        output_(rapt::DType::f32, {rows.heads, rows.length, kDim}),
        lse_(rapt::DType::f32, {rows.heads, rows.length}) {
    context_.threads = threads;
    options_.masks = {&causal_};
    options_.method = method;
    const TensorView query = rows.view(rows.query);
    workspace_.resize(
        rapt::workspace_bytes(query, query, rows.view(rows.value), options_, context_));
  }
  Call(const Call&) = delete;

  size_t workspace_bytes() const { return workspace_.size(); }
  void forward() {
    rapt::AttentionOutputs outputs;
    outputs.state = {output_.view(), lse_.view()};
    const TensorView query = rows_.view(rows_.query);
    rapt::scaled_dot_product_attention(query, query, rows_.view(rows_.value), options_, outputs,
                                       workspace_, context_);
  }
  void backward() {
    const TensorView query = rows_.view(rows_.query);
    rapt::BackwardInputs inputs;
    inputs.state = {output_.view(), lse_.view()};
    inputs.d_output = rows_.view(rows_.d_output);
    rapt::BackwardRequest request;
    request.key = !options_.method;  // d_query of shared keys holds both
    rapt::scaled_dot_product_attention_backward(query, query, rows_.view(rows_.value), options_,
                                                inputs, request, context_);
  }

 private:
  const Rows& rows_;
  rapt::Tensor output_, lse_;
  rapt::Causal causal_;
  AttentionOptions options_;
  rapt::Context context_;
  std::vector<std::byte> workspace_;
};

rapt::Lsh lsh_of(int64_t rounds) {
  rapt::Lsh lsh(rounds);
  lsh.chunk = kChunk;
  return lsh;
}

void compare_with_exact(int64_t length) {
  const Rows rows(1, length);
  const rapt::Lsh lsh = lsh_of(4);
  Call by_lsh(rows, &lsh, 1), exact(rows, nullptr, 1);
  double forward[2] = {1e300, 1e300}, both[2] = {1e300, 1e300};
  for (int turn = 0; turn < 2; ++turn) {
    const auto run = [&](Call& call, int which) {
      const double f = best(1, [&] { call.forward(); });
      const double b = best(1, [&] { call.backward(); });
      forward[which] = std::min(forward[which], f);
      both[which] = std::min(both[which], f + b);
    };
    run(by_lsh, 0);
    run(exact, 1);
  }
  std::printf(
      "%7lld  forward %8.1f ms, exact %8.1f ms, %5.1f x   with gradients %8.1f ms, exact "
      "%8.1f ms, %5.1f x   workspace %.1f n d floats\n",
      static_cast<long long>(length), forward[0], forward[1], forward[1] / forward[0], both[0],
      both[1], both[1] / both[0],
      static_cast<double>(by_lsh.workspace_bytes()) / static_cast<double>(4 * length * kDim));
}

// The same products without masks, in place: chunks of queries by the keys of two chunks.
double products(const Rows& rows, int64_t rounds) {
  const int64_t chunks = rows.length / kChunk - 1;
  const TensorView query(rows.query.data() + kChunk * kDim, {chunks, kChunk, kDim});
  const auto keys = [&](const std::vector<float>& of) {
    return TensorView(of.data(), {chunks, 2 * kChunk, kDim}, {kChunk * kDim, kDim, 1});
  };
  rapt::Context context;
  context.threads = 1;
  return static_cast<double>(rounds) * best(3, [&] {
           rapt::scaled_dot_product_attention(query, keys(rows.query), keys(rows.value), {},
                                              context);
         });
}

void tell_shares(int64_t length) {
  const Rows rows(1, length);
  const rapt::Lsh lsh = lsh_of(4);
  Call call(rows, &lsh, 1);
  const double whole = best(3, [&] { call.forward(); });
  const TensorView query = rows.view(rows.query), value = rows.view(rows.value);
  const double hash =
      best(3, [&] { rapt::lsh_buckets(query, query, value, AttentionOptions{.method = &lsh}); });
  const double product = products(rows, lsh.rounds);
  std::printf("shares   hash %.0f %%, products %.0f %%, sort, gather, mask and scatter %.0f %%\n",
              100 * hash / whole, 100 * product / whole, 100 * (whole - hash - product) / whole);
}

void tell_growth(int64_t length) {
  const Rows rows(1, length);
  double of_one = 0;
  for (const int64_t rounds : {1, 2, 4, 8}) {
    const rapt::Lsh lsh = lsh_of(rounds);
    Call call(rows, &lsh, 1);
    const double ms = best(3, [&] { call.forward(); });
    if (rounds == 1) of_one = ms;
    std::printf("rounds %lld  %8.1f ms, %.2f x the first for each round\n",
                static_cast<long long>(rounds), ms, ms / of_one / static_cast<double>(rounds));
  }
}

void tell_threads(int64_t length) {
  const Rows rows(2, length);
  const rapt::Lsh lsh = lsh_of(4);
  Call one(rows, &lsh, 1), two(rows, &lsh, 2);
  const double alone = best(3, [&] { one.forward(); });
  const double together = best(3, [&] { two.forward(); });
  std::printf("2 heads, 2 threads: %.1f ms, %.2f x one thread\n", together, alone / together);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<int64_t> lengths;
    for (int i = 1; i < argc; ++i) lengths.push_back(std::atoll(argv[i]));
    if (lengths.empty()) lengths = {8192, 16384, 65536};
    for (const int64_t length : lengths) compare_with_exact(length);
    tell_shares(lengths.back());
    tell_growth(lengths.back());
    tell_threads(lengths.back());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
