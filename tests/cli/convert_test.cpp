// rapt convert: conversions between all formats, and the errors.
#include <cmath>
#include <cstring>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

class ConvertTest : public RaptTest {
 protected:
  void converts(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "convert");
    const Ran ran = rapt(arguments);
    ASSERT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
  void expect_refused(std::vector<std::string> arguments, int exit,
                      const std::vector<std::string>& says) const {
    SCOPED_TRACE(says.front());
    const std::vector<std::string> before = files();
    arguments.insert(arguments.begin(), "convert");
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, exit) << ran.err;
    for (const std::string& part : says) EXPECT_TRUE(contains(ran.err, part)) << ran.err;
    const auto lines = std::count(ran.err.begin(), ran.err.end(), '\n');
    EXPECT_TRUE(lines == 1 || (lines == 2 && contains(ran.err, "\nhint: "))) << ran.err;
    EXPECT_EQ(files(), before);
  }
  template <class T>
  T value(const std::string& file, size_t i) const {
    const Tensor tensor = load(file);
    return tensor.values<T>()[i];
  }
  template <class T>
  void save_values(const std::string& name, const std::vector<T>& values) const {
    Tensor tensor(dtype_of<T>(), {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.values<T>().begin());
    save(name, tensor);
  }
};

TEST_F(ConvertTest, EveryFormatKeepsEveryBit) {
  const Tensor x = filled(DType::f32, {2, 3, 5}, 1);
  save("x.npy", x);
  converts({"x.npy", "x.npz"});
  converts({"x.npz", "x.safetensors:y"});
  converts({"x.safetensors:y", "x.json"});
  converts({"x.json", "x.raw", "--dtype", "f32"});
  converts({"x.raw", "packed.npz:z", "--dtype", "f32", "--shape", "2,3,5", "--compress"});
  converts({"packed.npz", "back.npy"});
  expect_same(load("back.npy"), x);
  EXPECT_EQ(read("back.npy"), read("x.npy"));
  expect_same(load("x.npz", "x"), x);  // a tensor without a name gets the name of its file
}

TEST_F(ConvertTest, CsvHoldsMatrices) {
  const Tensor x = filled(DType::f32, {3, 4}, 1);
  save("x.npy", x);
  save("cube.npy", filled(DType::f32, {1, 3, 4}, 1));
  converts({"x.npy", "x.csv"});
  converts({"x.csv", "back.npy", "--dtype", "f32"});
  expect_same(load("back.npy"), x);
  converts({"x.csv", "flat.npy", "--shape", "12"});
  EXPECT_EQ(to_string(load("flat.npy").dims()), "[12]");
  expect_refused({"x.csv", "o.npy", "--shape", "13"}, 3, {"x.csv has 12 elements"});
  expect_refused({"cube.npy", "cube.csv"}, 3, {".csv holds a matrix, got [1, 3, 4]"});
}

TEST_F(ConvertTest, ValuesThatDoNotFitAreNamed) {
  save_values<float>("half.npy", {1, 2.5f});
  save_values<float>("nan.npy", {NAN});
  save_values<float>("large.npy", {1e10f, 70000});
  save_values<int64_t>("odd.npy", {0, (int64_t{1} << 24) + 1});
  save_values<int64_t>("byte.npy", {255, 256});
  expect_refused({"half.npy", "o.npy", "--dtype", "i64"}, 3,
                 {"half.npy: element [1] is 2.5, which i64 cannot hold", "--lossy"});
  expect_refused({"nan.npy", "o.npy", "--dtype", "i32"}, 3, {"element [0] is nan"});
  expect_refused({"large.npy", "o.npy", "--dtype", "i32"}, 3, {"element [0]"});
  expect_refused({"large.npy", "o.npy", "--dtype", "f16"}, 3, {"which f16 cannot hold"});
  expect_refused({"odd.npy", "o.npy", "--dtype", "f32"}, 3, {"element [1] is 16777217"});
  expect_refused({"byte.npy", "o.npy", "--dtype", "u8"}, 3, {"element [1] is 256"});
  expect_refused({"byte.npy", "o.npy", "--dtype", "bool"}, 3, {"element [0] is 255"});
  converts({"half.npy", "i.npy", "--dtype", "i64", "--lossy"});
  EXPECT_EQ(value<int64_t>("i.npy", 1), 2);
  converts({"large.npy", "i32.npy", "--dtype", "i32", "--lossy"});
  EXPECT_EQ(value<int32_t>("i32.npy", 0), std::numeric_limits<int32_t>::max());
  converts({"nan.npy", "zero.npy", "--dtype", "i64", "--lossy"});
  EXPECT_EQ(value<int64_t>("zero.npy", 0), 0);
}

TEST_F(ConvertTest, RoundingAFloatIsWhatDtypeAsksFor) {
  const Tensor x = filled(DType::f64, {7}, 1);
  save("x.npy", x);
  converts({"x.npy", "x.safetensors", "--dtype", "bf16"});
  const Tensor y = load("x.safetensors", "x");
  for (size_t i = 0; i < 7; ++i)
    EXPECT_EQ(y.values<BFloat16>()[i].bits, BFloat16::from(x.values<double>()[i]).bits);
}

// If rounded to float first, these values would become ties and round to the even neighbour.
TEST_F(ConvertTest, SixteenBitsAreRoundedOnce) {
  save_values<double>("x.npy", {1 + 0x1p-11 + 0x1p-40, 0x1p-25 + 0x1p-60, 65519.999999999, INFINITY,
                                1 + 0x1p-8 + 0x1p-40});
  converts({"x.npy", "h.npy", "--dtype", "f16"});
  converts({"x.npy", "b.safetensors", "--dtype", "bf16"});
  const Tensor h = load("h.npy"), b = load("b.safetensors", "x");
  EXPECT_EQ(h.values<Float16>()[0], 1 + 0x1p-10f);
  EXPECT_EQ(h.values<Float16>()[1], 0x1p-24f);
  EXPECT_EQ(h.values<Float16>()[2], 65504);
  EXPECT_EQ(h.values<Float16>()[3], INFINITY);
  EXPECT_EQ(b.values<BFloat16>()[4], 1 + 0x1p-7f);
  save_values<double>("large.npy", {0x1.ffp127 - 0x1p80, 65519.999999999, 65520});
  expect_refused({"large.npy", "o.npy", "--dtype", "f16"}, 3, {"element [0]"});
  converts({"large.npy", "large.safetensors", "--dtype", "bf16"});
  const Tensor large = load("large.safetensors", "large");
  EXPECT_EQ(large.values<BFloat16>()[0], 0x1.fep127f);

  constexpr int64_t kTie = (int64_t{1} << 62) + (int64_t{1} << 54);
  save_values<int64_t>("i.npy", {kTie - 1, kTie, kTie + 1, -kTie - 1, -kTie + 1});
  converts({"i.npy", "i.safetensors", "--dtype", "bf16", "--lossy"});
  const Tensor i = load("i.safetensors", "i");
  EXPECT_EQ(i.values<BFloat16>()[0], 0x1p62f);
  EXPECT_EQ(i.values<BFloat16>()[1], 0x1p62f);
  EXPECT_EQ(i.values<BFloat16>()[2], 0x1.02p62f);
  EXPECT_EQ(i.values<BFloat16>()[3], -0x1.02p62f);
  EXPECT_EQ(i.values<BFloat16>()[4], -0x1p62f);
}

TEST_F(ConvertTest, SeveralFilesBecomeOne) {
  save("q.npy", filled(DType::f32, {2}, 1));
  save("k.npy", filled(DType::f64, {3}, 2));
  converts({"q.npy", "k.npy", "all.safetensors"});
  expect_same(load("all.safetensors", "q"), load("q.npy"));
  expect_same(load("all.safetensors", "k"), load("k.npy"));
  converts({"all.safetensors:q", "all.safetensors:k", "two.npz"});
  expect_same(load("two.npz", "k"), load("k.npy"));
  converts({"all.safetensors", "all.npz"});
  expect_same(load("all.npz", "q"), load("q.npy"));
  std::filesystem::create_directory(path("d"));
  write("d/q.npy", read("q.npy"));
  expect_refused({"q.npy", "d/q.npy", "o.npz"}, 2, {"'o.npz:q' is named as two outputs"});
  expect_refused({"all.npz", "o.npy"}, 2, {"o.npy takes one tensor, got 2", "choose one: IN:NAME"});
  expect_refused({"all.npz", "o.npz:x"}, 2, {"o.npz:x takes one tensor, got 2"});
}

TEST_F(ConvertTest, MetadataStayWithSafetensors) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write("x.safetensors", length + header + std::string(4, '\0'));
  converts({"x.safetensors", "y.safetensors"});
  EXPECT_TRUE(contains(read("y.safetensors"), R"("format":"pt")"));
  const Ran ran = rapt({"convert", "x.safetensors", "y.npz"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "metadata of the file are left out")) << ran.err;
}

TEST_F(ConvertTest, StandardInputAndOutputAreNpy) {
  save("x.npy", filled(DType::f32, {4, 4}, 1));
  const Ran ran = rapt({"convert", "-", "-", "--dtype", "f64"}, {.input = read("x.npy")});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  write("y.npy", ran.out);
  EXPECT_EQ(load("y.npy").dtype(), DType::f64);
}

TEST_F(ConvertTest, AFileMayBeConvertedOntoItself) {
  save("x.npy", filled(DType::f32, {4096}, 1));
  expect_refused({"x.npy", "x.npy"}, 4, {"exists", "--force"});
  converts({"x.npy", "x.npy", "--dtype", "f64", "--force"});
  EXPECT_EQ(load("x.npy").dtype(), DType::f64);
}

TEST_F(ConvertTest, CommandLinesThatCannotBeMeant) {
  save("x.npy", filled(DType::f32, {4}, 1));
  write("x.raw", std::string(16, '\0'));
  write("x.csv", "name,size\n1,2\n");
  write("y.csv", "1,2\n3\n");
  write("x.json", "[[1, 2], [3]]");
  expect_refused({"x.npy"}, 2, {"expected IN and OUT"});
  expect_refused({"x.npy", "x.txt"}, 2, {"'.npy', '.npz', '.safetensors', '.csv'"});
  expect_refused({"x.npy", "o.npy", "--dtype", "f23"}, 2, {"got 'f23'", "did you mean 'f32'?"});
  expect_refused({"x.npy", "o.npy", "--compress"}, 2, {"--compress belongs to .npz"});
  expect_refused({"x.npy", "o.npz", "--shape", "4"}, 2, {"--shape belongs to raw files"});
  expect_refused({"x.raw", "o.npy"}, 2, {"expected --dtype and --shape"});
  expect_refused({"x.raw", "o.npy", "--dtype", "f32", "--shape", "-1"}, 2, {"0 or more"});
  expect_refused({"x.raw", "o.npy", "--dtype", "f32", "--shape", "5"}, 3,
                 {"x.raw: expected 20 bytes for f32 [5], got 16"});
  expect_refused({"x.raw", "o.npy", "--dtype", "f64", "--shape", "4611686018427387904,4"}, 3,
                 {"4611686018427387904"});
  expect_refused({"x.csv", "o.npy"}, 3, {"line 1", "got 'name'", "titles"});
  expect_refused({"y.csv", "o.npy"}, 3, {"line 2: expected 2 numbers"});
  expect_refused({"x.json", "o.npy"}, 3, {"x.json: expected 2 elements"});
  expect_refused({"none.npy", "o.npy"}, 4, {"no such file: 'none.npy'"});
  expect_refused({"x.npy", "nowhere/o.npy"}, 4, {"nowhere"});
}

TEST_F(ConvertTest, MemoryIsAskedForBeforeItIsTaken) {
  save("x.npy", filled(DType::f32, {1 << 20}, 1));
  expect_refused({"x.npy", "o.npy", "--dtype", "f64", "--memory-limit", "4M"}, 5,
                 {"needs 8.0 MiB, limit 4.0 MiB: x.npy as f64"});
  converts({"x.npy", "o.npz", "--memory-limit", "1K"});  // read from the map, without a copy
}

}  // namespace
}  // namespace rapt::cli_test
