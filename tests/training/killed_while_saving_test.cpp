// A process that is killed while it trains and saves leaves checkpoints that open, and loses the
// updates since its last whole checkpoint alone. RAPT_KILLS is how many processes are killed.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "check/tensors/random.h"
#include "small_run.h"

namespace {

using namespace small_run;

int kills() {
  const char* const chosen = std::getenv("RAPT_KILLS");
  return chosen ? std::atoi(chosen) : 20;
}

// What a process has saved, in memory that outlives it.
struct SavedSteps {
  std::atomic<int64_t> begun = 0, done = 0;  // the steps of the last checkpoints
};

class SharedSteps {
 public:
  SharedSteps()
      : memory_(mmap(nullptr, sizeof(SavedSteps), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) std::abort();
    new (memory_) SavedSteps;
  }
  ~SharedSteps() { munmap(memory_, sizeof(SavedSteps)); }
  SharedSteps(const SharedSteps&) = delete;
  SharedSteps& operator=(const SharedSteps&) = delete;

  SavedSteps* operator->() const { return static_cast<SavedSteps*>(memory_); }

 private:
  void* memory_;
};

// Goes on from the latest checkpoint, if there is one.
[[noreturn]] void save_until_killed(const std::string& folder, const TrainingData& data,
                                    const SharedSteps& saved) {
  TrainingSettings settings = small_settings();
  settings.steps = 1'000'000;
  const Context one_thread{.threads = 1};
  try {
    const auto trainer =
        has_checkpoint(folder)
            ? std::make_unique<Trainer>(load_checkpoint(folder + kLatest), data, one_thread)
            : std::make_unique<Trainer>(small_spec(nn::LanguageModelLayout::qwen3, data), settings,
                                        data, one_thread);
    while (true) {
      const int64_t step = trainer->step().step;
      saved->begun = step;
      save_checkpoint(folder, trainer->checkpoint(), step % 3 == 0);
      saved->done = step;
    }
  } catch (...) {
    _exit(1);
  }
}

TEST(KilledWhileSaving, LeavesACheckpointThatOpensAndLosesNoOther) {
  const TemporaryFolder folder;
  const SharedSteps saved;
  const TrainingData data = data_of(repeated_text());
  check::Random random(1);
  int64_t opened = 0, cut_short = 0;
  const int processes = kills();
  for (int i = 0; i < processes; ++i) {
    const int64_t before = saved->done;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_until_killed(folder.path(), data, saved);
    // Until it has saved once, and then for a time in which several checkpoints are written.
    while (saved->done == before && waitpid(child, nullptr, WNOHANG) == 0) usleep(1000);
    usleep(static_cast<useconds_t>(random.between(0, 100'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the process could not save";
    for (const char* const link : {kLatest, kBest}) {
      if (!std::filesystem::is_symlink(folder.path() + link)) continue;
      const Trainer trainer(load_checkpoint(folder.path() + link), data);
      ++opened;
      if (link != kLatest) continue;
      // The checkpoint that was being written is there as a whole, or not at all.
      EXPECT_GE(trainer.state().step, saved->done);
      EXPECT_LE(trainer.state().step, saved->begun);
      cut_short += saved->begun != saved->done;
    }
  }
  EXPECT_GE(opened, processes);
  std::printf("%d processes were killed, %lld of them while they saved; %lld checkpoints opened\n",
              processes, static_cast<long long>(cut_short), static_cast<long long>(opened));
}

}  // namespace
