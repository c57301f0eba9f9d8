#include "forward_cases.h"

#include <cstdlib>
#include <fstream>

#include "rapt/instruction_sets.h"

namespace bench {
namespace {

// The columns of the goals: a percentage says nothing without the core, since cores differ in what
// else they can do beside a multiply-add.
enum class Core : uint8_t { zen5, intel_avx512, other };

struct Goal {  // percent of the FMA peak of the same process
  double zen5, intel;
};
constexpr Goal kFull64{88, 82}, kFull128{88, 84}, kCausal{82, 79}, kWindow{70, 66}, kAvx2{84, 78},
    kOdd{75, 72};

Core this_core() {
  bool has_avx512 = false;
  for (const rapt::InstructionSet& set : rapt::instruction_sets())
    has_avx512 |= set.available && std::string(set.name) == "avx512";
  if (!has_avx512) return Core::other;
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, vendor, family;
  const auto value = [&line] { return line.substr(line.find(':') + 2); };
  while (std::getline(cpuinfo, line) && !line.empty()) {  // the first CPU ends at an empty line
    if (line.starts_with("vendor_id")) vendor = value();
    if (line.starts_with("cpu family")) family = value();
  }
  if (vendor == "AuthenticAMD" && family == "26") return Core::zen5;  // Zen 4 (25) halves 512 bits
  if (vendor == "GenuineIntel") return Core::intel_avx512;
  return Core::other;
}

double on_this_core(const Goal& goal) {
  static const Core core = this_core();
  return core == Core::zen5 ? goal.zen5 : core == Core::intel_avx512 ? goal.intel : 0;
}

bool avx2_is_forced() {
  const char* forced = std::getenv("RAPT_ISA");
  return forced && std::string(forced) == "avx2";
}

ForwardCase square(const char* group, MaskKind mask, int64_t head_dim, int64_t n,
                   const Goal& goal) {
  return {std::string(group) + " d=" + std::to_string(head_dim) + " n=" + std::to_string(n),
          mask,
          head_dim,
          n,
          n,
          on_this_core(goal)};
}

}  // namespace

std::vector<ForwardCase> forward_cases() {
  std::vector<ForwardCase> cases;
  const int64_t head_dims[] = {64, 128}, lengths[] = {1024, 2048, 4096, 8192};
  if (avx2_is_forced()) {
    for (const int64_t d : head_dims)
      for (const int64_t n : lengths)
        cases.push_back(square("avx2 full", MaskKind::none, d, n, kAvx2));
    return cases;
  }
  for (const int64_t d : head_dims)
    for (const int64_t n : lengths)
      cases.push_back(square("full", MaskKind::none, d, n, d == 64 ? kFull64 : kFull128));
  for (const int64_t d : head_dims)
    for (const int64_t n : lengths)
      if (n >= 2048) cases.push_back(square("causal", MaskKind::causal, d, n, kCausal));
  cases.push_back(square("window", MaskKind::window, 64, 16384, kWindow));
  // Head sizes and lengths that fill no vector, no tile and no block.
  for (const int64_t d : {40, 80, 96, 256})
    for (const int64_t q : {1000, 1001})
      cases.push_back({"odd d=" + std::to_string(d) + " q=" + std::to_string(q) + " k=4096",
                       MaskKind::none, d, q, 4096, on_this_core(kOdd)});
  return cases;
}

}  // namespace bench
