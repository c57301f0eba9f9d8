#pragma once
// The CPU quota of the cgroups of this process.
#include <string>

namespace rapt {

// The least quota / period of the process's cgroup and all above it that can be seen: cpu.max of
// version 2, cpu.cfs_quota_us / cpu.cfs_period_us of version 1. 0: none of them has a quota. `root`
// stands before every path, "" for this machine.
double cgroup_cpus(const std::string& root);

}  // namespace rapt
