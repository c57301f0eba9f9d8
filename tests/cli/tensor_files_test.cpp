// Tensors by name in files of any format, as inputs and outputs of every command.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "rapt/attention.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class TensorFilesTest : public RaptTest {
 protected:
  TensorFilesTest() {
    save_problem();
    const Tensor q = load("q.npy"), k = load("k.npy"), v = load("v.npy");
    for (const char* file : {"all.npz", "all.safetensors"})
      save_all(file, {{"query", q.view()}, {"key", k.view()}, {"value", v.view()}});
    save_all("one.npz", {{"only", q.view()}});
  }
  static std::vector<std::string> attend_on(const std::string& q, const std::string& k,
                                            const std::string& v,
                                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"attend", "--query", q, "--key", k, "--value", v};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Tensor expected() const {
    return std::move(
        scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy")).output);
  }
  void expect_refused(const std::vector<std::string>& arguments, int exit,
                      const std::vector<std::string>& says) const {
    SCOPED_TRACE(says.front());
    const std::vector<std::string> before = files();
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, exit) << ran.err;
    for (const std::string& part : says) EXPECT_TRUE(contains(ran.err, part)) << ran.err;
    EXPECT_EQ(ran.out, "");
    const auto lines = std::count(ran.err.begin(), ran.err.end(), '\n');
    EXPECT_TRUE(lines == 1 || (lines == 2 && contains(ran.err, "\nhint: "))) << ran.err;
    EXPECT_EQ(files(), before);
  }
};

TEST_F(TensorFilesTest, AreNamedBehindTheColon) {
  for (const std::string file : {"all.npz", "all.safetensors"}) {
    SCOPED_TRACE(file);
    const Ran ran = rapt(attend_on(file + ":query", file + ":key", file + ":value",
                                   {"--output", "o.npy", "--force"}));
    ASSERT_EQ(ran.exit, 0) << ran.err;
    expect_same(load("o.npy"), expected());
  }
}

TEST_F(TensorFilesTest, AFileWithOneTensorNeedsNoName) {
  const Ran ran = rapt(attend_on("one.npz", "all.npz:key", "all.npz:value", {"--output", "o.npy"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_same(load("o.npy"), expected());
}

TEST_F(TensorFilesTest, OneOfSeveralMustBeNamed) {
  expect_refused(attend_on("all.npz", "k.npy", "v.npy"), 3,
                 {"--query: all.npz holds 3 tensors, expected the name of one",
                  "'query', 'key', 'value'", "hint: for example 'all.npz:"});
}

TEST_F(TensorFilesTest, ANameThatIsNotThereIsAnsweredWithThoseThatAre) {
  for (const std::string file : {"all.npz", "all.safetensors"})
    expect_refused(attend_on(file + ":qurey", "k.npy", "v.npy"), 3,
                   {file + ": no tensor 'qurey'; there are", "'key'", "'value'",
                    "hint: did you mean 'query'?"});
  expect_refused(attend_on("one.npz:x", "k.npy", "v.npy"), 3, {"there is 'only'"});
  expect_refused(attend_on("q.npy:x", "k.npy", "v.npy"), 3,
                 {"q.npy holds one tensor without a name", "leave out ':x'"});
  expect_refused(attend_on("all.npz:", "k.npy", "v.npy"), 3, {"no tensor ''"});
}

TEST_F(TensorFilesTest, ManyNamesAreCutInTheMessage) {
  std::vector<NamedTensor> tensors;
  const Tensor one = filled(DType::f32, {1}, 1);
  for (int i = 0; i < 100; ++i) tensors.push_back({"layer." + std::to_string(i), one.view()});
  save_all("many.npz", tensors);
  expect_refused(attend_on("many.npz:x", "k.npy", "v.npy"), 3, {"'layer.11' and 88 more"});
}

TEST_F(TensorFilesTest, AFileThatIsNotThereIsAnsweredWithTheNearest) {
  expect_refused(attend_on("al.npz:query", "k.npy", "v.npy"), 4,
                 {"no such file: 'al.npz'", "did you mean 'all.npz'?"});
}

TEST_F(TensorFilesTest, APathWithAColonThatExistsWins) {
  write("all.npz:query", read("k.npy"));
  write("a:b.npz", read("one.npz"));
  const Ran ran = rapt({"info", "all.npz:query", "a:b.npz:only", "--no-stats"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "all.npz:query: npy")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "a:b.npz: npz")) << ran.out;
}

TEST_F(TensorFilesTest, StandardInputHoldsTensorsByName) {
  const Ran ran = rapt(attend_on("-:query", "-:key", "-:value", {"--output", "o.npy"}),
                       {.input = read("all.npz")});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  expect_same(load("o.npy"), expected());
}

TEST_F(TensorFilesTest, MasksAndBiasesComeFromThemToo) {
  Tensor allowed(DType::boolean, {6, 9}), lengths(DType::i64, {2});
  for (int64_t i = 0; i < 54; ++i) allowed.values<bool>()[static_cast<size_t>(i)] = i % 3 != 1;
  lengths.values<int64_t>()[0] = 4;
  lengths.values<int64_t>()[1] = 9;
  save("m.npy", allowed);
  save("len.npy", lengths);
  save_all("masks.safetensors", {{"m", allowed.view()}, {"len", lengths.view()}});
  const std::pair<const char*, const char*> same[] = {
      {"file:m.npy", "file:masks.safetensors:m"},
      {"file(m.npy)", "file(masks.safetensors:m)"},
      {"boolean(m.npy)|causal", "boolean(masks.safetensors:m)|causal"},
      {"lengths:len.npy", "lengths:masks.safetensors:len"},
      {"lengths(len.npy)", "lengths(masks.safetensors:len)"}};
  for (const auto& [plain, named] : same) {
    SCOPED_TRACE(named);
    ASSERT_EQ(rapt(attend({"--mask", plain, "--output", "a.npy", "-f"})).exit, 0);
    const Ran ran = rapt(attend({"--mask", named, "--output", "b.npy", "-f"}));
    ASSERT_EQ(ran.exit, 0) << ran.err;
    expect_same(load("a.npy"), load("b.npy"));
  }
}

TEST_F(TensorFilesTest, TextFilesOfNumbersAreTensors) {
  write("q.csv", "0.14, 0.10\n0.32, 0.28\n");
  write("k.json", "[[0.38, 0.30],\n [0.92, 0.75]]");
  write("v.csv", "0.07,0.09\r\n0.19,0.24\r\n");
  const Ran ran = rapt(attend_on("q.csv", "k.json", "v.csv"));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "[[0.1326 0.1682]")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "f64 [2, 2]")) << ran.out;
}

TEST_F(TensorFilesTest, OutputsIntoOneFileAreWrittenTogether) {
  for (const std::string file : {"o.npz", "o.safetensors"}) {
    SCOPED_TRACE(file);
    const Ran ran = rapt(attend({"--output", file, "--weights", file + ":w", "--lse", file}));
    ASSERT_EQ(ran.exit, 0) << ran.err;
    EXPECT_TRUE(contains(ran.err, "wrote " + file + ": output f32 [2, 4, 6, 8], weights"))
        << ran.err;
    AttentionOptions options;
    options.weights.emplace();
    const AttentionResult result =
        scaled_dot_product_attention(load("q.npy"), load("k.npy"), load("v.npy"), options);
    expect_same(load(file, "output"), result.output);
    expect_same(load(file, "w"), result.weights);
    expect_same(load(file, "lse"), result.statistic);
  }
}

TEST_F(TensorFilesTest, TheSummarySaysUnderWhichNames) {
  const Ran ran = rapt(attend({"--output", "o.npz:x", "--lse", "l.npy", "--json"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json files = Json::parse(ran.out)["files"];
  EXPECT_EQ(files[0], (Json{{"what", "output"}, {"path", "o.npz"}, {"name", "x"}}));
  EXPECT_EQ(files[1], (Json{{"what", "lse"}, {"path", "l.npy"}, {"name", nullptr}}));
}

TEST_F(TensorFilesTest, OutputsThatCannotBeMeant) {
  expect_refused(attend({"--output", "o.npz:x", "--lse", "./o.npz:x"}), 2,
                 {"'./o.npz:x' is named as two outputs"});
  expect_refused(attend({"--output", "o.npy", "--lse", "o.npy"}), 2, {"is named as two outputs"});
  expect_refused(attend({"--output", "o.npz", "--heatmap", "o.svg", "--lse", "o.npy:x"}), 2,
                 {"holds one tensor without a name"});
  expect_refused(attend({"--output", "o.npz:"}), 2, {"expected a name after the colon"});
  expect_refused(attend({"--output", "o.txt"}), 2, {"'.npy', '.npz', '.safetensors'"});
  expect_refused(attend({"--output", "o.csv"}), 2, {"'.npy', '.npz', '.safetensors'"});
}

TEST_F(TensorFilesTest, AnExistingFileNeedsForceAndIsReplacedWhole) {
  const std::string before = read("all.npz");
  expect_refused(attend({"--output", "all.npz"}), 4, {"exists", "--force overwrites it"});
  EXPECT_EQ(read("all.npz"), before);
  ASSERT_EQ(rapt(attend({"--output", "all.npz", "--force"})).exit, 0);
  EXPECT_THROW(load("all.npz", "query"), std::runtime_error);
  EXPECT_EQ(to_string(load("all.npz", "output").dims()), "[2, 4, 6, 8]");
}

TEST_F(TensorFilesTest, Bf16HasANameInSafetensors) {
  const Ran ran = rapt(attend({"--dtype", "bf16", "--output", "o.safetensors"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(load("o.safetensors", "output").dtype(), DType::bf16);
  for (const std::string file : {"q", "k", "v"})  // so that no conversion is reported
    ASSERT_EQ(rapt({"convert", file + ".npy", file + ".safetensors", "--dtype", "bf16"}).exit, 0);
  expect_refused(
      attend_on("q.safetensors", "k.safetensors", "v.safetensors", {"--output", "o.npz"}), 2,
      {"output is bf16, for which .npz files have no name", "--npy-v2 bf16"});
}

TEST_F(TensorFilesTest, Bf16InNpyFilesIsAskedFor) {
  const Ran written =
      rapt(attend({"--dtype", "bf16", "--output", "o.npy", "--npy-v2", "bf16", "--lse", "l.npy"}));
  ASSERT_EQ(written.exit, 0) << written.err;
  EXPECT_TRUE(contains(written.err, "written as '<V2'")) << written.err;
  ASSERT_EQ(rapt(attend({"--dtype", "bf16", "--output", "o.safetensors"})).exit, 0);

  expect_refused(attend_on("o.npy", "o.npy", "o.npy"), 3, {"V2", "hint: --npy-v2 bf16"});
  const Ran read_again = rapt(attend_on("o.npy", "o.npy", "o.npy", {"--npy-v2", "bf16", "--json"}));
  ASSERT_EQ(read_again.exit, 0) << read_again.err;
  EXPECT_EQ(Json::parse(read_again.out)["query"]["dtype"], "bf16");
  ASSERT_EQ(rapt({"convert", "o.npy", "again.safetensors:output", "--npy-v2", "bf16"}).exit, 0);
  expect_same(load("again.safetensors", "output"), load("o.safetensors", "output"));
  expect_refused(attend({"--npy-v2", "f16"}), 2, {"--npy-v2: expected bf16, got 'f16'"});
}

TEST_F(TensorFilesTest, MappedFilesTakeNoMemory) {
  save_zeros("big.npy", 262144);  // 64 MiB
  const Ran ran =
      rapt(attend_on("q.npy", "k.npy", "v.npy", {"--plan", "--json", "--memory-limit", "1M"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Ran big = rapt({"attend", "--query", "big.npy", "--key", "big.npy", "--value", "big.npy",
                        "--plan", "--json", "--memory-limit", "100M"});
  ASSERT_EQ(big.exit, 0) << big.err;
  EXPECT_LT(Json::parse(big.out)["memory"]["needed_bytes"], 80 << 20) << "results alone";
}

}  // namespace
}  // namespace rapt::cli_test
