// rapt attend: its results and its files.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "rapt/attention.h"
#include "rapt/io/text_features.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "rapt/method/mean.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class AttendTest : public RaptTest {
 protected:
  // The library's result for the saved problem.
  AttentionResult expected(AttentionOptions options = {}) const {
    options.weights.emplace();
    return scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options);
  }

  // Runs attend with --output o.npy and compares it with the library.
  void expect_output(const std::vector<std::string>& more, const AttentionOptions& options) const {
    std::vector<std::string> arguments = attend({"--output", "o.npy", "--force"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = rapt(arguments);
    ASSERT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.out, "");
    expect_same(load("o.npy"), expected(options).output);
  }
};

TEST_F(AttendTest, WritesTheLibrarysBits) {
  save_problem();
  const Ran ran = rapt(attend({"--output", "o.npy", "--weights", "w.npy", "--lse", "l.npy"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const AttentionResult result = expected();
  expect_same(load("o.npy"), result.output);
  expect_same(load("w.npy"), result.weights);
  expect_same(load("l.npy"), result.statistic);
  EXPECT_EQ(ran.out, "") << "results are in the files";
  EXPECT_TRUE(contains(ran.err, "wrote o.npy: output f32 [2, 4, 6, 8]")) << ran.err;
  EXPECT_EQ(files(),
            (std::vector<std::string>{"k.npy", "l.npy", "o.npy", "q.npy", "v.npy", "w.npy"}));
}

TEST_F(AttendTest, PrintsASummaryAndSmallOutputsWithoutAnOutputOption) {
  Tensor q(DType::f32, {2, 2}), k(DType::f32, {2, 2}), v(DType::f32, {2, 2});
  const float qs[] = {.14f, .10f, .32f, .28f}, ks[] = {.38f, .30f, .92f, .75f};
  const float vs[] = {.07f, .09f, .19f, .24f};
  std::copy(qs, qs + 4, q.values<float>().begin());
  std::copy(ks, ks + 4, k.values<float>().begin());
  std::copy(vs, vs + 4, v.values<float>().begin());
  save("q.npy", q);
  save("k.npy", k);
  save("v.npy", v);
  const Ran ran = rapt(attend());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  for (const char* part : {"f32 [2, 2]", "kernel", "tiles", "time", "memory", "matrix of scores",
                           "[[0.1326 0.1682]", "[0.1363 0.1729]]"}) {
    EXPECT_TRUE(contains(ran.out, part)) << part << " in " << ran.out;
  }
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(AttendTest, LargeOutputsAreNotPrinted) {
  save_problem(1, 1, 1, 9, 9, 9);
  const Ran ran = rapt(attend());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_FALSE(contains(ran.out, "[[")) << ran.out;
}

TEST_F(AttendTest, WeightsOfChosenRowsAndHeads) {
  save_problem();
  const AttentionResult all = expected();  // weights [2, 4, 6, 9]
  Tensor wanted(DType::f32, {2, 3, 9});    // heads 1,2 and 0,3, rows 2 to 4
  const int64_t heads[] = {6, 3};
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 27; ++i) {
      wanted.values<float>()[static_cast<size_t>(h * 27 + i)] =
          all.weights.values<float>()[static_cast<size_t>(heads[h] * 54 + 18 + i)];
    }
  }
  const std::vector<std::string> chosen = {
      "--weights", "w.npy", "--weights-rows", "2:5", "--weights-heads", "1,2", "--weights-heads",
      "0,3",       "-f"};
  const Ran ran = rapt(attend(chosen));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_same(load("w.npy"), wanted);

  // A picture of another head needs more weights, but leaves the file unchanged.
  std::vector<std::string> with_picture = chosen;
  with_picture.insert(with_picture.end(), {"--heatmap", "p.svg", "--head", "1,0"});
  const Ran both = rapt(attend(with_picture));
  ASSERT_EQ(both.exit, 0) << both.err;
  expect_same(load("w.npy"), wanted);

  const Ran every = rapt(attend({"--weights", "w.npy", "--weights-heads", "all", "-f"}));
  ASSERT_EQ(every.exit, 0) << every.err;
  expect_same(load("w.npy"), all.weights);
}

TEST_F(AttendTest, EveryMaskOfTheContractThatIsBuilt) {
  save_problem();
  Tensor lengths(DType::i64, {2}), allowed(DType::boolean, {6, 9});
  lengths.values<int64_t>()[0] = 4;
  lengths.values<int64_t>()[1] = 9;
  for (int64_t i = 0; i < 54; ++i) allowed.values<bool>()[static_cast<size_t>(i)] = i % 3 != 1;
  save("len.npy", lengths);
  save("m.npy", allowed);
  Tensor lengths32(DType::i32, {2});
  lengths32.values<int32_t>()[0] = 4;
  lengths32.values<int32_t>()[1] = 9;
  save("len32.npy", lengths32);

  const Causal top, bottom(Anchor::bottom_right), shifted(Anchor::top_left, 2);
  const Window window(1, 0), wide(2, -1, Anchor::bottom_right);
  const Lengths padding(lengths);
  const Boolean given(allowed);
  const std::pair<std::vector<std::string>, std::vector<const Mask*>> cases[] = {
      {{"causal"}, {&top}},
      {{"causal:top-left"}, {&top}},
      {{"causal:bottom-right"}, {&bottom}},
      {{"causal:2"}, {&shifted}},
      {{"causal(bottom-right)"}, {&bottom}},
      {{"window:1,0"}, {&window}},
      {{"window(1, 0)"}, {&window}},
      {{"window:2,-1:bottom-right"}, {&wide}},
      {{"lengths:len.npy"}, {&padding}},
      {{"lengths:len32.npy"}, {&padding}},
      {{"file:m.npy"}, {&given}},
      {{"file(m.npy)"}, {&given}},
      {{"causal", "file:m.npy", "lengths:len.npy"}, {&top, &given, &padding}},
  };
  for (const auto& [specs, masks] : cases) {
    SCOPED_TRACE(specs.front());
    std::vector<std::string> arguments;
    for (const std::string& spec : specs) arguments.insert(arguments.end(), {"--mask", spec});
    AttentionOptions options;
    options.masks = masks;
    expect_output(arguments, options);
  }
}

TEST_F(AttendTest, BiasAndFloatMaskAreAdded) {
  save_problem();
  Tensor bias = filled(DType::f32, {6, 9}, 5);
  bias.values<float>()[7] = -std::numeric_limits<float>::infinity();
  save("b.npy", bias);
  AttentionOptions options;
  options.bias = bias.view();
  expect_output({"--bias", "b.npy"}, options);
  expect_output({"--mask", "file:b.npy"}, options);
  const Ran ran = rapt(attend({"--mask", "file:b.npy"}));
  EXPECT_TRUE(contains(ran.err, "added as a bias")) << ran.err;
}

TEST_F(AttendTest, AMaskFileOfAnyFloatsIsABias) {
  save_problem();
  Tensor bias = filled(DType::f32, {6, 9}, 5);
  bias.values<float>()[7] = -std::numeric_limits<float>::infinity();
  for (float& x : bias.values<float>())
    x = BFloat16::from(x);  // so that every dtype represents the values exactly
  for (float& x : bias.values<float>()) x = Float16::from(x);
  save("b.npy", bias);
  AttentionOptions options;
  options.bias = bias.view();
  for (const char* dtype : {"f32", "f64", "f16", "bf16"}) {
    SCOPED_TRACE(dtype);
    ASSERT_EQ(rapt({"convert", "b.npy", "b.safetensors", "--dtype", dtype, "-f"}).exit, 0);
    expect_output({"--mask", "file:b.safetensors"}, options);
    const Ran ran = rapt(attend({"--mask", "file:b.safetensors"}));
    EXPECT_TRUE(contains(ran.err, "added as a bias")) << ran.err;
  }
}

TEST_F(AttendTest, ScaleAndNormalizerAreTheUsers) {
  save_problem();
  AttentionOptions options;
  options.scale = -0.25;
  expect_output({"--scale", "-0.25"}, options);
  expect_output({"--scale=-2.5e-1", "--normalizer", "softmax"}, options);
}

TEST_F(AttendTest, MethodIsTheUsers) {
  save_problem();
  const rapt::Mean mean;
  AttentionOptions options;
  options.method = &mean;
  ASSERT_EQ(rapt(attend({"--method", "mean", "--output", "o.npy"})).exit, 0);
  expect_same(
      load("o.npy"),
      scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);
  const Ran ran = rapt(attend({"--method", "mean", "--mask", "causal", "--plan", "--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("method"), "mean");
  EXPECT_EQ(document.at("plan").at("method_pairs"), 0);
  EXPECT_EQ(document.at("plan").at("tiles_computed"), 0);
  EXPECT_EQ(document.at("plan").at("estimated_seconds"), nullptr);
  const Ran refused = rapt(attend({"--method", "mean", "--mask", "window:1,0", "--plan"}));
  EXPECT_EQ(refused.exit, 2) << refused.err;
  EXPECT_TRUE(contains(refused.err, "method mean: mask window")) << refused.err;
}

TEST_F(AttendTest, ConvertsToOneDtype) {
  save_problem();
  const Tensor q = load("q.npy"), k = load("k.npy"), v = load("v.npy");
  Tensor wide(DType::f64, k.dims());
  for (int64_t i = 0; i < k.count(); ++i) {
    wide.values<double>()[static_cast<size_t>(i)] =
        static_cast<double>(k.values<float>()[static_cast<size_t>(i)]);
  }
  save("k64.npy", wide);
  // The query's dtype decides, and conversions are reported.
  const Ran ran = rapt(
      {"attend", "--query", "q.npy", "--key", "k64.npy", "--value", "v.npy", "--output", "o.npy"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_same(load("o.npy"), expected().output);
  EXPECT_TRUE(contains(ran.err, "--key: f64 converted to f32")) << ran.err;

  ASSERT_EQ(rapt(attend({"--dtype", "f64", "--output", "o64.npy"})).exit, 0);
  EXPECT_EQ(load("o64.npy").dtype(), DType::f64);

  Tensor integers(DType::i32, {3, 2});
  for (int i = 0; i < 6; ++i) integers.values<int32_t>()[static_cast<size_t>(i)] = i - 2;
  save("i.npy", integers);
  const std::vector<std::string> whole = {"attend", "--query", "i.npy", "--key",
                                          "i.npy",  "--value", "i.npy"};
  const Ran refused = rapt(whole);
  EXPECT_EQ(refused.exit, 3);
  EXPECT_TRUE(contains(refused.err, "--dtype f32")) << refused.err;
  std::vector<std::string> with_dtype = whole;
  with_dtype.insert(with_dtype.end(), {"--dtype", "f32"});
  EXPECT_EQ(rapt(with_dtype).exit, 0);
}

TEST_F(AttendTest, TextIsQueryKeyAndValue) {
  const std::string sentence = "the cat sat because the cat was tired";
  const std::vector<std::string> words = split_words(sentence);
  const Tensor x = text_features(words, 32);
  AttentionOptions options;
  options.scale = kTextScale;
  const Tensor output = scaled_dot_product_attention(x, x, x, options).output;
  write("sentence.txt", sentence);
  for (const std::string& text :
       {sentence, std::string("sentence.txt"), std::string("@sentence.txt")}) {
    const Ran ran = rapt({"attend", "--text", text, "--dim", "32", "--output", "o.npy", "-f"});
    ASSERT_EQ(ran.exit, 0) << ran.err;
    expect_same(load("o.npy"), output);
  }
  // Each head uses a contiguous part of the vectors.
  ASSERT_EQ(rapt({"attend", "--text", sentence, "--dim", "32", "--heads", "4", "--scale", "5",
                  "--output", "o.npy", "-f"})
                .exit,
            0);
  const Tensor heads = load("o.npy");
  EXPECT_EQ(to_string(heads.dims()), "[4, 8, 8]");
  const TensorView part = x.view().slice(1, 8, 16);
  const Tensor second = scaled_dot_product_attention(part, part, part, options).output;
  TensorView head = heads.view().slice(0, 1, 2);
  EXPECT_EQ(head.count(), second.count());
  const auto values = heads.values<float>().subspan(64, 64);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), second.values<float>().begin()));
}

TEST_F(AttendTest, JsonHasWhatTheDocumentationLists) {
  save_problem(1, 1, 1, 2, 3, 4);
  const Ran ran =
      rapt(attend({"--mask", "causal", "--output", "o.npy", "--weights", "w.npy", "--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json d = Json::parse(ran.out);
  EXPECT_EQ(d.at("schema"), "rapt.attend/1");
  EXPECT_EQ(d.at("query"), Json({{"dtype", "f32"}, {"shape", {1, 1, 2, 4}}}));
  EXPECT_EQ(d.at("key").at("shape"), Json({1, 1, 3, 4}));
  EXPECT_EQ(d.at("value").at("shape"), Json({1, 1, 3, 4}));
  EXPECT_EQ(d.at("scale"), 0.5);
  EXPECT_EQ(d.at("masks"), Json({"causal"}));
  EXPECT_EQ(d.at("bias"), nullptr);
  EXPECT_EQ(d.at("text"), nullptr);
  EXPECT_EQ(d.at("normalizer"), "softmax");
  EXPECT_EQ(d.at("weights").at("shape"), Json({1, 1, 2, 3}));
  const Tensor output = load("o.npy");
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(d.at("output")
                  .at("values")
                  .at(0)
                  .at(0)
                  .at(static_cast<size_t>(i / 4))
                  .at(static_cast<size_t>(i % 4))
                  .get<float>(),
              output.values<float>()[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(d.at("files"), Json::parse(R"([{"what": "output", "path": "o.npy", "name": null},
                                           {"what": "weights", "path": "w.npy", "name": null}])"));
  for (const char* key :
       {"isa", "kernel", "tile_queries", "block_keys", "tiles_computed", "tiles_partial",
        "tiles_skipped", "workspace_bytes", "result_bytes", "matrix_bytes", "group_heads"}) {
    EXPECT_TRUE(d.at("plan").contains(key)) << key;
  }
  EXPECT_EQ(d.at("plan").at("allowed_scores"), 3);
  EXPECT_EQ(d.at("plan").at("matrix_bytes"), 24);
  for (const char* key : {"wall_seconds", "cpu_seconds", "gflops"})
    EXPECT_TRUE(d.at("time").contains(key));
  for (const char* key : {"mode", "limit_bytes", "needed_bytes", "growth_bytes"})
    EXPECT_TRUE(d.at("memory").contains(key));
  EXPECT_EQ(d.at("peak"), nullptr);
  EXPECT_TRUE(d.contains("build"));
}

TEST_F(AttendTest, PeakIsMeasuredWhenItIsAskedFor) {
  save_problem();
  const Ran text = rapt(attend({"--peak"}));
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_TRUE(contains(text.out, "% of it reached")) << text.out;
  EXPECT_TRUE(contains(text.out, "the process grew by")) << text.out;
  const Ran json = rapt(attend({"--peak", "--json"}));
  EXPECT_GT(Json::parse(json.out).at("peak").at("percent").get<double>(), 0);
}

TEST_F(AttendTest, RunsOnTheInstructionSetThatIsAllowed) {
  save_problem();
  const Ran ran = rapt(attend({"--json"}), {.env = {{"RAPT_ISA", "scalar"}}});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out).at("plan").at("isa"), "scalar");
}

TEST_F(AttendTest, ReadsStandardInputAndWritesStandardOutput) {
  save_problem();
  const Ran ran =
      rapt({"attend", "--query", "-", "--key", "k.npy", "--value", "v.npy", "--output", "-"},
           {.input = read("q.npy")});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  write("o.npy", ran.out);
  expect_same(load("o.npy"), expected().output);
}

TEST_F(AttendTest, EmptyProblemsAreProblems) {
  save_problem(1, 2, 2, 0, 3, 4);
  ASSERT_EQ(rapt(attend({"--output", "o.npy", "-f"})).exit, 0);
  EXPECT_EQ(to_string(load("o.npy").dims()), "[1, 2, 0, 4]");
  save_problem(1, 2, 2, 3, 0, 4);
  ASSERT_EQ(rapt(attend({"--output", "o.npy", "--lse", "l.npy", "-f"})).exit, 0);
  const Tensor output = load("o.npy"), lse = load("l.npy");
  EXPECT_EQ(output.count(), 24);
  EXPECT_EQ(lse.count(), 6);
  for (const float x : output.values<float>()) EXPECT_EQ(x, 0);
  for (const float x : lse.values<float>()) EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
  const Ran summary = rapt(attend());
  EXPECT_EQ(summary.exit, 0) << summary.err;
}

}  // namespace
}  // namespace rapt::cli_test
