// Chooses the prefilter of this machine, if it has one.
#include "kernels/prefilter/prefilter.h"

#include <cstring>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#if RAPT_HAS_PREFILTER_VNNI
#include "kernels/prefilter/prefilter_vnni.h"
#endif

namespace rapt {

const PrefilterKernels* score_prefilter() {
#if RAPT_HAS_PREFILTER_VNNI
  static const bool there = cpu_has("avx512_vnni");
  const char* const isa = kernels<float>().isa;
  const bool goes_with = std::strcmp(isa, "avx512") == 0 || kernels<float>().tiles != nullptr;
  if (there && goes_with) return &isa_avx512_vnni::prefilter();
#endif
  return nullptr;
}

}  // namespace rapt
