#include "backward_cases.h"

#include <cstdint>

#include "goals.h"

namespace bench {
namespace {

// Percent of the peak of the same process: on Zen 5 that of bf16 is the 16-bit dot product's, on
// Intel it is f32's (timing/peak.h).
constexpr Goal kFull{86, 81}, kCausal{76, 73}, kLongformer{60, 60}, kBf16{60, 74}, kBigBird{50, 50},
    kNone{};

constexpr int64_t kHeadDims[] = {64, 128}, kLengths[] = {1024, 2048, 4096, 8192};

std::string text_of(const char* letter, int64_t number) { return letter + std::to_string(number); }

// Two heads, so that the end of one head and the start of the next overlap.
void add_squares(std::vector<SpeedCase>& cases, const std::string& group, const std::string& fields,
                 const Goal& goal) {
  for (const int64_t d : kHeadDims)
    for (const int64_t n : kLengths)
      cases.push_back({group + text_of(" d=", d) + text_of(" n=", n),
                       text_of("h2q", n) + text_of("k", n) + text_of("d", d) + fields,
                       on_this_core(goal)});
}

}  // namespace

std::vector<SpeedCase> backward_cases() {
  std::vector<SpeedCase> cases;
  add_squares(cases, "full", "", kFull);
  add_squares(cases, "causal", ":mask=causal", kCausal);
  for (const int64_t n : {16384, 65536})
    for (const char* const dtype : {"", ":bf16"})
      cases.push_back(
          {std::string(*dtype ? "bf16 " : "") + text_of("window, 16 global d=64 n=", n),
           text_of("h2q", n) + text_of("k", n) + "d64" + dtype + ":mask=window(256,256)|global(16)",
           on_this_core(*dtype ? kNone : kLongformer)});
  // Most scores of their tiles are masked out.
  cases.push_back({"7x7 of 56x56 d=64 n=3136", "h2q3136k3136d64:mask=neighborhood(7,56,7,56)",
                   on_this_core(kNone)});
  cases.push_back(
      {"strided d=64 n=16384", "h2q16384k16384d64:mask=strided(128)", on_this_core(kNone)});
  add_squares(cases, "bf16 full", ":bf16", kBf16);
  add_squares(cases, "bf16 causal", ":bf16:mask=causal", kNone);
  add_squares(cases, "f16 full", ":f16", kNone);
  add_squares(cases, "f16 causal", ":f16:mask=causal", kNone);
  for (const int64_t n : {4096, 16384})
    for (const char* const dtype : {"", ":bf16"})
      cases.push_back(
          {std::string(*dtype ? "bf16 " : "") + text_of("bigbird d=64 n=", n),
           text_of("h2q", n) + text_of("k", n) + "d64" + dtype + ":mask=bigbird(64,3,1,3)",
           on_this_core(*dtype ? kNone : kBigBird)});
  cases.push_back({"f64 full d=64 n=2048", "h2q2048k2048d64:f64", on_this_core(kNone)});
  cases.push_back({"d=64 d_v=32 n=2048", "h2q2048k2048d64v32", on_this_core(kNone)});
  // Many short sequences.
  for (const int64_t n : {16, 64, 256})
    cases.push_back({text_of("batch 8, 12 heads, d=64 n=", n),
                     text_of("b8h12q", n) + text_of("k", n) + "d64", on_this_core(kNone)});
  return cases;
}

}  // namespace bench
