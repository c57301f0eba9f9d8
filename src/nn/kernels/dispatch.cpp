// The tables of layers that go with the kernel table in use.
#include <cstring>

#include "base/cpu.h"
#include "nn/kernels/layer_kernels.h"

// Written by CMake: one RAPT_X(name) per set with vectors of its own, worst first.
#define RAPT_X(isa)                          \
  namespace rapt::isa_##isa {                \
    nn::LayerTables layer_tables() noexcept; \
  }
#include "rapt_layer_isas.inc"
#undef RAPT_X

namespace rapt::nn {
namespace {

struct LayerSet {
  const char* name;
  LayerTables (*tables)() noexcept;
};
constexpr LayerSet kLayerSets[] = {
#define RAPT_X(isa) {#isa, isa_##isa::layer_tables},
#include "rapt_layer_isas.inc"
#undef RAPT_X
};

LayerTables chosen_tables() {
  static const LayerTables tables = [] {
    const char* const name = kernels<float>().isa;
    for (const LayerSet& set : kLayerSets)
      if (std::strcmp(set.name, name) == 0) return set.tables();
    // Sets with tile registers have no layers of their own: the best vectors of the CPU.
    const LayerSet* best = kLayerSets;
    for (const LayerSet& set : kLayerSets)
      if (cpu_has(set.name)) best = &set;
    return best->tables();
  }();
  return tables;
}

}  // namespace

template <>
const LayerKernels<float>& layer_kernels<float>() {
  return *chosen_tables().f32;
}
template <>
const LayerKernels<double>& layer_kernels<double>() {
  return *chosen_tables().f64;
}

}  // namespace rapt::nn
