// rapt attend: weights of chosen rows, pooled maps, top keys, entropy, received attention, --stats.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/attend/attend_calls.h"
#include "rapt/attention.h"
#include "rapt/io/text_features.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class CapturesTest : public AttendCalls {
 protected:
  AttentionResult expected(const AttentionOptions& options) const {
    return scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options);
  }
};

TEST_F(CapturesTest, FilesAreTheLibrarysBits) {
  const Causal causal;
  AttentionOptions options;
  options.masks = {&causal};
  options.top_k = 3;
  options.entropy = options.received = true;
  const AttentionResult want = expected(options);
  const Ran done = ran({"--mask", "causal", "--top-k", "3", "--top-keys", "t.npy", "--top-weights",
                        "u.npy", "--entropy", "e.npy", "--received", "r.npy"});
  EXPECT_EQ(done.err.find("wrote t.npy: top-keys i64 [2, 4, 6, 3]"), 0u) << done.err;
  expect_same(load("t.npy"), want.top_keys);
  expect_same(load("u.npy"), want.top_weights);
  expect_same(load("e.npy"), want.entropy);
  expect_same(load("r.npy"), want.received);
}

TEST_F(CapturesTest, StatsWithAFileWritesAllStatistics) {
  AttentionOptions options;
  options.top_k = 3;
  options.entropy = options.received = true;
  const AttentionResult want = expected(options);
  for (const std::string file : {"s.npz", "s.safetensors"}) {
    const Ran done = ran({"--top-k", "3", "--stats", file, "--entropy", "e.npy", "--force"});
    EXPECT_EQ(done.out, "") << "the file instead of the table";
    expect_same(load(file, "top_k_keys"), want.top_keys);
    expect_same(load(file, "top_k_weights"), want.top_weights);
    expect_same(load(file, "entropy"), want.entropy);
    expect_same(load(file, "received"), want.received);
    expect_same(load("e.npy"), want.entropy);
  }
  ran({"--stats", "d.npz"});
  EXPECT_EQ(to_string(load("d.npz", "top_k_keys").dims()), "[2, 4, 6, 9]");
  const Json d = Json::parse(ran({"--stats", "j.npz", "--json"}).out);
  EXPECT_EQ(d.at("stats").size(), 8u);
  EXPECT_EQ(d.at("files").size(), 4u);
  expect_refused({"--stats", "s.npy"}, 2, "--stats: several tensors go into a .npz");
  expect_refused({"--stats", "s.npz:x"}, 2, "names of their own");
  expect_refused({"--stats", "n.npz", "--entropy", "n.npz"}, 2, "is named as two outputs");
}

TEST_F(CapturesTest, SixteenTopKeysUnlessThereAreFewer) {
  ran({"--top-keys", "t.npy"});
  EXPECT_EQ(to_string(load("t.npy").dims()), "[2, 4, 6, 9]");
  save_problem(1, 1, 1, 2, 40, 4);
  ran({"--top-weights", "u.npy"});
  EXPECT_EQ(to_string(load("u.npy").dims()), "[1, 1, 2, 16]");
}

TEST_F(CapturesTest, ChosenRowsInAnyOrder) {
  const int64_t rows[] = {5, 0, 3};
  AttentionOptions options;
  options.weights.emplace().rows = rows;
  ran({"--weights", "w.npy", "--weights-rows", "5,0,3"});
  expect_same(load("w.npy"), expected(options).weights);
  // A picture of all rows leaves the weights file unchanged.
  ran({"--weights", "w.npy", "--weights-rows", "5,0,3", "--heatmap", "h.svg", "-f"});
  expect_same(load("w.npy"), expected(options).weights);
}

TEST_F(CapturesTest, PooledMapsInsteadOfWeights) {
  for (int pool = 0; pool < 3; ++pool) {
    AttentionOptions options;
    options.map = MapRequest{2, 3, static_cast<Pool>(pool), {}};
    ran({"--weights", "w.npy", "--weights-pool", std::string("2x3:") + kPoolNames[pool], "-f"});
    expect_same(load("w.npy"), expected(options).map);
  }
  const int64_t heads[] = {6};
  AttentionOptions options;
  options.map = MapRequest{2, 3, Pool::mean, heads};
  // A picture of another head adds that head to the map, but not to the file.
  const Ran done = ran({"--weights", "w.npy", "--weights-pool", "2x3", "--weights-heads", "1,2",
                        "--heatmap", "-", "--head", "0,1", "-f"});
  expect_same(load("w.npy"), expected(options).map);
  const int64_t drawn[] = {1};
  options.map->heads = drawn;
  const AttentionResult want = expected(options);
  char number[16];
  for (const float cell : want.map.values<float>()) {
    std::snprintf(number, sizeof number, "%.2f", static_cast<double>(cell));
    EXPECT_TRUE(contains(done.out, number)) << number << "\n" << done.out;
  }
  EXPECT_TRUE(contains(done.out, "of head 0,1: mean of each cell")) << done.out;
  EXPECT_TRUE(contains(done.out, "0-2") && contains(done.out, "3-5")) << done.out;
}

TEST_F(CapturesTest, StatsOfEachHead) {
  Tensor lengths(DType::i64, {2});
  lengths.values<int64_t>()[0] = 0;
  lengths.values<int64_t>()[1] = 3;
  save("len.npy", lengths);
  const Lengths padding(lengths);
  AttentionOptions options;
  options.masks = {&padding};
  options.entropy = options.received = true;
  const AttentionResult want = expected(options);
  const Json stats =
      Json::parse(ran({"--mask", "lengths:len.npy", "--stats", "--json"}).out).at("stats");
  ASSERT_EQ(stats.size(), 8u);
  const Json& none = stats.at(2);  // head 0,2: all keys are masked
  EXPECT_EQ(none.at("head"), Json({0, 2}));
  EXPECT_EQ(none.at("rows_without_keys"), 6);
  EXPECT_EQ(none.at("allowed_share"), 0.0);
  EXPECT_EQ(none.at("entropy_max"), 0.0);
  const Json& some = stats.at(5);  // head 1,1: three of nine keys
  EXPECT_EQ(some.at("head"), Json({1, 1}));
  EXPECT_EQ(some.at("rows_without_keys"), 0);
  EXPECT_NEAR(some.at("allowed_share").get<double>(), 1.0 / 3, 1e-12);
  const auto entropy = want.entropy.values<float>().subspan(30, 6);
  double sum = 0;
  for (const float x : entropy) sum += static_cast<double>(x);
  EXPECT_NEAR(some.at("entropy_mean").get<double>(), sum / 6, 1e-6);
  EXPECT_EQ(some.at("entropy_min").get<float>(), *std::min_element(entropy.begin(), entropy.end()));
  EXPECT_EQ(some.at("entropy_max").get<float>(), *std::max_element(entropy.begin(), entropy.end()));
  const auto received = want.received.values<float>().subspan(45, 9);
  const auto top = std::max_element(received.begin(), received.end());
  EXPECT_EQ(some.at("most_received").at(0).at("key"), top - received.begin());
  EXPECT_EQ(some.at("most_received").at(0).at("weight").get<float>(), *top);
  EXPECT_EQ(some.at("most_received").at(0).at("word"), nullptr);

  const Ran table = ran({"--mask", "lengths:len.npy", "--stats"});
  EXPECT_TRUE(contains(table.out, "ln 9 = 2.1972")) << table.out;
  EXPECT_TRUE(contains(table.out, "6 queries may attend to no key")) << table.out;
  EXPECT_TRUE(contains(table.out, "  33.33 %")) << table.out;
}

TEST_F(CapturesTest, ABiasAndAMaskShareOutThePairs) {
  Tensor bias(DType::f32, {6, 9});  // 27 of 54 pairs are masked: rows 0, 2 and 4
  for (int64_t i = 0; i < 54; ++i) {
    const bool out = i / 9 % 2 == 0;
    bias.values<float>()[static_cast<size_t>(i)] =
        out ? -std::numeric_limits<float>::infinity() : 0;
  }
  save("b.npy", bias);
  const Json d = Json::parse(ran({"--bias", "b.npy", "--mask", "causal", "--stats", "--json"}).out);
  // Rows 1, 3 and 5 remain, with 2 + 4 + 6 of 54 pairs under the causal mask.
  EXPECT_NEAR(d.at("stats").at(0).at("allowed_share").get<double>(), 12.0 / 54, 1e-12);
  EXPECT_EQ(d.at("stats").at(0).at("rows_without_keys"), 3);
}

TEST_F(CapturesTest, WordsNameTheKeys) {
  const std::vector<std::string> text = {"attend", "--text", "the cat and the dog", "--mask",
                                         "causal"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = text;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran done = rapt(arguments);
    EXPECT_EQ(done.exit, 0) << done.err;
    return done.out;
  };
  const std::string table = with({"--stats"});
  EXPECT_TRUE(contains(table, "the (0) ")) << table;
  EXPECT_TRUE(contains(table, "  60.00 %")) << table;
  const std::string lines = with({"--top-k", "2"});
  EXPECT_TRUE(contains(lines, "\n  the (0): the (0) 1.0000\n")) << "no other key\n" << lines;
  EXPECT_TRUE(contains(lines, "\n  cat (1): cat (1) 0.9")) << lines;
  const Json d = Json::parse(with({"--stats", "--top-k", "2", "--json"}));
  EXPECT_EQ(d.at("stats").at(0).at("head"), Json::array());
  EXPECT_EQ(d.at("stats").at(0).at("most_received").at(0).at("word"), "the");
  EXPECT_EQ(d.at("top_k").at("k"), 2);
  EXPECT_EQ(d.at("top_k").at("keys").at(0), Json({0, -1}));
  EXPECT_EQ(d.at("top_k").at("weights").at(0), Json({1.0, 0.0}));
}

TEST_F(CapturesTest, ManyTopKeysAreNotPrinted) {
  save("q.npy", filled(DType::f32, {100, 4}, 1));
  const std::vector<std::string> problem = {"attend",  "--query", "q.npy",   "--key", "q.npy",
                                            "--value", "q.npy",   "--top-k", "2"};
  const Ran text = rapt(problem);
  EXPECT_TRUE(contains(text.out, "--top-keys and --top-weights write them")) << text.out;
  std::vector<std::string> json = problem;
  json.push_back("--json");
  const Json d = Json::parse(rapt(json).out);
  EXPECT_EQ(d.at("top_k"), Json({{"k", 2}, {"keys", nullptr}, {"weights", nullptr}}));
}

TEST_F(CapturesTest, WhatHasNoMeaningIsRefusedByName) {
  Tensor starts(DType::i64, {3});
  starts.values<int64_t>()[0] = 0;
  starts.values<int64_t>()[1] = 2;
  starts.values<int64_t>()[2] = 6;
  Tensor keys(DType::i64, {3});
  keys.values<int64_t>()[0] = 0;
  keys.values<int64_t>()[1] = 2;
  keys.values<int64_t>()[2] = 9;
  save("s.npy", starts);
  save("s9.npy", keys);
  const std::vector<std::string> packed = {"--packed", "s.npy", "--packed-keys", "s9.npy"};
  const auto with_packed = [&](std::vector<std::string> more) {
    more.insert(more.end(), packed.begin(), packed.end());
    return more;
  };
  expect_refused(with_packed({"--weights", "w.npy"}), 2, "--weights: weights and maps of packed");
  expect_refused(with_packed({"--heatmap", "h.svg"}), 2, "--heatmap: weights and maps of packed");
  expect_refused(with_packed({"--weights", "w.npy", "--weights-pool", "2x2"}), 2,
                 "--weights-pool: weights and maps of packed");

  expect_refused({"--top-k", "10"}, 3, "--top-k 10: there are 9 keys");
  expect_refused({"--top-k", "0"}, 2, "--top-k: expected at least 1, got 0");
  expect_refused({"--top-k", "-3"}, 2, "--top-k: expected at least 1");
  expect_refused({"--top-k", "some"}, 2, "--top-k: expected a whole number");
  expect_refused({"--weights", "w.npy", "--weights-rows", "0,6"}, 3, "there are 6 rows");
  expect_refused({"--weights", "w.npy", "--weights-rows=-1"}, 2, "expected rows from 0 on");
  expect_refused({"--weights-pool", "2x2"}, 2, "--weights-pool needs --weights or --heatmap");
  expect_refused({"--weights", "w.npy", "--weights-pool", "2x2", "--weights-rows", "1"}, 2,
                 "expected one");
  for (const char* pool : {"0x2", "2x0", "2", "x", "2x2:", "-1x2", "2x2x2"}) {
    expect_refused({"--weights", "w.npy", "--weights-pool", pool}, 2, "--weights-pool: expected");
  }
  expect_refused({"--weights", "w.npy", "--weights-pool", "2x2:maxx"}, 2, "did you mean 'max'?");
  expect_refused({"--weights", "w.npy", "--weights-pool", "7x2"}, 3,
                 "--weights-pool: map of 7 x 2");
  expect_refused({"--heatmap", "h.svg", "--weights-pool", "2x10"}, 3, "1 to 9 columns");
  expect_refused({"--entropy", "-", "--json"}, 2, "standard output can take one");
  expect_refused({"--entropy", "e.npy", "--received", "e.npy"}, 2, "two outputs");
  expect_refused({"--received", "r.csv"}, 2, "expected '.npy'");
  save("k.npy", filled(DType::f32, {2, 2, 0, 8}, 1));
  save("v.npy", filled(DType::f32, {2, 2, 0, 8}, 1));
  expect_refused({"--top-keys", "t.npy"}, 3, "no key");
  expect_refused({"--heatmap", "h.svg"}, 3, "no head, query or key to draw");
  EXPECT_EQ(rapt(attend({"--stats"})).exit, 0) << "nothing is a problem too";
}

}  // namespace
}  // namespace rapt::cli_test
