// rapt model: tables, tensors, pictures, vectors, refusals, with a tiny random BERT.
#include <algorithm>
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

// Of the sum of n softmax weights in f32: the denominator and this sum round n - 1 times each, a
// weight 3 times (exp within 2 halves of a unit in the last place, and the division).
constexpr double row_sum_error(int n) { return (2 * (n - 1) + 3) * 0x1p-24; }

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
  EXPECT_TRUE(contains(ran.out, "tokenizer   characters of 7 tokens")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "not read")) << ran.out;
  const Json info = document({"info", "model"});
  EXPECT_EQ(info.at("copied_bytes"), 0);
  EXPECT_EQ(info.at("tokenizer"), "characters");
  EXPECT_EQ(info.at("text_bytes"), 24 * (5 * 24 + 40) * 4);
  EXPECT_EQ(info.at("ignored_keys"), Json::array());
}

TEST_F(ModelTest, InfoListsKeysThatAreNotRead) {
  Json config = Json::parse(read("model/config.json"));
  config["new_key"] = 1;
  write("model/config.json", config.dump());
  EXPECT_TRUE(contains(rapt({"model", "info", "model"}).out, "not read    new_key of config.json"));
  EXPECT_EQ(document({"info", "model"}).at("ignored_keys"), Json({"new_key"}));
}

TEST_F(ModelTest, InfoAndAttentionOfALanguageModel) {
  const std::filesystem::path family = std::filesystem::path(RAPT_ENCODER_FOLDER) / "../mistral";
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy(family / name, folder() / "model" / name,
                          std::filesystem::copy_options::overwrite_existing);
  const Json config = Json::parse(read("model/config.json"));
  const Json info = document({"info", "model"});
  EXPECT_EQ(info.at("family"), "mistral");
  EXPECT_EQ(info.at("kv_heads"), config.at("num_key_value_heads"));
  EXPECT_EQ(info.at("pooling"), nullptr);
  EXPECT_EQ(info.at("ignored_keys"), Json::array());
  const Ran ran = rapt({"model", "info", "model"});
  EXPECT_TRUE(contains(ran.out, "for the keys and values of")) << ran.out;

  const Ran attend = rapt({"model", "attend", "model", "abcd", "--output", "f.npz"});
  ASSERT_EQ(attend.exit, 0) << attend.err;
  const Tensor weights = load("f.npz", "weights");
  ASSERT_EQ(weights.dim(1), config.at("num_attention_heads").get<int64_t>());
  const std::span<const float> values = weights.values<float>();
  EXPECT_EQ(values[0], 1);  // the first token sees itself alone
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(rapt({"model", "embed", "model", "abcd"}).exit, 2);
}

TEST_F(ModelTest, RowsAreThoseOfAllTheWeights) {
  const auto weights = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"model", "attend", "model", "abcab", "--output", "f.npz", "-f"});
    const Ran ran = rapt(words);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return load("f.npz", "weights");
  };
  const Tensor all = weights({}), list = weights({"--rows", "3,1"}),
               range = weights({"--rows", "1:3"});
  for (const Tensor* const part : {&list, &range})
    ASSERT_TRUE(std::ranges::equal(part->dims(), std::vector<int64_t>{2, 3, 2, 5}));
  for (size_t head = 0; head < 6; ++head)
    for (size_t key = 0; key < 5; ++key) {
      const auto of_all = [&](size_t row) {
        return all.values<float>()[(head * 5 + row) * 5 + key];
      };
      const size_t first = head * 10 + key, second = first + 5;
      EXPECT_EQ(list.values<float>()[first], of_all(3));
      EXPECT_EQ(list.values<float>()[second], of_all(1));
      EXPECT_EQ(range.values<float>()[first], of_all(1));
      EXPECT_EQ(range.values<float>()[second], of_all(2));
    }
  const Json whole = document({"attend", "model", "abcab"}).at("tokens");
  const Json chosen = document({"attend", "model", "abcab", "--rows", "3,1"}).at("tokens");
  ASSERT_EQ(chosen.size(), 5u);
  for (const size_t token : {0u, 2u, 4u}) EXPECT_EQ(chosen[token].at("looks"), nullptr);
  for (const size_t token : {1u, 3u}) EXPECT_EQ(chosen[token], whole[token]);
  const std::string table = rapt({"model", "attend", "model", "abcab", "--rows", "2"}).out;
  EXPECT_EQ(std::ranges::count(table, '\n'), 2) << table;
  EXPECT_TRUE(contains(table, "token   looks most at, in the mean of 6 heads\n")) << table;
  EXPECT_EQ(rapt({"model", "attend", "model", "abcab", "--rows", "4,2", "--heatmap", "-"}).exit, 0);
}

TEST_F(ModelTest, ATextThatIsNotUtf8IsNamed) {
  write("bytes", "ab\na\xff\n");
  const auto fails = [&](std::vector<std::string> words, const char* part) {
    words.insert(words.begin(), "model");
    const Ran ran = rapt(words);
    EXPECT_EQ(ran.exit, 3) << ran.err;
    EXPECT_TRUE(contains(ran.err, part)) << ran.err;
  };
  fails({"attend", "model", "\xff"}, ": the text: expected UTF-8");
  fails({"attend", "model", "a", "@bytes"}, ": bytes: expected UTF-8, got '\\xff' at byte 4");
  fails({"embed", "model", "a", "b\xff"}, ": text 2: expected UTF-8, got '\\xff' at byte 1");
  fails({"embed", "model", "a", "@bytes"}, ": line 2 of bytes: expected UTF-8");
  write("long", "ab\n" + std::string(30, 'a'));
  fails({"embed", "model", "@long"}, "line 2 of long has 30 tokens");
}

TEST_F(ModelTest, TheBestCheckpointOfARunIsRead) {
  std::filesystem::create_directory(path("run"));
  std::filesystem::rename(path("model"), path("run/best"));
  EXPECT_EQ(rapt({"model", "info", "run"}).out, rapt({"model", "info", "run/best"}).out);
  EXPECT_EQ(rapt({"model", "attend", "run", "ab"}).exit, 0);
  EXPECT_EQ(rapt({"tokenize", "run", "ab"}).exit, 0);
}

// A tokenizer of characters that puts "a" before a text and "b" behind it.
TEST_F(ModelTest, SpecialTokensAreHiddenAndRowsScaledTo1) {
  Json tokenizer = Json::parse(read("model/tokenizer.json"));
  const auto special = [](const char* id) {
    return Json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
  };
  const auto text = [](const char* id) { return Json{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
  Json& template_json = tokenizer["post_processor"];
  template_json = {{"type", "TemplateProcessing"}};
  template_json["single"] = Json::array({special("a"), text("A"), special("b")});
  template_json["pair"] = Json::array({special("a"), text("A"), text("B")});
  for (const auto& [name, id] : {std::pair("a", 1), std::pair("b", 2)})
    template_json["special_tokens"][name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  write("model/tokenizer.json", tokenizer.dump());
  EXPECT_EQ(document({"attend", "model", "cde"}).at("tokens").size(), 5u);
  const Json hidden = document({"attend", "model", "cde", "--hide-special"}).at("tokens");
  ASSERT_EQ(hidden.size(), 3u);
  for (const Json& token : hidden) {
    float sum = 0;
    for (const Json& look : token.at("looks")) sum += look.at("weight").get<float>();
    EXPECT_NEAR(sum, 1, row_sum_error(3));
  }
}

TEST_F(ModelTest, AMapComputesNoWholeWeights) {
  const std::vector<std::string> mapped = {"attend", "model",    "abcd",  "--map",
                                           "2x2",    "--output", "f.npz", "--force"};
  const Json document_of_map = document(mapped);
  for (const Json& token : document_of_map.at("tokens")) EXPECT_EQ(token.at("looks"), nullptr);
  EXPECT_EQ(open_tensor_file(path("f.npz")).find("weights"), nullptr);
  std::vector<std::string> words = mapped;
  words.insert(words.begin(), "model");
  EXPECT_EQ(rapt(words).out, "map, entropy, received, output of 4 tokens in f.npz\n");
  words.insert(words.end(), {"--heatmap", "f.svg"});
  EXPECT_TRUE(contains(rapt(words).out, "  0.")) << "the table of looks";

  const Json all = document({"attend", "model", "abcd", "--find", "c,a"}).at("found");
  std::vector<std::string> finding = mapped;
  finding.insert(finding.end(), {"--find", "c,a"});
  const Json found = document(finding).at("found");
  ASSERT_EQ(found.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_NEAR(found[i].at("weight").get<double>(), all[i].at("weight").get<double>(),
                2 * row_sum_error(4));
}

// Less than a byte for each pair of tokens.
TEST_F(ModelTest, MapsOfALongTextTakeLinearMemory) {
  constexpr int64_t kTokens = 4000;
  Json config = Json::parse(read("model/config.json"));
  config["max_position_embeddings"] = kTokens;
  write("model/config.json", config.dump());
  const TensorFile file = open_tensor_file(path("model/model.safetensors"));
  Tensor places(DType::f32, {kTokens, 24});
  std::ranges::fill(places.values<float>(), 0.0f);
  std::vector<LoadedTensor> loaded;
  std::vector<NamedTensor> named;
  for (const StoredTensor& stored : file.tensors) {
    loaded.push_back(rapt::load(stored));
    const bool grows = stored.name == "embeddings.position_embeddings.weight";
    named.push_back({stored.name, grows ? places.view() : loaded.back().view()});
  }
  save_all("long.safetensors", named);
  std::filesystem::rename(path("long.safetensors"), path("model/model.safetensors"));
  const auto peak = [&](int64_t tokens) {
    write("text", std::string(static_cast<size_t>(tokens), 'a'));
    const Ran ran = rapt({"model", "attend", "model", "@text", "--map", "8x8:max", "--top-k", "4",
                          "--output", "f.npz", "--force"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return ran.peak_bytes;
  };
  const int64_t few = peak(16);
  EXPECT_LT(peak(kTokens) - few, kTokens * kTokens);
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
    EXPECT_NEAR(sum, 1, row_sum_error(5));
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
  EXPECT_EQ(found[0].at("weight").get<float>(), best.at("weight").get<float>());
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
  // Two square roots, their product and the division round.
  EXPECT_NEAR(all.at("similarities")[0][2].get<double>(), 1, 4 * 0x1p-53);
  EXPECT_EQ(rapt({"model", "embed", "model", "abc", "--output", "v.npy"}).exit, 0);
  EXPECT_EQ(open_tensor_file(path("v.npy")).tensors[0].shape, (std::vector<int64_t>{1, 24}));
}

TEST_F(ModelTest, TextsInBracketsStayWhole) {
  text::write_tokenizer(text::learn_characters("[],/ ab"), path("model"), Overwrite::yes);
  EXPECT_EQ(document({"embed", "model", "[a,b]", "[a] b [/a]", "a"}).at("tokens"),
            Json({5, 10, 1}));
}

// More texts than a batch takes.
TEST_F(ModelTest, VectorsDoNotDependOnThreads) {
  std::string lines;
  for (size_t i = 0; i < 200; ++i) lines += std::string(i % 23 + 1, "abcdef"[i % 6]) + "\n";
  write("lines", lines);
  const auto vectors = [&](const char* threads) {
    const Ran ran = rapt(
        {"model", "embed", "model", "@lines", "-f", "--output", "v.npy", "--threads", threads});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return read("v.npy");
  };
  EXPECT_EQ(vectors("1"), vectors("3"));
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
  fails({}, 2, "expected info, attend or embed, and the folder");
  fails({"embed", "model", "a", "--rows", "0"}, 2, "--rows belongs to rapt model attend");
  fails({"attend", "model", "abc", "--rows", "0,3"}, 3, "--rows 0,3: there are 3 rows");
  fails({"attend", "model", "abc", "--rows", "1:1"}, 2, "--rows: expected at least one row");
  fails({"attend", "model", "abc", "--rows", "0", "--find", "a,b"}, 2, "expected one");
  fails({"attend", "model", "abc", "--rows", "0", "--map", "2x2", "--output", "f.npz"}, 2,
        "--rows chooses rows and --map pools all");
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
