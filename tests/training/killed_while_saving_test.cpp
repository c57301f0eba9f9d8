// A process that is killed while it saves leaves checkpoints that open.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/tensors/random.h"
#include "small_run.h"

namespace {

using namespace small_run;

constexpr int kKills = 20;

[[noreturn]] void save_until_killed(const std::string& folder, const TrainingData& data) {
  TrainingSettings settings = small_settings();
  settings.steps = 1'000'000;
  try {
    Trainer trainer(small_spec(nn::LanguageModelLayout::qwen3, data), settings, data,
                    {.threads = 1});
    while (true) {
      const int64_t step = trainer.step().step;
      save_checkpoint(folder, trainer.checkpoint(), step % 3 == 0);
    }
  } catch (...) {
    _exit(1);
  }
}

TEST(KilledWhileSaving, LeavesACheckpointThatOpens) {
  const TemporaryFolder folder;
  const TrainingData data = data_of(repeated_text());
  check::Random random(1);
  int64_t opened = 0;
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_until_killed(folder.path(), data);
    // Until there is a first checkpoint, and then for a time in which several are written.
    while (!has_checkpoint(folder.path()) && waitpid(child, nullptr, WNOHANG) == 0) usleep(1000);
    usleep(static_cast<useconds_t>(random.between(0, 100'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the process could not save";
    for (const char* const link : {kLatest, kBest}) {
      if (!std::filesystem::is_symlink(folder.path() + link)) continue;
      Trainer trainer(load_checkpoint(folder.path() + link), data);
      EXPECT_GE(trainer.state().step, 0);
      ++opened;
    }
  }
  EXPECT_GE(opened, kKills);
}

}  // namespace
