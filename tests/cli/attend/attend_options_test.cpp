// rapt attend: element types, arithmetic, threads, packed sequences, and --plan.
#include <nlohmann/json.hpp>

#include "cli/attend/attend_calls.h"
#include "rapt/attention.h"
#include "rapt/mask/causal.h"
#include "rapt/score/softcap.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class OptionsTest : public AttendCalls {
 protected:
  Tensor as(const char* file, DType dtype) const {
    const Tensor from = load(file);
    Tensor to(dtype, from.dims());
    for (int64_t i = 0; i < from.count(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (dtype == DType::bf16) {
        to.values<BFloat16>()[at] = BFloat16::from(from.values<float>()[at]);
      } else {
        to.values<Float16>()[at] = Float16::from(from.values<float>()[at]);
      }
    }
    return to;
  }
  Tensor output_of(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = attend({"--output", "o.npy", "-f"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return load("o.npy");
  }
  void save_starts(const char* name, std::vector<int64_t> starts) const {
    Tensor tensor(DType::i64, {static_cast<int64_t>(starts.size())});
    std::copy(starts.begin(), starts.end(), tensor.values<int64_t>().begin());
    save(name, tensor);
  }
};

TEST_F(OptionsTest, SixteenBitsAreConvertedOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    AttentionOptions options;
    options.output_dtype = DType::f32;
    for (const auto& [name, precision] :
         {std::pair("auto", Precision::automatic), std::pair("fma", Precision::fma),
          std::pair("fast", Precision::fast)}) {
      options.precision = precision;
      expect_same(
          output_of({"--dtype", name_of(dtype), "--output-dtype", "f32", "--precision", name}),
          scaled_dot_product_attention(as("q.npy", dtype), as("k.npy", dtype), as("v.npy", dtype),
                                       options)
              .output);
    }
  }
}

TEST_F(OptionsTest, HalvesAreReadAndWritten) {
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) save(name, as(name, DType::f16));
  const Tensor output = output_of({});
  expect_same(output,
              scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy")).output);
  EXPECT_EQ(output.dtype(), DType::f16);
  // An f32 bias is not rounded to the dtype of the inputs.
  const Tensor bias = filled(DType::f32, {6, 9}, 5);
  save("b.npy", bias);
  AttentionOptions options;
  options.bias = bias.view();
  expect_same(
      output_of({"--bias", "b.npy"}),
      scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);
  const Ran summary = rapt(attend());
  EXPECT_TRUE(contains(summary.out, "query     f16 [2, 4, 6, 8]")) << summary.out;
}

TEST_F(OptionsTest, Bf16HasNoNpyFile) {
  expect_refused({"--dtype", "bf16", "--output", "o.npy"}, 2,
                 "output is bf16, for which .npy files have no name");
  const Ran ran = rapt(attend({"--dtype", "bf16", "--json", "--lse", "l.npy"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out).at("output").at("dtype"), "bf16");
  EXPECT_EQ(load("l.npy").dtype(), DType::f32);
}

TEST_F(OptionsTest, RowsAreTurnedAndDividedByTheirLengths) {
  const Tensor query = load("q.npy"), key = load("k.npy"), value = load("v.npy");
  Rotary rotary;
  AttentionOptions options;
  options.rotary.embedding = &rotary;
  const auto expected = [&] {
    return scaled_dot_product_attention(query, key, value, options).output;
  };
  expect_same(output_of({"--rotary"}), expected());
  rotary.theta = 500, rotary.pairs = RotaryPairs::interleaved, rotary.dims = 6;
  rotary.scaling = RotaryScaling::yarn, rotary.factor = 4, rotary.original_length = 16;
  options.rotary.query.start = 3;
  const std::vector<std::string> words = {
      "--rotary", "theta=500,interleaved,dims=6,scaling=yarn,factor=4,original_length=16",
      "--query-start", "3"};
  expect_same(output_of(words), expected());
  options.cosine = Cosine{0.5};
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--cosine", "0.5"});
  expect_same(output_of(more), expected());
  options.cosine.emplace();
  options.rotary = {};
  expect_same(output_of({"--cosine"}), expected());
  const Ran json = rapt(attend({"--rotary", "theta=500", "--cosine", "--json"}));
  EXPECT_EQ(Json::parse(json.out).at("rotary"), "rotary(theta=500)");
  EXPECT_EQ(Json::parse(json.out).at("cosine"), 1e-12);
}

TEST_F(OptionsTest, RowsOfDistancesAreWithinTheProducts) {
  for (const char* name : {"kr.npy", "qr.npy", "vr.npy"})
    save(name, filled(DType::f32, {4, 5, 8}, static_cast<uint64_t>(name[0])));
  save("u.npy", filled(DType::f32, {4, 8}, 31));
  const Tensor query = load("q.npy"), key = load("k.npy"), value = load("v.npy");
  const Tensor key_rows = load("kr.npy"), query_rows = load("qr.npy"), bias = load("u.npy");
  AttentionOptions options;
  options.relative.key_rows = key_rows;
  const auto expected = [&] {
    return scaled_dot_product_attention(query, key, value, options).output;
  };
  expect_same(output_of({"--relative", "key_rows=kr.npy"}), expected());
  const Tensor value_rows = load("vr.npy");
  options.relative.query_rows = query_rows;
  options.relative.value_rows = value_rows;
  options.relative.content_bias = options.relative.position_bias = bias;
  options.relative.center = 1;
  options.relative.exact = 2, options.relative.max_distance = 7;
  options.relative.anchor = Anchor::bottom_right;
  const std::string all =
      "key_rows=kr.npy, query_rows=qr.npy,value_rows=vr.npy, content_bias=u.npy, "
      "position_bias=u.npy, center=1, exact=2, max_distance=7, anchor=bottom-right";
  expect_same(output_of({"--relative", all}), expected());
  // With f16 inputs the distance tables are f16 too. Small ones can be given on the command line.
  const Tensor halves = as("kr.npy", DType::f16);
  Tensor ones(DType::f16, {8});
  for (Float16& one : ones.values<Float16>()) one = Float16::from(1);
  AttentionOptions small;
  small.relative.key_rows = halves;
  small.relative.content_bias = ones;
  expect_same(
      output_of({"--dtype", "f16", "--relative", "key_rows=kr.npy, content_bias=1 1 1 1 1 1 1 1"}),
      scaled_dot_product_attention(as("q.npy", DType::f16), as("k.npy", DType::f16),
                                   as("v.npy", DType::f16), small)
          .output);
  const Ran summary = rapt(attend({"--relative", "key_rows=kr.npy"}));
  EXPECT_TRUE(contains(summary.out, "products  relative(key_rows=kr.npy)")) << summary.out;
  const Ran json = rapt(attend({"--relative", "key_rows=kr.npy", "--json"}));
  EXPECT_EQ(Json::parse(json.out).at("relative"), "relative(key_rows=kr.npy)");
  EXPECT_TRUE(Json::parse(rapt(attend({"--json"})).out).at("relative").is_null());
}

TEST_F(OptionsTest, RowsOfDistancesThatDoNotFit) {
  save("kr.npy", filled(DType::f32, {5, 8}, 1));
  save("short.npy", filled(DType::f32, {5, 7}, 1));
  save("heads.npy", filled(DType::f32, {3, 5, 8}, 1));
  save("other.npy", filled(DType::f32, {6, 8}, 1));
  const struct {
    std::vector<std::string> more;
    int exit;
    const char* says;
  } cases[] = {
      {{"--relative", "key_rows=short.npy"}, 3, "expected a last dimension of 8"},
      {{"--relative", "key_rows=heads.npy"}, 3, "does not broadcast to [2, 4]"},
      {{"--relative", "key_rows=kr.npy, query_rows=other.npy"}, 3, "has 6 rows, but another"},
      {{"--relative", "key_rows=kr.npy, center=5"}, 3, "--relative: relative: center 5"},
      {{"--relative", "content_bias=kr.npy"}, 3, "does not broadcast"},
      {{"--relative", "value_rows=kr.npy, position_bias=1 1 1 1 1 1 1 1"}, 3, "without key_rows"},
      {{"--relative", "key_rows=absent.npy"}, 4, "absent.npy"},
      {{"--relative", "key_row=kr.npy"}, 2, "did you mean key_rows?"},
      {{"--relative", "kr.npy"}, 2, "no use for \"kr.npy\""},
      {{"--relative", "center=3"}, 2, "no tensor is named"},
      {{"--relative", "key_rows=kr.npy, anchor=sideways"}, 2, "no use for \"anchor=sideways\""},
      {{"--relative", "key_rows=kr.npy, exact=-2"}, 2, "exact = -2 is out of range"},
      {{"--relative", "key_rows=kr.npy, exact=4, max_distance=5"}, 3, "max_distance above 3 exact"},
      {{"--relative", "key_rows=kr.npy", "--rotary"}, 2, "together with rotary or cosine"},
      {{"--relatve", "key_rows=kr.npy"}, 2, "did you mean '--relative'?"},
  };
  for (const auto& c : cases) expect_refused(c.more, c.exit, c.says);
}

TEST_F(OptionsTest, OutputDtypesThatTheInputsDoNotHave) {
  expect_refused({"--output-dtype", "bf16"}, 3, "--output-dtype: output_dtype bf16 for f32");
  expect_refused({"--output-dtype", "i64"}, 2, "--output-dtype: expected f32, bf16, f16 or f64");
  expect_refused({"--precision", "exact"}, 2, "expected auto, fma or fast, got 'exact'");
}

TEST_F(OptionsTest, MemoryDoesNotChangeBits) {
  save_problem(1, 4, 2, 200, 300, 32);
  const Tensor usual = output_of({});
  expect_same(output_of({"--memory", "auto"}), usual);
  expect_same(output_of({"--memory", "low"}), usual);
  AttentionOptions options;
  for (const bool low : {false, true}) {
    Context context;
    context.memory = low ? Memory::low : Memory::automatic;
    const size_t bytes =
        workspace_bytes(load("q.npy"), load("k.npy"), load("v.npy"), options, context);
    const char* const name = low ? "low" : "auto";
    const Json d = Json::parse(rapt(attend({"--plan", "--json", "--memory", name})).out);
    EXPECT_EQ(d.at("plan").at("workspace_bytes"), bytes);
    EXPECT_EQ(d.at("memory").at("mode"), name);
  }
  expect_refused({"--memory", "high"}, 2, "--memory: expected auto or low, got 'high'");
}

TEST_F(OptionsTest, ThreadsDoNotChangeBits) {
  save_problem(1, 4, 4, 600, 600, 32);
  const Tensor one = output_of({"--threads", "1"});
  expect_same(output_of({"--threads", "3"}), one);
  const Ran ran = rapt(attend({"--threads", "1", "--json"}));
  EXPECT_EQ(Json::parse(ran.out).at("plan").at("threads"), 1);
  const Ran two = rapt(attend({"--plan", "--json"}), {.env = {{"RAPT_THREADS", "2"}}});
  EXPECT_EQ(Json::parse(two.out).at("plan").at("threads"), 2) << two.err;
  expect_refused({"--threads", "0"}, 2, "--threads: expected 1 to");
  expect_refused({"--threads", "100000"}, 2, "--threads: expected 1 to");
  expect_refused({"--threads", "many"}, 2, "--threads: expected a whole number");
  const Ran bad = rapt(attend(), {.env = {{"RAPT_THREADS", "none"}}});
  EXPECT_EQ(bad.exit, 3);
  EXPECT_TRUE(contains(bad.err, "RAPT_THREADS")) << bad.err;
}

TEST_F(OptionsTest, InvariantIsPassedOn) {
  AttentionOptions options;
  options.invariant = true;
  expect_same(
      output_of({"--invariant"}),
      scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);
  EXPECT_EQ(Json::parse(rapt(attend({"--invariant", "--json"})).out).at("invariant"), true);
}

TEST_F(OptionsTest, DropoutIsPassedOnAndReported) {
  AttentionOptions options;
  for (const uint64_t seed : {0, 7}) {
    options.dropout = {0.4, seed};
    std::vector<std::string> more = {"--dropout", "0.4"};
    if (seed != 0) more.insert(more.end(), {"--seed", std::to_string(seed)});
    expect_same(
        output_of(more),
        scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);
    more.push_back("--json");
    EXPECT_EQ(Json::parse(rapt(attend(more)).out).at("dropout"),
              (Json{{"probability", 0.4}, {"seed", seed}}));
    more.back() = "--plan";
    const Ran summary = rapt(attend(more));
    EXPECT_TRUE(contains(summary.out, "dropout   0.4, seed " + std::to_string(seed)))
        << summary.out;
  }
  EXPECT_TRUE(Json::parse(rapt(attend({"--json"})).out).at("dropout").is_null());
}

TEST_F(OptionsTest, SoftcapIsAScoreOfTheCatalogue) {
  const Softcap cap(0.25);
  AttentionOptions options;
  options.scores = {cap};
  const Tensor want =
      scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output;
  expect_same(output_of({"--softcap", "0.25"}), want);
  expect_same(output_of({"--score", "softcap(0.25)"}), want);
  const Softcap wide(2);
  options.scores = {cap, wide};
  expect_same(
      output_of({"--softcap", "0.25", "--score", "softcap:2"}),
      scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);
  const Ran json = rapt(attend({"--softcap", "0.25", "--json"}));
  EXPECT_EQ(Json::parse(json.out).at("scores"), Json({"softcap(0.25)"}));
}

TEST_F(OptionsTest, ABiasComesAfterTheScoresOrBeforeThem) {
  const Tensor bias = filled(DType::f32, {6, 9}, 5);
  save("b.npy", bias);
  const Softcap cap(0.25);
  AttentionOptions options;
  options.scores = {cap};
  options.bias = bias.view();
  for (const BiasOrder order : {BiasOrder::after_scores, BiasOrder::before_scores}) {
    options.bias_order = order;
    const char* const name = kBiasOrderNames[static_cast<int>(order)];
    expect_same(
        output_of({"--softcap", "0.25", "--bias", "b.npy", "--bias-order", name}),
        scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);
    const Ran json =
        rapt(attend({"--softcap", "0.25", "--mask", "file:b.npy", "--bias-order", name, "--json"}));
    EXPECT_EQ(Json::parse(json.out).at("bias_order"), name);
  }
  EXPECT_TRUE(Json::parse(rapt(attend({"--json"})).out).at("bias_order").is_null());
}

TEST_F(OptionsTest, PackedSequencesAreCallsOfTheirOwn) {
  save_starts("s.npy", {0, 2, 6});
  save_starts("t.npy", {0, 5, 9});
  const Causal causal;
  AttentionOptions options;
  options.masks = {&causal};
  const Tensor q = load("q.npy"), k = load("k.npy"), v = load("v.npy");
  const Tensor packed =
      output_of({"--packed", "s.npy", "--packed-keys", "t.npy", "--mask", "causal"});
  const int64_t queries[] = {0, 2, 6}, keys[] = {0, 5, 9};
  for (int s = 0; s < 2; ++s) {
    const AttentionResult alone = scaled_dot_product_attention(
        q.view().slice(2, queries[s], queries[s + 1]), k.view().slice(2, keys[s], keys[s + 1]),
        v.view().slice(2, keys[s], keys[s + 1]), options);
    expect_same(Tensor::copy_of(packed.view().slice(2, queries[s], queries[s + 1])), alone.output);
  }
  const Ran stats =
      rapt(attend({"--packed", "s.npy", "--packed-keys", "t.npy", "--stats", "--json"}));
  ASSERT_EQ(stats.exit, 0) << stats.err;
  const Json d = Json::parse(stats.out);
  EXPECT_EQ(d.at("packed"), true);
  // The two sequences have 2 x 5 and 4 x 4 of the 6 x 9 pairs.
  EXPECT_NEAR(d.at("stats").at(7).at("allowed_share").get<double>(), 26.0 / 54, 1e-12);
}

TEST_F(OptionsTest, PacksThatDoNotFit) {
  save_starts("s.npy", {0, 2, 6});
  save_starts("t.npy", {0, 5, 9});
  save_starts("falling.npy", {0, 4, 2, 6});
  save_starts("one.npy", {0});
  save_starts("long.npy", {0, 7});
  save("m.npy", filled(DType::f32, {6, 9}, 2));
  expect_refused({"--packed", "s.npy"}, 3, "--packed: packed.key_starts ends at 6");
  expect_refused({"--packed", "falling.npy", "--packed-keys", "t.npy"}, 3, "expected at least 4");
  expect_refused({"--packed", "one.npy"}, 3, "no sequence");
  expect_refused({"--packed", "long.npy"}, 3, "--packed: ");
  expect_refused({"--packed", "m.npy"}, 3, "--packed: packed.query_starts is f32 [6, 9]");
  expect_refused({"--packed", "none.npy"}, 4, "no such file");
  expect_refused({"--packed-keys", "t.npy"}, 2, "--packed-keys needs --packed");
  expect_refused({"--packed", "-", "--packed-keys", "-"}, 2, "read once");
  expect_refused({"--packed", "s.npy", "--packed-keys", "t.npy", "--bias", "m.npy"}, 2,
                 "a bias of packed sequences");
}

TEST_F(OptionsTest, ThePlanAloneWritesNothing) {
  const std::vector<std::string> before = files();
  const Ran text = rapt(attend({"--plan", "--weights", "w.npy", "--heatmap", "h.svg", "--stats"}));
  ASSERT_EQ(text.exit, 0) << text.err;
  for (const char* part : {"kernel    tile", "threads   1", "tiles", "memory"}) {
    EXPECT_TRUE(contains(text.out, part)) << part << " in " << text.out;
  }
  EXPECT_FALSE(contains(text.out, "\ntime ")) << text.out;
  EXPECT_EQ(files(), before);
  const auto bytes = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = attend({"--plan", "--json"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json d = Json::parse(rapt(arguments).out);
    EXPECT_EQ(d.at("time"), nullptr);
    EXPECT_EQ(d.at("output"), nullptr);
    return d.at("plan").at("result_bytes").get<int64_t>();
  };
  EXPECT_EQ(bytes({"--weights", "w.npy"}) - bytes({}), 2 * 4 * 6 * 9 * 4);
}

}  // namespace
}  // namespace rapt::cli_test
