// The words of the instruction set that this process uses.
#include <string>

#include "kernels/words_shim.h"
#include "rapt/instruction_sets.h"

#define RAPT_X(isa)           \
  namespace rapt::isa_##isa { \
    Words all_words();        \
  }
#include "rapt_vocabularies.inc"
#undef RAPT_X

namespace rapt {

const Words& words() {
  static const Words chosen = [] {
    for (const InstructionSet& set : instruction_sets()) {
      if (!set.chosen) continue;
#define RAPT_X(isa) \
  if (std::string(set.name) == #isa) return isa_##isa::all_words();
#include "rapt_vocabularies.inc"
#undef RAPT_X
    }
    return Words{};
  }();
  return chosen;
}

}  // namespace rapt
