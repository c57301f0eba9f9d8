// Compiled once per instruction set; see rapt_add_isa() in cmake/.
#include RAPT_ISA_HEADER
#include "kernels/vector/table.simd.h"
