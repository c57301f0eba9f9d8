#pragma once
// What the CPU and the operating system support.
#include <string>

namespace rapt {

// May code compiled for the instruction set `isa` run here? False for a name it does not know.
bool cpu_has(const char* isa) noexcept;

// What else is to be said of it (InstructionSet::note); static.
const char* note_of(const char* isa);

// What stands between a process and tile registers.
struct TileSupport {
  bool in_cpu = false;
  bool saved = false;  // does the system save them when it switches between threads?
  int error = 0;       // the system's answer to a process that asks for their memory; 0: granted

  bool usable() const noexcept { return in_cpu && saved && error == 0; }
  // Why they are not, where that is not the CPU's doing; else empty.
  std::string refusal() const;
};

}  // namespace rapt
