// rapt train FILE...: runs on texts, their folders and logs, resuming, refusals and interruption.
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/support/run_rapt.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

std::string fish_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "One fish, two fish, red fish, blue fish.\n";
  return text;
}

// A run with all sizes given, so that no speed decides anything, with pictures and without them.
const std::vector<std::string> kDrawnRun = {
    "train", "fish.txt", "--layers", "1",       "--heads", "2",      "--features",
    "16",    "--block",  "16",       "--batch", "4",       "--seed", "3"};
const std::vector<std::string> kSmallRun = [] {
  std::vector<std::string> run = kDrawnRun;
  run.emplace_back("--no-pictures");
  return run;
}();

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class TrainTextsTest : public RaptTest {
 protected:
  TrainTextsTest() { write("fish.txt", fish_text()); }

  Ran train(std::vector<std::string> arguments, const std::vector<std::string>& more,
            const How& how = {}) const {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return rapt(arguments, how);
  }

  void refused(int exit, const std::vector<std::string>& arguments,
               const std::string& message) const {
    const Ran ran = train({"train"}, arguments);
    EXPECT_EQ(ran.exit, exit) << message << "\n" << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(contains(ran.err, message)) << ran.err;
  }
};

TEST_F(TrainTextsTest, TrainsAModelThatGenerates) {
  const Ran ran = train(kSmallRun, {"--steps", "30", "--eval-every", "10"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "no status line without a terminal";
  for (const char* part : {"text      2460 bytes in 1 text, ",
                           "qwen3: layers 1, heads 2, features 16, f32", "held out", "\n      10 ",
                           "\n      30 ", "\n  | ", "model/best", "rapt generate model --prompt"})
    EXPECT_TRUE(contains(ran.out, part)) << part << " is missing in\n" << ran.out;
  int steps = 0, evaluations = 0;
  std::istringstream log(read("model/log.jsonl"));
  for (std::string line; std::getline(log, line);)
    ++(Json::parse(line).at("record") == "step" ? steps : evaluations);
  EXPECT_EQ(steps, 30);
  EXPECT_EQ(evaluations, 3);
  for (const char* folder : {"model", "model/best", "model/latest"}) {
    const Ran text = rapt({"generate", folder, "--prompt", "One", "--length", "8"});
    EXPECT_EQ(text.exit, 0) << text.err;
    EXPECT_TRUE(text.out.starts_with("One")) << text.out;
  }
}

TEST_F(TrainTextsTest, ChoosesWhatIsNotGivenForTheText) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += fish_text();
  write("long.txt", text);
  const Ran ran =
      train({"train", "long.txt"}, {"--steps", "20", "--no-pictures", "--sample-every", "0"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  for (const char* part : {"qwen3: layers 2, heads 2, features 64, f32",
                           "20 updates of 8 windows of 64 tokens, learning rate 0.002"})
    EXPECT_TRUE(contains(ran.out, part)) << part << " is missing in\n" << ran.out;
  // Byte-level BPE: 256 bytes, and the few pieces of these words.
  EXPECT_TRUE(contains(read("model/latest/tokenizer.json"), "\"ByteLevel\""));
}

// 64 KiB suffice for models of 64 and of 96 features: by time alone a budget of 3 minutes would
// choose the rate of the latter, 0.004, at the speed that is assumed where all sizes are given.
TEST_F(TrainTextsTest, TheLearningRateFollowsFromTheModelThatIsTrained) {
  std::string text;
  while (text.size() < 64 << 10) text += fish_text();
  write("long.txt", text);
  const auto rate = [&](const char* features, const char* budget) {
    const std::string folder = std::string(features) + budget;
    const Ran ran =
        rapt({"train",    "long.txt", "--tokenizer",    "characters", "--layers",      "1",
              "--heads",  "2",        "--features",     features,     "--block",       "16",
              "--batch",  "1",        "--steps",        "1",          "--budget",      budget,
              "--output", folder,     "--sample-every", "0",          "--no-pictures", "--json"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return Json::parse(ran.out).at("settings").at("learning_rate").get<double>();
  };
  EXPECT_EQ(rate("64", "3m"), 2e-3);
  EXPECT_EQ(rate("64", "30s"), 2e-3);
  EXPECT_EQ(rate("400", "3m"), 6e-4);
}

TEST_F(TrainTextsTest, DrawsTheLossAndAHeadBeforeDuringAndAfter) {
  ASSERT_EQ(train(kDrawnRun, {"--steps", "30", "--eval-every", "10"}).exit, 0);
  const std::string loss = read("model/loss.svg");
  for (const char* words : {">training<", ">held out<", ">Updates<", ">Loss in nats per token<"})
    EXPECT_TRUE(contains(loss, words)) << words;
  EXPECT_EQ(count_of(loss, "h0"), 4) << "markers of three evaluations and of the name";
  std::set<std::string> pictures;
  for (const char* step : {"000000", "000020", "000030"}) {
    const std::string name = std::string("model/attention-") + step;
    const std::string svg = read(name + ".svg");
    EXPECT_TRUE(contains(svg, "Attention weights of layer 0, head 0 after " +
                                  std::to_string(std::stoi(step)) + " updates"));
    EXPECT_TRUE(contains(svg, ">O<") && contains(svg, ">\u2423<")) << "tokens as labels";
    EXPECT_EQ(read(name + ".png").substr(1, 3), "PNG");
    pictures.insert(svg.substr(svg.find("<g ")));
  }
  EXPECT_EQ(pictures.size(), 3u) << "what the head looks at changes";
  EXPECT_EQ(read("model/loss.png").substr(1, 3), "PNG");
  EXPECT_FALSE(std::filesystem::exists(path("model/attention-000010.svg")));
}

TEST_F(TrainTextsTest, LeavesOutPictures) {
  const Ran ran = train(kSmallRun, {"--steps", "2"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_FALSE(contains(ran.out, "Pictures"));
  for (const auto& entry : std::filesystem::directory_iterator(path("model"))) {
    const std::string ending = entry.path().extension().string();
    EXPECT_FALSE(ending == ".svg" || ending == ".png") << entry.path();
  }
}

TEST_F(TrainTextsTest, TrainsOnWithoutAPictureThatCannotBeWritten) {
  std::filesystem::create_directories(path("model/loss.svg"));
  const Ran ran = train(kDrawnRun, {"--steps", "2", "--eval-every", "2"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "rapt train: no picture of step 2: ")) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(path("model/best/model.safetensors")));
}

TEST_F(TrainTextsTest, ShowsMemoryAndTheTimeToGoOnATerminal) {
  if (!has_terminals()) GTEST_SKIP() << kNoTerminal;
  const Ran ran = train(kSmallRun, {"--steps", "1000000"},
                        {.err = Stderr::terminal, .watch = [](int child, const std::string& err) {
                           if (!contains(err, "to go")) return false;
                           kill(child, SIGINT);
                           return true;
                         }});
  EXPECT_EQ(ran.exit, 130);
  const size_t peak = ran.err.find(" % of peak  "), memory = ran.err.find(" MiB   ");
  EXPECT_LT(peak, memory) << ran.err;
  EXPECT_LT(memory, ran.err.find(" to go")) << ran.err;
}

TEST_F(TrainTextsTest, PrintsADocument) {
  const Ran ran = train(kSmallRun, {"--steps", "20", "--eval-every", "10", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.train_text/1");
  EXPECT_EQ(document.at("texts").at(0), Json({{"name", "fish.txt"}, {"bytes", 2460}}));
  EXPECT_EQ(document.at("step"), 20);
  EXPECT_EQ(document.at("evaluations").size(), 2u);
  EXPECT_EQ(document.at("resumed_step"), nullptr);
  EXPECT_EQ(document.at("model").at("layers"), 1);
}

TEST_F(TrainTextsTest, AnInterruptedRunGoesOnWithTheSameBits) {
  // Long enough for a signal to come after the first checkpoint and before the end.
  const std::vector<std::string> steps = {"--steps",        RAPT_SANITIZED ? "300" : "4000",
                                          "--eval-every",   RAPT_SANITIZED ? "50" : "500",
                                          "--sample-every", "0"};
  ASSERT_EQ(train(kDrawnRun, steps).exit, 0);
  std::vector<std::string> other = steps;
  other.insert(other.end(), {"--output", "stopped"});
  const Ran stopped = train(kDrawnRun, other, {.watch = [&](int child, const std::string&) {
                              if (!std::filesystem::exists(path("stopped/latest"))) return false;
                              kill(child, SIGINT);
                              return true;
                            }});
  ASSERT_EQ(stopped.exit, 130) << stopped.err;
  EXPECT_TRUE(contains(stopped.err, " is saved as stopped/latest")) << stopped.err;
  EXPECT_TRUE(contains(stopped.err, "'rapt train fish.txt --resume stopped' goes on"))
      << stopped.err;
  const Ran resumed = rapt({"train", "fish.txt", "--resume", "stopped", "--sample-every", "0"});
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  for (const char* file :
       {"/latest/model.safetensors", "/latest/training.json", "/log.jsonl", "/loss.svg"})
    EXPECT_EQ(read(std::string("model") + file), read(std::string("stopped") + file)) << file;
  if (!RAPT_SANITIZED) {
    EXPECT_TRUE(contains(read("model/loss.svg"), "training, means of 16 updates"))
        << "250 points of 4,000 updates: at most 400 are kept";
  }
}

// Each process is killed at some moment after it has written a checkpoint, and the next one
// resumes.
TEST_F(TrainTextsTest, AKilledRunGoesOnWithTheSameBits) {
  const std::vector<std::string> steps = {"--steps",        RAPT_SANITIZED ? "300" : "4000",
                                          "--eval-every",   RAPT_SANITIZED ? "50" : "500",
                                          "--sample-every", "0"};
  ASSERT_EQ(train(kSmallRun, steps).exit, 0);
  std::vector<std::string> begin = steps;
  begin.insert(begin.end(), {"--output", "killed"});
  const std::vector<std::string> resume = {"train",  "fish.txt",       "--resume",
                                           "killed", "--sample-every", "0"};
  const auto latest = [&] {
    std::error_code none;
    return std::filesystem::read_symlink(path("killed/latest"), none);
  };
  for (int i = 0; i < 3; ++i) {
    int64_t looks = 0;
    const How killed{.watch = [&, before = latest()](int child, const std::string&) {
      if (latest() == before || ++looks < 2 * i) return false;
      kill(child, SIGKILL);
      return true;
    }};
    const Ran ran = i == 0 ? train(kSmallRun, begin, killed) : rapt(resume, killed);
    ASSERT_EQ(ran.signal, SIGKILL) << ran.err;
  }
  const Ran resumed = rapt(resume);
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  for (const char* file : {"/latest/model.safetensors", "/latest/training.json", "/log.jsonl"})
    EXPECT_EQ(read(std::string("model") + file), read(std::string("killed") + file)) << file;
}

TEST_F(TrainTextsTest, RefusesFoldersAndTextsOfOtherRuns) {
  ASSERT_EQ(train(kSmallRun, {"--steps", "2"}).exit, 0);
  refused(4, {"fish.txt"}, "model: has the checkpoint of another run");
  refused(4, {"fish.txt", "--resume", "nowhere"}, "nowhere: has no checkpoint of a run");
  refused(3, {"--text", "poems", "--resume", "model"}, "model: the run was trained on other texts");
  refused(2, {"fish.txt", "--resume", "model", "--layers", "2"}, "leave out --layers");
  refused(4, {"fish.txt", "--output", "fish.txt"}, "fish.txt: is no folder");
}

TEST_F(TrainTextsTest, RefusesWhatIsNoText) {
  write("empty.txt", "");
  write("tiny.txt", "a b c");
  write("zero.txt", std::string("ab\0cd", 5) + fish_text());
  write("latin.txt", "caf\xe9 " + fish_text());
  refused(4, {"nowhere.txt"}, "nowhere.txt");
  refused(3, {"empty.txt"}, "empty.txt: is empty");
  refused(3, {"tiny.txt"}, "tiny.txt: 5 bytes are too short a text; expected 200 or more");
  refused(3, {"zero.txt"}, "zero.txt: has a zero byte at byte 2");
  refused(3, {"latin.txt"}, "at byte 3");
  refused(3, {"fish.txt", "--steps", "1", "--block", "5000"}, "tokens to train on");
  EXPECT_FALSE(std::filesystem::exists(path("model")));
}

TEST_F(TrainTextsTest, TellsThatSizesDoNotFitTheMemory) {
  refused(5,
          {"fish.txt", "--layers", "1000", "--heads", "1024", "--features", "65536", "--block",
           "16", "--batch", "4", "--steps", "1"},
          "available");
  refused(5,
          {"fish.txt", "--layers", "1000", "--heads", "2", "--features", "16", "--block", "16384",
           "--batch", "65536", "--steps", "1"},
          "activations 1");
  EXPECT_FALSE(std::filesystem::exists(path("model")));
}

TEST_F(TrainTextsTest, RefusesWhatCannotBeMeant) {
  refused(2, {}, "expected a text to train on");
  refused(2, {}, "'rapt train FILE', 'rapt train --text poems' or 'rapt train --example copy'");
  refused(2, {"fish.txt", "--text", "poems"}, "FILE and --text: expected one of them");
  refused(2, {"--text", "verze"}, "did you mean 'verse'?");
  refused(2, {"fish.txt", "--budget", "-3m"}, "--budget: expected a time above 0");
  refused(2, {"fish.txt", "--layers", "0"}, "--layers: expected 1 to 1000, got 0");
  refused(2, {"fish.txt", "--heads", "3", "--features", "16"},
          "expected a multiple of the 3 heads");
  refused(2, {"fish.txt", "--tokenizer", "characters", "--vocab", "300"}, "--vocab is for");
  refused(2, {"fish.txt", "--layout", "gpt3"}, "did you mean 'gpt2'?");
  refused(2, {"fish.txt", "--learning-rate", "0"}, "--learning-rate: expected more than 0");
  refused(2, {"fish.txt", "--dropout", "1"}, "--dropout: expected at least 0, below 1");
  refused(2, {"fish.txt", "--dtype", "f16"}, "--dtype: expected f32, bf16, got 'f16'");
}

}  // namespace
}  // namespace rapt::cli_test
