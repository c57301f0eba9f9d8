#include "timed/timed_case.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "rapt/tensor.h"
#include "rapt/version.h"
#include "timing/peak.h"
#include "timing/sampling.h"

namespace bench {
namespace {

// Short, because a round has one: the clock and the neighbours change from round to round.
constexpr double kPeakSeconds = 0.005;
constexpr int kFewestRounds = 7;
constexpr double kMostSeconds = 1.5;  // of the rounds of a case
constexpr double kQuickWork = 2e7;

struct Measured {
  double seconds, compared, percent;  // compared: GF/s of the peak, or GB/s of reading
};

// Reads memory as fast as one thread can: several streams, fetched ahead.
class Reader {
 public:
  explicit Reader(double bytes) : numbers_(static_cast<size_t>(bytes) / sizeof(uint64_t), 1) {}
  double gigabytes_per_second() {
    const auto read = [&] { sum_ = sum_of_all(); };
    return static_cast<double>(numbers_.size() * sizeof(uint64_t)) * 1e-9 /
           timing::seconds_per_call(1, read);
  }

 private:
  uint64_t sum_of_all() const {
    constexpr size_t kStreams = 8, kLine = 8, kAhead = 64;
    const size_t stride = numbers_.size() / kStreams / kLine * kLine;
    uint64_t sums[kLine] = {};
    for (size_t i = 0; i < stride; i += kLine)
      for (size_t s = 0; s < kStreams; ++s) {
        const uint64_t* line = numbers_.data() + s * stride + i;
        __builtin_prefetch(line + kAhead);
        for (size_t k = 0; k < kLine; ++k) sums[k] += line[k];
      }
    uint64_t sum = 0;
    for (const uint64_t part : sums) sum += part;
    return sum;
  }
  std::vector<uint64_t> numbers_;
  volatile uint64_t sum_ = 0;  // so that reading is not left out
};

class Copier {
 public:
  Copier(double bytes, double piece)
      : from_(rapt::DType::u8, {static_cast<int64_t>(bytes)}),
        to_(rapt::DType::u8, {static_cast<int64_t>(bytes)}),
        piece_(static_cast<size_t>(piece)) {
    std::memset(from_.data(), 1, size());
  }
  double gigabytes_per_second() {
    const auto copy = [&] {
      for (size_t at = 0; at < size(); at += piece_)
        std::memcpy(bytes_of(to_) + at, bytes_of(from_) + at, piece_);
    };
    copy();  // the data of the case have taken the caches
    return static_cast<double>(size()) * 1e-9 /
           timing::seconds_per_call(timing::calls_per_sample(copy, timing::thread_cpu_seconds),
                                    copy);
  }

 private:
  static std::byte* bytes_of(rapt::Tensor& t) { return static_cast<std::byte*>(t.data()); }
  size_t size() const { return static_cast<size_t>(from_.count()); }

  rapt::Tensor from_, to_;  // aligned, as those of the case: memcpy is slow where they are not
  size_t piece_;
};

Measured measure(const TimedCase& c, int most_rounds) {
  const timing::Clock clock = c.threads == 1 ? timing::thread_cpu_seconds : timing::wall_seconds;
  c.call();  // pages, caches and the clock
  const int calls = timing::calls_per_sample(c.call, clock);
  Reader reader(c.bytes_read);
  Copier copier(c.bytes_copied, c.bytes_of_piece);
  std::vector<double> seconds, compared, percent;
  const double start = timing::wall_seconds();
  for (int i = 0; i < most_rounds; ++i) {
    if (i >= kFewestRounds && timing::wall_seconds() - start > kMostSeconds) break;
    compared.push_back(
        c.bytes_read > 0 ? reader.gigabytes_per_second()
        : c.bytes_copied > 0
            ? copier.gigabytes_per_second()
            : c.threads * timing::peak_gflops(timing::PeakInstruction::f32_fma, kPeakSeconds));
    if (c.bytes_copied > 0) c.call();  // the copies have taken the caches
    seconds.push_back(timing::seconds_per_call(calls, c.call, clock));
    const double speed = std::max({c.flops, c.bytes_read, c.bytes_copied}) * 1e-9 / seconds.back();
    percent.push_back(100 * speed / compared.back());
  }
  return {timing::median(seconds), timing::median(compared), timing::median(percent)};
}

void print(const Arguments& arguments, const char* table, const TimedCase& c, const Measured& m) {
  const char* of = c.bytes_read > 0     ? "reading"
                   : c.bytes_copied > 0 ? "memcpy"
                   : c.flops > 0        ? "peak"
                                        : "-";
  if (arguments.json)
    std::printf(
        "{\"table\": \"%s\", \"name\": \"%s\", \"ns\": %.0f, \"of\": \"%s\", \"compared\": %.2f, "
        "\"percent\": %.2f}\n",
        table, c.name.c_str(), m.seconds * 1e9, of, m.compared, m.percent);
  else if (of[0] == '-')
    std::printf("%-44s %14.0f\n", c.name.c_str(), m.seconds * 1e9);
  else
    std::printf("%-44s %14.0f %8s %8.1f %8.1f\n", c.name.c_str(), m.seconds * 1e9, of, m.compared,
                m.percent);
  std::fflush(stdout);
}

}  // namespace

bool measure_cases(const Arguments& arguments, const char* table,
                   const std::vector<CaseMaker>& cases) {
  if (!arguments.json)
    std::printf("rapt %s\n%-44s %14s %8s %8s %8s\n", rapt::build_info(), table, "ns", "of", "G/s",
                "%");
  bool any = false;
  for (const CaseMaker& maker : cases) {
    if (!arguments.wants(maker.name) || (arguments.quick && maker.work > kQuickWork)) continue;
    any = true;
    TimedCase c = maker.make();
    c.name = maker.name;
    print(arguments, table, c, measure(c, arguments.repetitions));
  }
  return any;
}

}  // namespace bench
