#pragma once
// Goals are set per core: a percentage means nothing without the core, because cores differ in what
// they can do beside a multiply-add.

namespace bench {

struct Goal {
  double zen5 = 0, intel = 0;  // 0: none was set
};

// The goal for this machine; 0 if there is none.
double on_this_core(const Goal& goal);

}  // namespace bench
