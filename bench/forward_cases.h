#pragma once
// The problems of the speed table, and what each must reach on the machines we know.
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

enum class MaskKind : uint8_t { none, causal, window };

struct ForwardCase {
  std::string name;
  MaskKind mask = MaskKind::none;
  int64_t head_dim = 0;  // value_dim too
  int64_t q_len = 0, k_len = 0;
  double goal_percent = 0;  // of the FMA peak, on this machine; 0: none was set for it
};

inline constexpr int64_t kHeads = 2;  // enough that one head's end meets the next one's start
inline constexpr int64_t kWindowKeys = 512;  // a query sees itself and 511 keys before it

// The cases for the instruction set in use. AVX2 that was forced by RAPT_ISA has cases of its own.
std::vector<ForwardCase> forward_cases();

}  // namespace bench
