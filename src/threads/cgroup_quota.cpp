// Formats: cgroups(7), proc_pid_mountinfo(5), and the kernel's admin-guide/cgroup-v2.rst and
// scheduler/sched-bwc.rst. A file that is missing or says something else has no quota: it is
// written by the kernel, and a sandbox may hide it.
#include "threads/cgroup_quota.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace rapt {
namespace {

struct Hierarchy {
  bool version2 = false;
  std::string mount;  // where its files are
  std::string top;    // the cgroup that is seen there
};

std::vector<std::string> words(const std::string& text, char between) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, between);) result.push_back(word);
  return result;
}

bool among(const std::string& word, const std::string& list) {
  const std::vector<std::string> all = words(list, ',');
  return std::find(all.begin(), all.end(), word) != all.end();
}

// Spaces, tabs, newlines and backslashes are written as \ and three octal digits.
std::string unescaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

// "36 35 98:0 /top /mount rw,noatime shared:1 - cgroup2 cgroup rw": a varying number of fields
// before the dash.
std::optional<Hierarchy> hierarchy_of(const std::string& line) {
  const std::vector<std::string> all = words(line, ' ');
  const auto dash = std::find(all.begin(), all.end(), "-");
  if (dash - all.begin() < 6 || all.end() - dash < 4) return {};
  const bool version2 = dash[1] == "cgroup2";
  if (!version2 && !(dash[1] == "cgroup" && among("cpu", dash[3]))) return {};
  return Hierarchy{version2, unescaped(all[4]), unescaped(all[3])};
}

// The process's path in the hierarchy: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
std::optional<std::string> path_in(const Hierarchy& hierarchy, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.version2 ? line.starts_with("0::") : among("cpu", controllers))
      return line.substr(second + 1);
  }
  return {};
}

// 0: no quota.
double quota_of(const std::string& folder, bool version2) {
  double quota = 0, period = 0;
  if (version2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;  // "max 100000" is no number
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

double cgroup_cpus(const std::string& root) {
  double least = 0;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Hierarchy> hierarchy = hierarchy_of(line);
    if (!hierarchy) continue;
    std::string below = path_in(*hierarchy, root).value_or("");
    // Only the part of the hierarchy below the mount's top is visible.
    if (hierarchy->top != "/") {
      const bool inside = below == hierarchy->top || below.starts_with(hierarchy->top + "/");
      below = inside ? below.substr(hierarchy->top.size()) : "";
    }
    if (below == "/" || !below.starts_with('/') || below.find("/..") != std::string::npos)
      below = "";
    for (bool more = true; more;) {
      const double cpus = quota_of(root + hierarchy->mount + below, hierarchy->version2);
      if (cpus > 0) least = least > 0 ? std::min(least, cpus) : cpus;
      more = !below.empty();
      below.resize(more ? below.rfind('/') : 0);
    }
  }
  return least;
}

}  // namespace rapt
