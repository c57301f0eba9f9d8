#pragma once
// Kernel tables of the scalar words with the trial variants in place of the catalogue.
#include "attention/forward/forward.h"
#define RAPT_ISA isa_scalar  // namespace of the words of scalar.h that all sets share
#include "kernels/simd/scalar.h"
#undef RAPT_ISA
namespace rapt::isa_trial {
using namespace rapt::isa_scalar;
}
#define RAPT_ISA isa_trial
#define RAPT_ISA_NAME "trial"
#include "contracts/trial_normalizers.h"
#include "kernels/vector/table.simd.h"

namespace rapt::trial {

using TrialNormalizers = TypeList<Softmax1, Sigmoid, Entmax15>;
using TrialScores = TypeList<SoftCap, Distance>;

template <class V>
const KernelTable<typename V::Element>& trial_table() {
  return isa_trial::Tables<V, TrialNormalizers, TrialScores>::table;
}

}  // namespace rapt::trial
