// Does this machine have a sieve?
#include "kernels/sieve.h"

#include <cstring>

#include "base/cpu.h"
#include "kernels/kernel_table.h"
#if RAPT_HAS_SIEVE_VNNI
#include "kernels/sieve_vnni.h"
#endif

namespace rapt {

const SieveKernels* score_sieve() {
#if RAPT_HAS_SIEVE_VNNI
  static const bool there = cpu_has("avx512_vnni");
  if (there && std::strcmp(kernels<float>().isa, "avx512") == 0) return &isa_avx512_vnni::sieve();
#endif
  return nullptr;
}

}  // namespace rapt
