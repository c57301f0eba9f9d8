// rapt attend --grad-output: gradients in files have the library's bits. Also tests the report, and
// the mistakes that are rejected before any computation.
#include <nlohmann/json.hpp>

#include "cli/attend/attend_calls.h"
#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "rapt/score/softcap.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class GradientsTest : public AttendCalls {
 protected:
  GradientsTest() {
    save("do.npy", filled(DType::f32, {2, 4, 6, 8}, 7));
    save("dl.npy", filled(DType::f32, {2, 4, 6}, 8));
    save("bias.npy", filled(DType::f32, {4, 6, 9}, 9));
  }

  Gradients expected(const AttentionOptions& options, const BackwardRequest& request,
                     bool with_lse = false) const {
    const Tensor query = load("q.npy"), key = load("k.npy"), value = load("v.npy");
    const Tensor d_output = load("do.npy"), d_lse = load("dl.npy");
    AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
    BackwardInputs inputs;
    inputs.state = forward.state();
    inputs.d_output = d_output;
    if (with_lse) inputs.d_statistic = d_lse;
    return scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
  }
};

const std::vector<std::string> kAllFiles = {"--grad-query", "dq.npy",       "--grad-key",
                                            "dk.npy",       "--grad-value", "dv.npy"};

std::vector<std::string> together(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(GradientsTest, FilesAreTheLibrarysBits) {
  const Gradients want = expected({}, {});
  const Ran done = ran(together({"--grad-output", "do.npy"}, kAllFiles));
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(done.err.find("wrote dq.npy: grad-query f32 [2, 4, 6, 8]"), 0u) << done.err;
  expect_same(load("dq.npy"), want.d_query);
  expect_same(load("dk.npy"), want.d_key);
  expect_same(load("dv.npy"), want.d_value);
}

TEST_F(GradientsTest, OfBiasScaleAndScoresBesideTheOutput) {
  const Causal causal(Anchor::bottom_right);
  const Softcap softcap(0.5), wide(2);
  const Tensor bias = load("bias.npy");
  AttentionOptions options;
  options.scale = 0.4;
  options.masks = {&causal};
  options.bias = bias;
  options.scores = {softcap, wide};
  BackwardRequest request;
  request.bias = request.scale = request.score_parameters = true;
  const Gradients want = expected(options, request, true);
  const std::vector<std::string> call = {
      "--scale",       "0.4",        "--mask",      "causal:bottom-right",
      "--bias",        "bias.npy",   "--score",     "softcap(0.5)",
      "--score",       "softcap(2)", "--output",    "all.npz",
      "--grad-output", "do.npy",     "--grad-lse",  "dl.npy",
      "--grad-query",  "all.npz",    "--grad-key",  "all.npz:dk",
      "--grad-value",  "all.npz",    "--grad-bias", "db.npy"};
  const Json json = Json::parse(ran(together(call, {"--json"})).out);
  expect_same(load("all.npz", "grad-query"), want.d_query);
  expect_same(load("all.npz", "dk"), want.d_key);
  expect_same(load("all.npz", "grad-value"), want.d_value);
  expect_same(load("db.npy"), want.d_bias);
  expect_same(
      load("all.npz", "output"),
      scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options).output);

  const Json& gradients = json.at("gradients");
  EXPECT_EQ(gradients.at("query").at("shape"), Json({2, 4, 6, 8}));
  EXPECT_EQ(gradients.at("bias").at("shape"), Json({4, 6, 9}));
  const auto scores = want.d_score_parameters.values<double>();
  const Json numbers = {{{"of", "scale"}, {"value", want.d_scale.values<double>()[0]}},
                        {{"of", "softcap(0.5): cap"}, {"value", scores[0]}},
                        {{"of", "softcap(2): cap"}, {"value", scores[1]}}};
  EXPECT_EQ(gradients.at("numbers"), numbers);
  EXPECT_GT(gradients.at("wall_seconds"), 0);
  // 2 x 4 x 6 x 8 and twice 2 x 2 x 9 x 8 numbers, those of the bias, and three f64 numbers.
  EXPECT_EQ(gradients.at("result_bytes"), 4 * (384 + 288 + 288 + 216) + 3 * 8);
  EXPECT_GT(gradients.at("workspace_bytes"), 0);
  EXPECT_EQ(json.at("files").size(), 5u);
}

TEST_F(GradientsTest, OfRelativePositionsByTheirNames) {
  save("kr.npy", filled(DType::f32, {4, 5, 8}, 41));
  save("vr.npy", filled(DType::f32, {5, 8}, 42));
  save("u.npy", filled(DType::f32, {8}, 43));
  const Tensor key_rows = load("kr.npy"), value_rows = load("vr.npy"), bias = load("u.npy");
  AttentionOptions options;
  options.relative.key_rows = key_rows;
  options.relative.value_rows = value_rows;
  options.relative.position_bias = bias;
  BackwardRequest request;
  request.relative = true;
  request.query = request.key = request.value = false;
  const Gradients want = expected(options, request);
  const std::vector<std::string> call = {
      "--relative",      "key_rows=kr.npy, value_rows=vr.npy, position_bias=u.npy",
      "--grad-output",   "do.npy",
      "--grad-relative", "g.npz"};
  const Ran done = ran(together(call, {"--json"}));
  expect_same(load("g.npz", "key_rows"), want.d_key_rows);
  expect_same(load("g.npz", "value_rows"), want.d_value_rows);
  expect_same(load("g.npz", "position_bias"), want.d_position_bias);
  const Json json = Json::parse(done.out);
  const Json& relative = json.at("gradients").at("relative");
  EXPECT_EQ(relative.size(), 3u);
  EXPECT_EQ(relative.at("key_rows").at("shape"), Json({4, 5, 8}));
  EXPECT_EQ(json.at("files").at(0).at("name"), "key_rows");
  // 4 x 5 x 8, 5 x 8 and 8 f32 numbers, and one f64 number for the scale.
  EXPECT_EQ(json.at("gradients").at("result_bytes"), 4 * (160 + 40 + 8) + 8);
}

TEST_F(GradientsTest, OnlyNumbersAreInTheSummary) {
  BackwardRequest request;
  request.query = request.key = request.value = false;
  request.scale = true;
  const Gradients want = expected({}, request);
  char number[32];
  std::snprintf(number, sizeof number, "scale %.6g, ", want.d_scale.values<double>()[0]);
  const Ran done = ran({"--grad-output", "do.npy"});
  EXPECT_TRUE(contains(done.out, "gradients")) << done.out;
  EXPECT_TRUE(contains(done.out, number)) << number << done.out;
  const Json json = Json::parse(ran({"--grad-output", "do.npy", "--json"}).out);
  EXPECT_TRUE(json.at("gradients").at("query").is_null());
  EXPECT_TRUE(Json::parse(ran({"--json"}).out).at("gradients").is_null());
}

TEST_F(GradientsTest, OtherTypesAreConverted) {
  save("q64.npy", filled(DType::f64, {2, 3, 4}, 1));
  const Ran done =
      rapt({"attend", "--query", "q64.npy", "--key", "q64.npy", "--value", "q64.npy", "--dtype",
            "bf16", "--grad-output", "q64.npy", "--grad-query", "g.safetensors"});
  EXPECT_EQ(done.exit, 0) << done.err;
  EXPECT_TRUE(contains(done.err, "--grad-output: f64 converted to bf16")) << done.err;
  EXPECT_EQ(load("g.safetensors", "grad-query").dtype(), DType::bf16);
}

TEST_F(GradientsTest, APlanTellsTheMemory) {
  const Json json =
      Json::parse(ran(together({"--grad-output", "do.npy", "--plan", "--json"}, kAllFiles)).out);
  EXPECT_FALSE(std::filesystem::exists(path("dq.npy")));
  const Json& gradients = json.at("gradients");
  EXPECT_EQ(gradients.at("result_bytes"), 4 * (384 + 288 + 288) + 8);
  EXPECT_TRUE(gradients.at("wall_seconds").is_null());
  const auto needed = json.at("memory").at("needed_bytes").get<int64_t>();
  const auto without = Json::parse(ran({"--plan", "--json"}).out).at("memory").at("needed_bytes");
  EXPECT_EQ(needed - without.get<int64_t>(), gradients.at("result_bytes").get<int64_t>() +
                                                 gradients.at("workspace_bytes").get<int64_t>());
  const std::vector<std::string> limited =
      together(together({"--grad-output", "do.npy"}, kAllFiles),
               {"--memory-limit", std::to_string(needed - 1)});
  expect_refused(limited, 5, "the gradients and the work for them");
}

TEST_F(GradientsTest, Refusals) {
  for (const char* option : {"--grad-lse", "--grad-query", "--grad-key", "--grad-value",
                             "--grad-bias", "--grad-relative"})
    expect_refused({option, "x.npy"}, 2, "needs --grad-output");
  expect_refused({"--grad-output", "do.npy", "--grad-bias", "b.npy"}, 2,
                 "--grad-bias: there is no bias");
  expect_refused({"--grad-output", "do.npy", "--grad-relative", "g.npz"}, 2,
                 "--grad-relative needs --relative");
  expect_refused({"--grad-output", "do.npy", "--relative", "content_bias=1 1 1 1 1 1 1 1",
                  "--grad-relative", "g.npy"},
                 2, "--grad-relative: several tensors go into a .npz or .safetensors file");
  expect_refused({"--grad-output", "do.npy", "--relative", "content_bias=1 1 1 1 1 1 1 1",
                  "--grad-relative", "g.npz:name"},
                 2, "--grad-relative: its tensors have names of their own");
  expect_refused({"--grad-output", "q.npy", "--grad-lse", "q.npy"}, 3,
                 "--grad-lse: expected shape [2, 4, 6], got [2, 4, 6, 8]");
  expect_refused({"--grad-output", "dl.npy"}, 3,
                 "--grad-output: expected shape [2, 4, 6, 8], got [2, 4, 6]");
  expect_refused({"--grad-output", "absent.npy"}, 4, "absent.npy");
  expect_refused({"--grad-output", "do.npy", "--grad-query", "q.npy"}, 4, "q.npy");
  expect_refused({"--grad-output", "do.npy", "--grad-query", "x.npy", "--grad-key", "x.npy"}, 2,
                 "x.npy");
  expect_refused({"--grad-output", "-", "--bias", "-"}, 2, "standard input can be read once");
  expect_refused({"--grad-output", "do.npy", "--dtype", "bf16", "--grad-key", "x.npy"}, 2,
                 "grad-key is bf16");
}

}  // namespace
}  // namespace rapt::cli_test
