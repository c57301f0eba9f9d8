// Instruction sets and the 16-bit dot product of the machine, for callers in C.
#include <algorithm>
#include <string>
#include <vector>

#include "c_api/descriptors.h"
#include "c_api/failures.h"
#include "rapt/instruction_sets.h"

using namespace rapt::c_api;

extern "C" {

rapt_status rapt_instruction_sets(rapt_instruction_set* sets, size_t room, size_t* count) {
  return guarded([&] {
    if (!count) bad_argument("count is a null pointer; expected where to write");
    if (!sets && room > 0)
      bad_argument("sets is a null pointer; expected room for " + std::to_string(room));
    const std::vector<rapt::InstructionSet> all = rapt::instruction_sets();
    for (size_t i = 0; i < std::min(room, all.size()); ++i)
      sets[i] = {all[i].name, all[i].available, all[i].chosen, all[i].note};
    *count = all.size();
  });
}

rapt_status rapt_bf16_dot(rapt_bf16_dot_info* info) {
  return guarded([&] {
    check_size(info);
    const rapt::Bf16Dot& dot = rapt::bf16_dot();
    rapt_bf16_dot_info written = {};
    written.available = dot.available;
    written.used = dot.used;
    written.forced = dot.forced;
    written.speed = dot.speed;
    write_struct(written, info);
  });
}

}  // extern "C"
