#pragma once
// Goals are set per core: a percentage says nothing without it, since cores differ in what else
// they can do beside a multiply-add.

namespace bench {

struct Goal {
  double zen5 = 0, intel = 0;  // 0: none was set
};

// The column of the machine that this runs on; 0 where none is known.
double on_this_core(const Goal& goal);

}  // namespace bench
