// Chooses the kernel table of this process: the best set that the CPU has and RAPT_ISA allows.
#include <cstdlib>
#include <string>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#include "rapt/error.h"
#include "rapt/instruction_sets.h"

// Written by CMake: one RAPT_X(name) per rapt_add_isa(), worst first.
#define RAPT_X(isa)              \
  namespace rapt::isa_##isa {    \
    IsaTables tables() noexcept; \
  }
#include "rapt_isas.inc"
#undef RAPT_X

namespace rapt {
namespace {

struct Isa {
  const char* name;
  IsaTables (*tables)() noexcept;
};
constexpr Isa kIsas[] = {
#define RAPT_X(isa) {#isa, isa_##isa::tables},
#include "rapt_isas.inc"
#undef RAPT_X
};

// The index in kIsas of the set to use.
size_t choose() {
  const char* wanted = std::getenv("RAPT_ISA");
  size_t best = 0;
  std::string known;
  for (size_t i = 0; i < std::size(kIsas); ++i) {
    known += std::string(i ? ", " : "") + kIsas[i].name;
    if (wanted && *wanted) {
      if (std::string(wanted) != kIsas[i].name) continue;
      if (!cpu_has(kIsas[i].name)) {
        const std::string note = note_of(kIsas[i].name);
        throw Error(ErrorCode::unsupported, std::string("RAPT_ISA=") + wanted +
                                                ": this machine cannot run it" +
                                                (note.empty() ? "" : " (" + note + ")") +
                                                "; unset RAPT_ISA to let rapt choose");
      }
      return i;
    }
    if (cpu_has(kIsas[i].name)) best = i;
  }
  if (wanted && *wanted)
    throw Error(ErrorCode::unknown_name,
                std::string("RAPT_ISA=") + wanted + " is unknown; this build has " + known);
  return best;
}

size_t chosen() {
  static const size_t index = choose();  // a choice that throws is repeated at the next call
  return index;
}

}  // namespace

template <>
const KernelTable<float>& kernels<float>() {
  return *kIsas[chosen()].tables().f32;
}

template <>
const KernelTable<double>& kernels<double>() {
  return *kIsas[chosen()].tables().f64;
}

bool uses_avx512() {
  const std::string isa = kernels<float>().isa;
  return isa == "avx512" || isa == "amx";
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  const size_t best = chosen();
  for (size_t i = 0; i < std::size(kIsas); ++i)
    sets.push_back({kIsas[i].name, cpu_has(kIsas[i].name), i == best, note_of(kIsas[i].name)});
  return sets;
}

}  // namespace rapt
