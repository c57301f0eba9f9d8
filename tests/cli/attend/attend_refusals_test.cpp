// rapt attend: everything that it rejects, with exit code and message.
#include "cli/support/run_rapt.h"
#include "rapt/catalogue.h"

namespace rapt::cli_test {
namespace {

struct Case {
  std::vector<std::string> more;  // arguments after the files of query, key and value
  const char* says;
};

class RefusalsTest : public RaptTest {
 protected:
  RefusalsTest() {
    save_problem();
    before_ = files();
  }

  // The call is rejected with this exit code and text, in one line and perhaps a hint. It writes no
  // file.
  void expect_refused(const std::vector<std::string>& arguments, int exit,
                      const std::string& says) {
    SCOPED_TRACE(says);
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, exit) << ran.err;
    EXPECT_TRUE(contains(ran.err, says)) << ran.err;
    EXPECT_EQ(ran.out, "");
    const auto lines = std::count(ran.err.begin(), ran.err.end(), '\n');
    EXPECT_TRUE(lines == 1 || (lines == 2 && contains(ran.err, "\nhint: "))) << ran.err;
    EXPECT_EQ(files(), before_);
  }
  void expect_all_refused(const std::vector<Case>& cases, int exit) {
    for (const Case& c : cases) expect_refused(attend(c.more), exit, c.says);
  }

  std::vector<std::string> before_;
};

TEST_F(RefusalsTest, NamesOfNoVariant) {
  expect_all_refused({{{"--method", "meen"}, "--method meen: there is no method \"meen\""},
                      {{"--method", "meen"}, "did you mean mean?"},
                      {{"--method", "mean(2)"}, "--method mean(2): method mean"}},
                     2);
  std::string says = "there is no normaliser \"hardmax\". Known:";
  for (const Declaration* normalizer : normalizer_declarations())
    says += std::string(says.ends_with(':') ? " " : ", ") + normalizer->name;
  expect_all_refused({{{"--normalizer", "hardmax"}, says.c_str()}}, 2);
}

TEST_F(RefusalsTest, CommandLinesThatCannotBeMeant) {
  expect_refused({"attend"}, 2, "expected --query, --key and --value, or --text");
  expect_refused({"attend", "--query", "q.npy"}, 2, "expected --query, --key and --value");
  expect_refused({"attend", "--query"}, 2, "--query");
  expect_refused({"attend", "--text", "a b", "--heads", "3", "--dim", "8"}, 2,
                 "a divisor of --dim");
  expect_refused({"attend", "--text", "a b", "--dim", "0"}, 2, "at least 1");
  expect_all_refused(
      {{{"--text", "a"}, "cannot be joined"},
       {{"--quary", "q.npy"}, "did you mean '--query'?"},
       {{"--ouput=o.npy"}, "did you mean '--output'?"},
       {{"--whatever"}, "unknown option '--whatever'"},
       {{"stray"}, "'stray' is not expected here"},
       {{"--query", "q.npy"}, "--query"},
       {{"--mask", "cuasal"}, "did you mean causal"},
       {{"--rotary", "scaling=yarm"}, "--rotary scaling=yarm: "},
       {{"--query-start", "3"}, "--query-start needs --rotary"},
       {{"--cosine", "0"}, "--cosine: cosine: epsilon = 0 is out of range"},
       {{"--bias-order", "first", "--softcap", "2"}, "after-scores or before-scores, got 'first'"},
       {{"--bias-order", "before-scores"}, "--bias-order needs --softcap or --score"},
       {{"--bias-order", "before-scores", "--softcap", "2"}, "--bias-order: there is no bias"},
       {{"--mask", ""}, "--mask"},
       {{"--mask", "window:1,2,3,4"}, "--mask window:1,2,3,4"},
       {{"--mask", "window:-2,0"}, "window"},
       {{"--mask", "causal:sideways"}, "--mask causal:sideways"},
       {{"--mask", "causal:99999999999999999999"}, "--mask causal"},
       {{"--mask", "file:"}, "expected file:M.npy"},
       {{"--mask", "file(m.npy"}, "')' is missing"},
       {{"--softcap", "0"}, "--softcap: expected a number above 0, got 0"},
       {{"--softcap", "-1"}, "above 0"},
       {{"--softcap", "inf"}, "--softcap: expected a finite number"},
       {{"--score", "sofcap(3)"}, "softcap"},
       {{"--score", "softcap(-3)"}, "--score"},
       {{"--dropout", "1"}, "--dropout: expected a probability from 0 to below 1, got 1"},
       {{"--dropout", "-0.1"}, "--dropout: expected a probability"},
       {{"--dropout", "nan"}, "--dropout: expected a finite number"},
       {{"--dropout", "0.1", "--seed", "-1"}, "--seed: expected 0 or more, got -1"},
       {{"--dropout", "0.1", "--seed", "x"}, "--seed: expected a whole number"},
       {{"--seed", "1"}, "--seed needs --dropout"},
       {{"--scale", "nan"}, "--scale: expected a finite number, got 'nan'"},
       {{"--scale", "inf"}, "finite"},
       {{"--scale", "1x"}, "finite"},
       {{"--dtype", "int8"}, "expected f32, bf16, f16 or f64, got 'int8'"},
       {{"--normalizer", "softmxa"}, "did you mean softmax?"},
       {{"--normalizer", "sigmoid(nan)"}, "no use for \"nan\""},
       {{"--normalizer", "relu(3)"}, "power = 3 is out of range"},
       {{"--normalizer", "sigmoid", "--lse", "l.npy"}, "--lse: --normalizer sigmoid has no lse"},
       {{"--normalizer", "relu", "--grad-output", "g.npy", "--grad-lse", "l.npy"},
        "--grad-lse: --normalizer relu has no lse"},
       {{"--dim", "8"}, "belong to --text"},
       {{"--heads", "2"}, "belong to --text"},
       {{"--weights-rows", "0:1"}, "need --weights"},
       {{"--weights-heads", "0,0"}, "need --weights"},
       {{"--weights", "w.npy", "--weights-rows", "3,"}, "whole numbers"},
       {{"--weights", "w.npy", "--weights-rows", "3:2"}, "a range a:b"},
       {{"--weights", "w.npy", "--weights-heads", "x"}, "whole numbers"},
       {{"--weights", "w.npy", "--weights-heads", "all", "--weights-heads", "0,0"}, "stands alone"},
       {{"--head", "0,0"}, "--head needs --heatmap"},
       {{"--heatmap", "h.jpg"}, "expected .svg, .png or -"},
       {{"--heatmap", "h.svg", "--colormap", "bleus"}, "did you mean 'blues'?"},
       {{"--heatmap", "-", "--color", "sometimes"}, "auto, always or never"},
       {{"--json", "--heatmap", "-"}, "standard output can take one"},
       {{"--output", "-", "--lse", "-"}, "standard output can take one"},
       {{"--output", "o.npy", "--lse", "./o.npy"}, "is named as two outputs"},
       {{"--output", "o.txt"}, "expected '.npy', '.npz', '.safetensors'"},
       {{"--output", ""}, "--output: expected a value, got an empty one"},
       {{"--memory-limit", "lots"}, "such as 512M"},
       {{"--memory-limit", "-1"}, "such as 512M"},
       {{"--memory-limit", "1e30"}, "such as 512M"}},
      2);
}

TEST_F(RefusalsTest, StandardInputCanBeReadOnce) {
  expect_refused({"attend", "--query", "-", "--key", "-", "--value", "v.npy"}, 2, "read once");
}

TEST_F(RefusalsTest, DataThatDoesNotFit) {
  save("d9.npy", filled(DType::f32, {2, 2, 9, 9}, 1));
  save("h3.npy", filled(DType::f32, {2, 3, 9, 8}, 1));
  save("flat.npy", filled(DType::f32, {8}, 1));
  save("b.npy", filled(DType::f32, {5, 9}, 1));
  Tensor ones(DType::f32, {6, 9}), long_lengths(DType::i64, {2}), bytes(DType::u8, {6, 9});
  for (float& x : ones.values<float>()) x = 1;
  long_lengths.values<int64_t>()[0] = 10;
  long_lengths.values<int64_t>()[1] = 3;
  for (uint8_t& x : bytes.values<uint8_t>()) x = 1;
  save("ones.npy", ones);
  Tensor halves(DType::f16, {6, 9}), upper_halves(DType::bf16, {6, 9});
  for (Float16& x : halves.values<Float16>()) x = Float16::from(1);
  for (BFloat16& x : upper_halves.values<BFloat16>()) x = BFloat16::from(0);
  save("f16.npy", halves);
  save_all("bf16.safetensors", {{"m", upper_halves.view()}});
  save("len.npy", long_lengths);
  save("u8.npy", bytes);
  Tensor half(DType::boolean, {6, 8});
  for (bool& x : half.values<bool>()) x = true;
  save("m.npy", half);
  before_ = files();
  const auto files_for = [](const char* q, const char* k, const char* v) {
    return std::vector<std::string>{"attend",  "--query", q,          "--key", k,
                                    "--value", v,         "--output", "o.npy"};
  };
  expect_refused(files_for("q.npy", "d9.npy", "v.npy"), 3, "head_dim");
  expect_refused(files_for("q.npy", "h3.npy", "h3.npy"), 3, "3");
  expect_refused(files_for("flat.npy", "k.npy", "v.npy"), 3, "[8]");
  expect_refused(files_for("q.npy", "k.npy", "q.npy"), 3, "value");
  expect_refused(files_for("m.npy", "k.npy", "v.npy"), 3, "bool");
  expect_all_refused({{{"--bias", "b.npy"}, "[5, 9]"},
                      {{"--mask", "file:m.npy"}, "[6, 8]"},
                      {{"--mask", "file:ones.npy"}, "holds only 0 and 1"},
                      {{"--mask", "file:f16.npy"}, "file of f16 that holds only 0 and 1"},
                      {{"--mask", "file:bf16.safetensors"}, "file of bf16 that holds only 0 and 1"},
                      {{"--mask", "file:u8.npy"}, "expected booleans, or floats as a bias, got u8"},
                      {{"--mask", "lengths:len.npy"}, "10"},
                      {{"--mask", "lengths:m.npy"}, "bool"},
                      {{"--weights", "w.npy", "--weights-rows", "0:7"}, "there are 6 rows"},
                      {{"--weights", "w.npy", "--weights-heads", "2,0"}, "0..1,0..3"},
                      {{"--weights", "w.npy", "--weights-heads", "0"}, "0..1,0..3"},
                      {{"--heatmap", "h.svg", "--head", "0,4"}, "0..1,0..3"},
                      {{"--heatmap", "h.svg", "--head", "0,-1"}, "0..1,0..3"}},
                     3);
  expect_refused({"attend", "--text", " \n\t"}, 3, "no word");
}

TEST_F(RefusalsTest, TwoBiases) {
  save("b.npy", filled(DType::f32, {6, 9}, 1));
  before_ = files();
  expect_all_refused({{{"--mask", "file:b.npy", "--mask", "file:b.npy"}, "bias can be given once"}},
                     2);
  expect_all_refused({{{"--mask", "file:b.npy", "--bias", "b.npy"}, "two biases"}}, 2);
}

TEST_F(RefusalsTest, FilesThatLie) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000), }";
  std::string lying = "\x93NUMPY\x01";
  lying += '\0';
  lying += static_cast<char>(header.size());
  lying += '\0';
  lying += header;
  write("lying.npy", lying);  // declares 4 GB of data
  write("twelve.npy",
        std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12));  // declares a header of 4 GiB
  write("cut.npy", read("q.npy").substr(0, 200));
  write("long.npy", read("q.npy") + "x");
  write("empty.npy", "");
  write("text.npy", "not numbers");
  std::string objects = read("q.npy");
  objects.replace(objects.find("<f4"), 3, "|O8");
  write("objects.npy", objects);
  before_ = files();
  for (const char* name :
       {"lying.npy", "twelve.npy", "cut.npy", "long.npy", "empty.npy", "text.npy", "objects.npy"}) {
    expect_refused({"attend", "--query", name, "--key", "k.npy", "--value", "v.npy", "--output",
                    "o.npy", "--memory-limit", "16M"},
                   3, name);
  }
  const Ran piped = rapt({"attend", "--query", "-", "--key", "k.npy", "--value", "v.npy"},
                         {.input = read("cut.npy")});
  EXPECT_EQ(piped.exit, 3) << piped.err;
  EXPECT_TRUE(contains(piped.err, "standard input")) << piped.err;
}

TEST_F(RefusalsTest, FilesThatAreNotThereOrCannotBeWritten) {
  std::filesystem::create_directory(path("folder.npy"));
  before_ = files();
  const auto query = [](const char* name) {
    return std::vector<std::string>{"attend", "--query", name,   "--key",
                                    "k.npy",  "--value", "v.npy"};
  };
  expect_refused(query("qq.npy"), 4, "no such file: 'qq.npy'\nhint: did you mean 'q.npy'?");
  expect_refused(query("nowhere/q.npy"), 4, "no such file");
  expect_refused(query("folder.npy"), 4, "folder.npy");
  expect_refused({"attend", "--text", "@none.txt"}, 4, "no such file: 'none.txt'");
  expect_all_refused({{{"--output", "nowhere/o.npy"}, "nowhere"},
                      {{"--output", "folder.npy"}, "folder"},
                      {{"--output", "q.npy"}, "exists"},
                      {{"--heatmap", "nowhere/h.svg"}, "nowhere"},
                      {{"--mask", "lengths:none.npy"}, "no such file"},
                      // The second output is invalid; the first is not written either.
                      {{"--output", "o.npy", "--lse", "nowhere/l.npy"}, "nowhere"},
                      {{"--output", "o.npy", "--heatmap", "q.npy/h.svg"}, "q.npy/h.svg"}},
                     4);
  const Ran full = rapt(attend({"--output", "/dev/full"}));
  EXPECT_EQ(full.exit, 4) << full.err;
  EXPECT_TRUE(contains(full.err, "No space left")) << full.err;
}

TEST_F(RefusalsTest, ExistingFilesNeedForce) {
  write("o.npy", "mine");
  before_ = files();
  expect_refused(attend({"--output", "o.npy"}), 4, "\nhint: --force overwrites it");
  EXPECT_EQ(read("o.npy"), "mine");
  // The call is rejected after the output file was opened; the file keeps its content.
  expect_refused(attend({"--output", "o.npy", "--force", "--mask", "lengths:none.npy"}), 4,
                 "no such");
  EXPECT_EQ(read("o.npy"), "mine");
  EXPECT_EQ(rapt(attend({"--output", "o.npy", "-f"})).exit, 0);
  EXPECT_EQ(to_string(load("o.npy").dims()), "[2, 4, 6, 8]");
}

TEST_F(RefusalsTest, MemoryBeyondTheLimitIsNotTaken) {
  // Mapped files need no memory; converted tensors do.
  expect_refused(attend({"--memory-limit", "1K", "--dtype", "f64"}), 5,
                 "needs 3.0 KiB, limit 1.0 KiB: --query as f64");
  // Input from a pipe must be held in memory, and is counted as it arrives.
  const Ran piped = rapt(
      {"attend", "--query", "-", "--key", "k.npy", "--value", "v.npy", "--memory-limit", "512K"},
      {.input = read("q.npy")});
  EXPECT_EQ(piped.exit, 5) << piped.err;
  EXPECT_TRUE(contains(piped.err, "limit 512.0 KiB: standard input")) << piped.err;
  expect_refused(attend({"--memory-limit", "2KiB", "--output", "o.npy"}), 5, "limit 2.0 KiB");
  // 149 GiB of weights from a file of 800 KB.
  save("wide.npy", filled(DType::f32, {1, 1, 200'000, 1}, 1));
  before_ = files();
  expect_refused({"attend", "--query", "wide.npy", "--key", "wide.npy", "--value", "wide.npy",
                  "--weights", "w.npy", "--memory-limit", "8GiB"},
                 5, "limit 8.0 GiB");
}

TEST_F(RefusalsTest, AnUnknownInstructionSetIsAnError) {
  const Ran ran = rapt(attend(), {.env = {{"RAPT_ISA", "sse9"}}});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "sse9")) << ran.err;
}

TEST_F(RefusalsTest, LargeMemoryIsToldBeforeItIsTaken) {
  save("q.npy", filled(DType::f32, {9000, 1}, 1));
  const Ran ran = rapt({"attend", "--query", "q.npy", "--key", "q.npy", "--value", "q.npy",
                        "--weights", "/dev/null", "--memory-limit", "1G"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "needs 3")) << ran.err;  // 9000 x 9000 x 4 bytes = 309 MiB
}

}  // namespace
}  // namespace rapt::cli_test
