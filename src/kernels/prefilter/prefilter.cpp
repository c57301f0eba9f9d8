// Chooses the prefilter of this machine, if it has one.
#include "kernels/prefilter/prefilter.h"

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#if RAPT_HAS_PREFILTER_VNNI
#include "kernels/prefilter/prefilter_vnni.h"
#endif

namespace rapt {

const PrefilterKernels* score_prefilter() {
#if RAPT_HAS_PREFILTER_VNNI
  static const bool there = cpu_has("avx512_vnni");
  if (there && uses_avx512()) return &isa_avx512_vnni::prefilter();
#endif
  return nullptr;
}

}  // namespace rapt
