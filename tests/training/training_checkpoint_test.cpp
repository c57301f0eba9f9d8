// Checkpoints in folders: which are kept, what is rejected, and what a full disk leaves.
#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "small_run.h"
#include "support/expect_error.h"

namespace {

using namespace small_run;
namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class TrainingCheckpoint : public testing::Test {
 protected:
  TrainingCheckpoint()
      : data_(data_of(repeated_text())),
        trainer_(small_spec(nn::LanguageModelLayout::qwen3, data_), small_settings(), data_) {}

  void save(bool best = false) { save_checkpoint(folder_.path(), trainer_.checkpoint(), best); }
  std::string latest() const { return folder_.path() + kLatest; }

  TemporaryFolder folder_;
  TrainingData data_;
  Trainer trainer_;
};

TEST_F(TrainingCheckpoint, HasTheFilesOfTransformersAndItsOwn) {
  save();
  EXPECT_EQ(names_in(folder_.path()), (std::vector<std::string>{"latest", "step-000000"}));
  EXPECT_EQ(names_in(latest()),
            (std::vector<std::string>{"config.json", "model.safetensors", "optimizer.safetensors",
                                      "tokenizer.json", "tokenizer_config.json", "training.json"}));
  EXPECT_TRUE(has_checkpoint(folder_.path()));
  EXPECT_FALSE(has_checkpoint(folder_.path() + "/nothing"));
}

TEST_F(TrainingCheckpoint, TheLastAndTheBestAreKept) {
  trainer_.step();
  save(true);
  trainer_.step();
  save();
  trainer_.step();
  save();
  EXPECT_EQ(names_in(folder_.path()),
            (std::vector<std::string>{"best", "latest", "step-000001", "step-000003"}));
  EXPECT_EQ(load_checkpoint(folder_.path() + kBest).state.step, 1);
  EXPECT_EQ(load_checkpoint(latest()).state.step, 3);
  save();  // of the same step
  EXPECT_EQ(names_in(folder_.path()),
            (std::vector<std::string>{"best", "latest", "step-000001", "step-000003-2"}));
  EXPECT_EQ(load_checkpoint(latest()).state.step, 3);
}

TEST_F(TrainingCheckpoint, WhatAKilledProcessLeftIsRemoved) {
  for (const char* const name : {"/.partial", "/.removed", "/step-000007"}) {
    fs::create_directory(folder_.path() + name);
    std::ofstream(folder_.path() + name + "/config.json") << "{";
  }
  fs::create_symlink("step-000007", folder_.path() + "/.link");
  save();
  EXPECT_EQ(names_in(folder_.path()), (std::vector<std::string>{"latest", "step-000000"}));
}

TEST_F(TrainingCheckpoint, RejectsOtherTexts) {
  save();
  const TrainingData other = data_of(repeated_text() + "!");
  laws::expect_error(ErrorCode::argument, {"tokens", "tokenizer"},
                     [&] { Trainer(load_checkpoint(latest()), other); });
  const TrainingData longer = data_of(repeated_text() + ".");
  laws::expect_error(ErrorCode::argument, {"trained on other texts"},
                     [&] { Trainer(load_checkpoint(latest()), longer); });
}

TEST_F(TrainingCheckpoint, RejectsFoldersThatAreNone) {
  laws::expect_error(ErrorCode::io, {"expected the folder of a checkpoint"},
                     [&] { load_checkpoint(latest()); });
  laws::expect_error(ErrorCode::io, {"no training.json"}, [&] { load_checkpoint(folder_.path()); });
}

TEST_F(TrainingCheckpoint, RejectsFilesThatAreCutOrMissing) {
  for (const char* const name : {"config.json", "model.safetensors", "optimizer.safetensors",
                                 "tokenizer.json", "training.json"}) {
    save();
    const std::string path = latest() + "/" + name;
    fs::resize_file(path, fs::file_size(path) / 2);
    try {
      Trainer(load_checkpoint(latest()), data_);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::format) << e.what();
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
    fs::remove(path);
    laws::expect_error(ErrorCode::io, {}, [&] { load_checkpoint(latest()); });
  }
}

TEST_F(TrainingCheckpoint, RejectsAnotherModelsOptimiser) {
  save();
  const TemporaryFolder other;
  nn::LanguageModelSpec spec = small_spec(nn::LanguageModelLayout::qwen3, data_);
  spec.layers = 1;
  Trainer smaller(spec, small_settings(), data_);
  save_checkpoint(other.path(), smaller.checkpoint(), false);
  fs::copy_file(other.path() + std::string(kLatest) + "/optimizer.safetensors",
                latest() + "/optimizer.safetensors", fs::copy_options::overwrite_existing);
  laws::expect_error(ErrorCode::argument, {"optimizer.safetensors"},
                     [&] { Trainer(load_checkpoint(latest()), data_); });
}

// While it lives, no file of the process can grow beyond a limit.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : before_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limited = before_;
    limited.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_{};
  void (*before_handler_)(int);
};

TEST_F(TrainingCheckpoint, AFullDiskLeavesTheLastOne) {
  trainer_.step();
  save(true);
  const auto before = all_bytes(trainer_);
  trainer_.step();
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{100}, rlim_t{20000}, rlim_t{100000}}) {
    ErrorCode code{};
    try {
      const FileLimit limit(bytes);
      save();
    } catch (const Error& e) {
      code = e.code();
    }
    EXPECT_EQ(code, ErrorCode::io) << bytes;
    EXPECT_EQ(names_in(folder_.path()),
              (std::vector<std::string>{"best", "latest", "step-000001"}));
  }
  Trainer again(load_checkpoint(latest()), data_);
  EXPECT_EQ(all_bytes(again), before);
  trainer_.step();
  save();
  EXPECT_EQ(load_checkpoint(latest()).state.step, 3);
}

TEST_F(TrainingCheckpoint, AFolderThatCannotBeMadeIsAnError) {
  for (const std::string& folder : {folder_.path() + "/no/such", std::string("/dev/null/x")})
    laws::expect_error(ErrorCode::io, {},
                       [&] { save_checkpoint(folder, trainer_.checkpoint(), false); });
}

}  // namespace
