// rapt model: tables, tensors, pictures, vectors, refusals, with a tiny random BERT.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "rapt/io/tensor_file.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class ModelTest : public RaptTest {
 protected:
  ModelTest() {
    std::filesystem::copy(RAPT_ENCODER_FOLDER, path("model"));
    text::write_tokenizer(text::learn_characters(" abcdef"), path("model"), Overwrite::no);
  }

  Json document(std::vector<std::string> words) const {
    words.insert(words.begin(), "model");
    words.push_back("--json");
    const Ran ran = rapt(words);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return Json::parse(ran.out);
  }
};

TEST_F(ModelTest, InfoTellsSizesAndMemory) {
  const Ran ran = rapt({"model", "info", "model"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "2 layers, 3 heads of 8, 24 features, 40 hidden")) << ran.out;
  EXPECT_EQ(document({"info", "model"}).at("copied_bytes"), 0);
}

TEST_F(ModelTest, WeightsGoIntoAFile) {
  const Ran ran = rapt({"model", "attend", "model", "abcab", "--layers", "1", "--heads", "2,0",
                        "--top-k", "2", "--output", "found.npz"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const TensorFile file = open_tensor_file(path("found.npz"));
  const auto shape = [&](const char* name) { return file.find(name)->shape; };
  EXPECT_EQ(shape("weights"), (std::vector<int64_t>{1, 2, 5, 5}));
  EXPECT_EQ(shape("top_keys"), (std::vector<int64_t>{1, 2, 5, 2}));
  EXPECT_EQ(shape("entropy"), (std::vector<int64_t>{1, 2, 5}));
  EXPECT_EQ(shape("received"), (std::vector<int64_t>{1, 2, 5}));
  EXPECT_EQ(shape("output"), (std::vector<int64_t>{5, 24}));
  const Tensor weights = load("found.npz", "weights");
  const std::span<const float> values = weights.values<float>();
  for (size_t row = 0; row < 10; ++row) {
    float sum = 0;
    for (size_t key = 0; key < 5; ++key) sum += values[row * 5 + key];
    EXPECT_NEAR(sum, 1, 5 * 0x1p-22);
  }
  const std::string map = "found.safetensors";
  EXPECT_EQ(rapt({"model", "attend", "model", "abcab", "--map", "2x3:max", "--output", map}).exit,
            0);
  EXPECT_EQ(open_tensor_file(path(map)).find("map")->shape, (std::vector<int64_t>{2, 3, 2, 3}));
  std::vector<std::string> again = {"model", "attend", "model", "a", "--json", "--output", map};
  const Ran kept = rapt(again);
  EXPECT_EQ(kept.exit, 4);
  EXPECT_EQ(kept.out, "");
  EXPECT_EQ(open_tensor_file(path(map)).metadata[0].second, R"(["a","b","c","a","b"])");
  again.push_back("--force");
  EXPECT_EQ(rapt(again).exit, 0);
  EXPECT_EQ(open_tensor_file(path(map)).metadata[0].second, R"(["a"])");
}

TEST_F(ModelTest, LayersAndHeadsStandInTheOrderAskedFor) {
  const auto weights = [&](const char* layers, const char* heads, const std::string& to) {
    EXPECT_EQ(rapt({"model", "attend", "model", "abcab", "--layers", layers, "--heads", heads,
                    "--output", to})
                  .exit,
              0);
    const Tensor found = load(to.c_str(), "weights");
    return std::vector<float>(found.values<float>().begin(), found.values<float>().end());
  };
  const std::vector<float> all = weights("0,1", "0,2", "all.npz");
  const std::vector<float> turned = weights("1,0", "2,0", "turned.npz");
  ASSERT_EQ(all.size(), 4u * 25);
  std::vector<float> expected;
  for (const int at : {3, 2, 1, 0})
    expected.insert(expected.end(), all.begin() + at * 25, all.begin() + (at + 1) * 25);
  EXPECT_EQ(turned, expected);
  EXPECT_NE(turned, all);
}

TEST_F(ModelTest, FindAndTheTableAgreeWithTheWeights) {
  const std::vector<std::string> one_head = {"attend", "model",   "abcd", "--layers",
                                             "0",      "--heads", "1"};
  const Json table = document(one_head);
  ASSERT_EQ(table.at("tokens").size(), 4u);
  const Json& best = table.at("tokens")[2].at("looks")[0];
  const std::string target(1, "abcd"[best.at("token").get<size_t>()]);
  std::vector<std::string> finding = one_head;
  finding.insert(finding.end(), {"--find", "c," + target});
  const Json found = document(finding).at("found");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].at("layer"), 0);
  EXPECT_EQ(found[0].at("head"), 1);
  EXPECT_NEAR(found[0].at("weight").get<double>(), best.at("weight").get<double>(), 1e-7);
}

TEST_F(ModelTest, APictureHasTheTokens) {
  const Ran ran = rapt({"model", "attend", "model", "abc", "--heatmap", "-"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "the mean of heads")) << ran.out;
}

TEST_F(ModelTest, TextsHaveTheSameVectorsTogetherAndAlone) {
  write("lines", "abc\nfedcba\nabc\n");
  const Json all = document({"embed", "model", "@lines", "--similar"});
  EXPECT_EQ(all.at("tokens"), Json({3, 6, 3}));
  EXPECT_EQ(all.at("vectors")[0], all.at("vectors")[2]);
  EXPECT_EQ(document({"embed", "model", "\t fedcba\u3000\n"}).at("vectors")[0],
            all.at("vectors")[1]);
  EXPECT_NEAR(all.at("similarities")[0][2].get<double>(), 1, 1e-12);
  EXPECT_EQ(rapt({"model", "embed", "model", "abc", "--output", "v.npy"}).exit, 0);
  EXPECT_EQ(open_tensor_file(path("v.npy")).tensors[0].shape, (std::vector<int64_t>{1, 24}));
}

TEST_F(ModelTest, SimilaritiesThatDoNotFitTheMemoryAreRefused) {
  write("lines", std::string(1'000'000, '\n'));  // 8 TB
  const Ran ran = rapt({"model", "embed", "model", "@lines", "--similar"});
  EXPECT_EQ(ran.exit, 5) << ran.err;
  EXPECT_TRUE(contains(ran.err, "a similarity for each pair")) << ran.err;
}

TEST_F(ModelTest, LongTextsAreCutOnRequest) {
  const std::string text(30, 'a');
  const Ran refused = rapt({"model", "attend", "model", text});
  EXPECT_EQ(refused.exit, 3);
  EXPECT_TRUE(contains(refused.err, "the text has 30 tokens, the model reads 24")) << refused.err;
  const Ran second = rapt({"model", "embed", "model", "a", text});
  EXPECT_EQ(second.exit, 3);
  EXPECT_TRUE(contains(second.err, "text 2 has 30 tokens")) << second.err;
  const Ran cut = rapt({"model", "attend", "model", text, "--truncate"});
  EXPECT_EQ(cut.exit, 0);
  EXPECT_TRUE(contains(cut.err, "cut to the 24 tokens")) << cut.err;
}

TEST_F(ModelTest, WhatCannotBeMeantIsNamed) {
  const auto fails = [&](const std::vector<std::string>& words, int exit, const char* part) {
    std::vector<std::string> all = {"model"};
    all.insert(all.end(), words.begin(), words.end());
    const Ran ran = rapt(all);
    EXPECT_EQ(ran.exit, exit) << ran.err;
    EXPECT_TRUE(contains(ran.err, part)) << ran.err;
  };
  fails({"atend", "model", "a"}, 2, "did you mean 'attend'?");
  fails({"attend", "model"}, 2, "attend takes one text");
  fails({"embed", "model"}, 2, "embed takes texts");
  fails({"info", "model", "a"}, 2, "info takes a folder alone");
  fails({"embed", "model", "a", "--heads", "1"}, 2, "--heads belongs to rapt model attend");
  fails({"attend", "model", "a", "--heads", "3"}, 2, "--heads: the model has 0 to 2, got 3");
  fails({"attend", "model", "a", "--layers", "2"}, 2, "--layers: the model has 0 to 1");
  fails({"attend", "model", "a", "--layers", "1,1"}, 2, "--layers: 1 is given twice");
  fails({"attend", "model", "a", "--heads", "0,2,0"}, 2, "--heads: 0 is given twice");
  fails({"attend", "model", "a", "--map", "2x2"}, 2, "--map and --top-k need --output");
  fails({"attend", "model", "a", "--map", "2", "--output", "f.npz"}, 2, "ROWSxCOLUMNS");
  fails({"attend", "model", "a", "--map", "2x2", "--output", "f.npz"}, 2, "1 tokens");
  fails({"attend", "model", "a", "--find", "a"}, 2, "WORD,WORD");
  fails({"attend", "model", "a", "--find", "a,x"}, 2, "'x' is no word of the text");
  fails({"attend", "model", "a", "--output", "f.npy"}, 2, "F.npz or F.safetensors");
  fails({"attend", "nowhere", "a"}, 4, "nowhere: no such folder");
  std::filesystem::remove(folder() / "model" / "tokenizer.json");
  fails({"info", "model"}, 4, "model: has no tokenizer.json");
  std::filesystem::remove(folder() / "model" / "config.json");
  fails({"info", "model"}, 4, "model: has no config.json");
}

}  // namespace
}  // namespace rapt::cli_test
