#include "forward_cases.h"

#include <cstdint>
#include <cstdlib>

#include "goals.h"
#include "rapt/instruction_sets.h"

namespace bench {
namespace {

// Percent of the peak of the same process.
constexpr Goal kFull64{88, 82}, kFull128{88, 84}, kCausal{82, 79}, kWindow{70, 66},
    kLongformer{65, 65}, kBigBird{60, 60}, kAvx2{84, 78}, kOdd{75, 72}, kBf16Full64{80, 76},
    kBf16Full128{84, 76}, kBf16Causal{75, 70}, kF16{78, 74}, kNone{};

bool avx2_is_forced() {
  const char* forced = std::getenv("RAPT_ISA");
  return forced && std::string(forced) == "avx2";
}

std::string text_of(const char* letter, int64_t number) { return letter + std::to_string(number); }

// Two heads, so that the end of one head and the start of the next overlap.
SpeedCase square(const std::string& group, int64_t head_dim, int64_t n, const std::string& fields,
                 const Goal& goal) {
  return {group + text_of(" d=", head_dim) + text_of(" n=", n),
          text_of("h2q", n) + text_of("k", n) + text_of("d", head_dim) + fields,
          on_this_core(goal)};
}

constexpr int64_t kHeadDims[] = {64, 128}, kLengths[] = {1024, 2048, 4096, 8192};

void add_squares(std::vector<SpeedCase>& cases, const std::string& dtype, const Goal& full64,
                 const Goal& full128) {
  const std::string group = dtype.empty() ? "full" : dtype + " full";
  for (const int64_t d : kHeadDims)
    for (const int64_t n : kLengths)
      cases.push_back(
          square(group, d, n, dtype.empty() ? "" : ":" + dtype, d == 64 ? full64 : full128));
}

void add_causal(std::vector<SpeedCase>& cases, const std::string& dtype, const Goal& goal) {
  for (const int64_t d : kHeadDims)
    for (const int64_t n : kLengths)
      if (n >= 2048)
        cases.push_back(square(dtype.empty() ? "causal" : dtype + " causal", d, n,
                               (dtype.empty() ? "" : ":" + dtype) + ":mask=causal", goal));
}

}  // namespace

std::vector<SpeedCase> forward_cases() {
  std::vector<SpeedCase> cases;
  if (avx2_is_forced()) {
    for (const int64_t d : kHeadDims)
      for (const int64_t n : kLengths) cases.push_back(square("avx2 full", d, n, "", kAvx2));
    return cases;
  }
  add_squares(cases, "", kFull64, kFull128);
  add_causal(cases, "", kCausal);
  // A query attends to itself and the 511 keys before it.
  cases.push_back(square("window", 64, 16384, ":mask=window(511,0)", kWindow));
  for (const int64_t n : {16384, 65536})
    cases.push_back(
        square("window, 16 global", 64, n, ":mask=window(256,256)|global(16)", kLongformer));
  // Most scores of their tiles are masked out: beside the plain rate of the tiles that plan()
  // counts.
  cases.push_back(square("7x7 of 56x56", 64, 3136, ":mask=neighborhood(7,56,7,56)", kNone));
  cases.push_back(square("strided", 64, 16384, ":mask=strided(128)", kNone));
  for (const int64_t n : {4096, 16384})
    cases.push_back(square("bigbird", 64, n, ":mask=bigbird(64,3,1,3)", kBigBird));
  // Head sizes and lengths that fill no vector, no tile and no block.
  for (const int64_t d : {40, 80, 96, 256})
    for (const int64_t q : {1000, 1001})
      cases.push_back({text_of("odd d=", d) + text_of(" q=", q) + " k=4096",
                       text_of("h2q", q) + "k4096" + text_of("d", d), on_this_core(kOdd)});
  // The goals on Zen 5 are of the 16-bit dot product, on Intel of f32: see timing/peak.h.
  add_squares(cases, "bf16", kBf16Full64, kBf16Full128);
  add_causal(cases, "bf16", kBf16Causal);
  // Beside the percentage of the plain bf16 rows.
  for (const int64_t n : {16384, 65536})
    cases.push_back(
        square("bf16 window, 16 global", 64, n, ":bf16:mask=window(256,256)|global(16)", kNone));
  for (const int64_t n : {4096, 16384})
    cases.push_back(square("bf16 bigbird", 64, n, ":bf16:mask=bigbird(64,3,1,3)", kNone));
  add_squares(cases, "f16", kF16, kF16);
  for (const int64_t d : kHeadDims) cases.push_back(square("f64 full", d, 2048, ":f64", kNone));
  // Many short sequences.
  for (const int64_t n : {16, 32, 64, 128, 256})
    cases.push_back({text_of("batch 8, 12 heads, d=64 n=", n),
                     text_of("b8h12q", n) + text_of("k", n) + "d64", on_this_core(kNone)});
  return cases;
}

}  // namespace bench
