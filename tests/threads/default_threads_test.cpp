// The default number of threads: CPUs, cgroup quotas (in made-up file trees) and RAPT_THREADS.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "rapt/error.h"
#include "rapt/thread_pool.h"
#include "threads/cgroup_quota.h"

namespace {

namespace fs = std::filesystem;

class Tree {
 public:
  Tree() {
    std::string name = fs::temp_directory_path() / "rapt_cgroup_XXXXXX";
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    root_ = name;
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Tree& file(const std::string& path, const std::string& text) {
    const fs::path full = root_.string() + path;
    fs::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  double cpus() const { return rapt::cgroup_cpus(root_.string()); }

 private:
  fs::path root_;
};

const std::string kVersion2 =
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kVersion1 =
    "32 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:12 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:29 / /sys/fs/cgroup/cpuset rw,nosuid shared:13 master:2 - cgroup cgroup rw,cpuset\n";

TEST(CgroupCpus, NothingIsKnown) {
  EXPECT_EQ(Tree().cpus(), 0);
  EXPECT_EQ(Tree().file("/proc/self/mountinfo", kVersion2).cpus(), 0);
  EXPECT_EQ(Tree().file("/proc/self/cgroup", "0::/a\n").cpus(), 0);
}

TEST(CgroupCpus, Version2TheLeastOfThePath) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kVersion2).file("/proc/self/cgroup", "0::/pods/one/inner\n");
  tree.file("/sys/fs/cgroup/pods/one/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(tree.cpus(), 0);
  tree.file("/sys/fs/cgroup/pods/one/cpu.max", "250000 100000\n");
  EXPECT_EQ(tree.cpus(), 2.5);
  tree.file("/sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
  EXPECT_EQ(tree.cpus(), 2.5);
  tree.file("/sys/fs/cgroup/cpu.max", "50000 50000\n");
  EXPECT_EQ(tree.cpus(), 1);
  tree.file("/sys/fs/cgroup/pods/one/inner/cpu.max", "5000 10000\n");
  EXPECT_EQ(tree.cpus(), 0.5);
  // The quota of a sibling cgroup has no effect.
  tree.file("/sys/fs/cgroup/pods/two/cpu.max", "1000 100000\n");
  EXPECT_EQ(tree.cpus(), 0.5);
}

TEST(CgroupCpus, Version2AtTheRoot) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kVersion2).file("/proc/self/cgroup", "0::/\n");
  tree.file("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(tree.cpus(), 4);
}

TEST(CgroupCpus, Version1) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kVersion1);
  tree.file("/proc/self/cgroup", "7:cpuset:/elsewhere\n4:cpu,cpuacct:/jobs/a:b\n0::/\n");
  const std::string cpu = "/sys/fs/cgroup/cpu,cpuacct";
  tree.file(cpu + "/jobs/a:b/cpu.cfs_quota_us", "-1\n");
  tree.file(cpu + "/jobs/a:b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(tree.cpus(), 0);
  tree.file(cpu + "/jobs/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(tree.cpus(), 0) << "a quota without its period";
  tree.file(cpu + "/jobs/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(tree.cpus(), 3);
  tree.file("/sys/fs/cgroup/cpuset/elsewhere/cpu.cfs_quota_us", "100000\n");
  tree.file("/sys/fs/cgroup/cpuset/elsewhere/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(tree.cpus(), 3) << "cpuset has no quota";
}

// A container's own cgroup is the top of the mount, but /proc shows the host's path.
TEST(CgroupCpus, OnlyPartOfTheHierarchyIsMounted) {
  Tree tree;
  tree.file("/proc/self/mountinfo",
            "40 31 0:28 /docker/f00 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  tree.file("/proc/self/cgroup", "4:cpu:/docker/f00/inner\n");
  const std::string cpu = "/sys/fs/cgroup/cpu";
  tree.file(cpu + "/cpu.cfs_quota_us", "600000\n").file(cpu + "/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(tree.cpus(), 6);
  tree.file(cpu + "/inner/cpu.cfs_quota_us", "200000\n");
  tree.file(cpu + "/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(tree.cpus(), 2);
  tree.file("/proc/self/cgroup", "4:cpu:/docker/f00d/inner\n");
  EXPECT_EQ(tree.cpus(), 6) << "a path that is not below what is mounted";
  tree.file("/proc/self/cgroup", "4:cpu:/docker/f00/../other\n");
  EXPECT_EQ(tree.cpus(), 6) << "a path that leaves what is mounted";
}

TEST(CgroupCpus, BothVersionsAtOnce) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kVersion1 + kVersion2);
  tree.file("/proc/self/cgroup", "4:cpu,cpuacct:/a\n0::/b\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "500000\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(tree.cpus(), 5);
  tree.file("/sys/fs/cgroup/b/cpu.max", "300000 100000\n");
  EXPECT_EQ(tree.cpus(), 3);
}

TEST(CgroupCpus, EscapedMountPoints) {
  Tree tree;
  tree.file("/proc/self/mountinfo", "30 22 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  tree.file("/proc/self/cgroup", "0::/\n").file("/my groups/cpu.max", "700000 100000\n");
  EXPECT_EQ(tree.cpus(), 7);
}

TEST(CgroupCpus, NonsenseIsNoQuota) {
  Tree tree;
  for (const char* mounts :
       {"", "\n", "-", " - ", "1 2 3 4 5 6 -", "1 2 3 / /sys/fs/cgroup rw - cgroup2"})
    for (const char* groups : {"", "\n", ":", "0:", "0::", "0::x", "::::", "0::/../..\n"})
      for (const char* quota : {"", "max", "x y", "-5 100", "100000", "100000 0", "0 100000"}) {
        tree.file("/proc/self/mountinfo", mounts + kVersion2).file("/proc/self/cgroup", groups);
        tree.file("/sys/fs/cgroup/cpu.max", quota);
        EXPECT_EQ(tree.cpus(), 0) << mounts << "|" << groups << "|" << quota;
      }
}

// Sets RAPT_THREADS; null unsets it.
class Wanted {
 public:
  explicit Wanted(const char* threads) {
    if (const char* now = std::getenv("RAPT_THREADS")) before_ = now;
    set(threads);
  }
  ~Wanted() { set(before_.empty() ? nullptr : before_.c_str()); }
  Wanted(const Wanted&) = delete;
  Wanted& operator=(const Wanted&) = delete;

 private:
  static void set(const char* threads) {
    threads ? setenv("RAPT_THREADS", threads, 1) : unsetenv("RAPT_THREADS");
  }
  std::string before_;
};

TEST(DefaultThreads, NoMoreThanTheCpus) {
  cpu_set_t cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const Wanted wanted(unset);
    EXPECT_GE(rapt::default_threads(), 1);
    EXPECT_LE(rapt::default_threads(), CPU_COUNT(&cpus));
  }
}

TEST(DefaultThreads, FollowTheMaskOfTheProcess) {
  const Wanted wanted(nullptr);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(rapt::default_threads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(DefaultThreads, EnvironmentOverrides) {
  for (const int threads : {1, 3, 64, rapt::ThreadPool::kMostThreads}) {
    const Wanted wanted(std::to_string(threads).c_str());
    EXPECT_EQ(rapt::default_threads(), threads);
    EXPECT_EQ(rapt::ThreadPool().concurrency(), threads);
  }
}

TEST(DefaultThreads, BadEnvironmentIsAnError) {
  for (const char* bad :
       {"0", "-1", "8193", "99999999999999999999", "2x", " 2", "two", "0x4", "+4"}) {
    const Wanted wanted(bad);
    try {
      rapt::default_threads();
      ADD_FAILURE() << bad;
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::argument);
      EXPECT_NE(std::string(error.what()).find(std::string("RAPT_THREADS=") + bad),
                std::string::npos);
    }
    EXPECT_NO_THROW(rapt::ThreadPool(2)) << "an explicit number does not ask the environment";
  }
}

}  // namespace
