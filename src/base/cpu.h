#pragma once
// What the CPU and the operating system support.

namespace rapt {

// May code compiled for the instruction set `isa` run here? False for a name it does not know.
bool cpu_has(const char* isa) noexcept;

}  // namespace rapt
