// Compiled once per instruction set; see CMakeLists.txt of src/nn.
#include RAPT_ISA_HEADER
#include "nn/kernels/layer_tables.simd.h"
