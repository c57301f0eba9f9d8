// rapt info: its report on files.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class InfoTest : public RaptTest {
 protected:
  Json info(std::vector<std::string> files) const {
    files.insert(files.begin(), {"info", "--json"});
    const Ran ran = rapt(files);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return ran.exit == 0 ? Json::parse(ran.out) : Json();
  }
  Json stats(const std::string& file) const {
    return info({file})["files"][0]["tensors"][0]["statistics"];
  }
  template <class T>
  void save_values(const std::string& name, const std::vector<T>& values) const {
    Tensor tensor(dtype_of<T>(), {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.values<T>().begin());
    save(name, tensor);
  }
};

TEST_F(InfoTest, TellsFormatTypeShapeAndStatistics) {
  save_values<float>("x.npy", {1, 2, 3, 4, 0, -0.0f, NAN, INFINITY, -INFINITY});
  const Json document = info({"x.npy"});
  EXPECT_EQ(document["schema"], "rapt.info/1");
  const Json& file = document["files"][0];
  EXPECT_EQ(file["path"], "x.npy");
  EXPECT_EQ(file["format"], "npy");
  const Json& tensor = file["tensors"][0];
  EXPECT_EQ(tensor["name"], nullptr);
  EXPECT_EQ(tensor["dtype"], "f32");
  EXPECT_EQ(tensor["type"], "<f4");
  EXPECT_EQ(tensor["shape"], Json({9}));
  EXPECT_EQ(tensor["bytes"], 36);
  const Json& s = tensor["statistics"];
  EXPECT_EQ(s["count"], 9);
  EXPECT_EQ(s["finite"], 6);
  EXPECT_EQ(s["nan"], 1);
  EXPECT_EQ(s["infinite"], 2);
  EXPECT_EQ(s["zeros"], 2);
  EXPECT_EQ(s["min"], 0);
  EXPECT_EQ(s["max"], 4);
  EXPECT_NEAR(s["mean"], 10.0 / 6, 1e-12);
  EXPECT_NEAR(s["std"], std::sqrt(30.0 / 6 - 100.0 / 36), 1e-12);

  const Ran text = rapt({"x.npy"});  // same as `rapt info x.npy`
  EXPECT_EQ(text.exit, 0) << text.err;
  for (const char* part :
       {"x.npy: npy, 1 tensor, 36 bytes", "NaN/Inf", "f32", "[9]", "1.667", "1/2"})
    EXPECT_TRUE(contains(text.out, part)) << part << " in " << text.out;
  EXPECT_EQ(text.err, "");
}

TEST_F(InfoTest, ManyElementsAndLargeMeansLoseNothing) {
  std::vector<double> values;
  for (int i = 0; i < 300'001; ++i)
    values.push_back(1e9 + i % 2);  // several chunks, the last of odd length
  save_values("x.npy", values);
  const Json s = stats("x.npy");
  EXPECT_EQ(s["count"], 300'001);
  EXPECT_NEAR(s["mean"].get<double>() - 1e9, 0.5, 1e-5);
  EXPECT_NEAR(s["std"], 0.5, 1e-6);
}

TEST_F(InfoTest, LargeDoublesDoNotOverflow) {
  const double most = std::numeric_limits<double>::max();
  save_values<double>("x.npy", {most, most, -most, -most, most, most});
  const Json s = stats("x.npy");
  EXPECT_EQ(s["max"], most);
  EXPECT_NEAR(s["mean"].get<double>() / most, 1.0 / 3, 1e-12);
  EXPECT_NEAR(s["std"].get<double>() / most, std::sqrt(8.0) / 3, 1e-12);
}

TEST_F(InfoTest, WholeNumbersKeepAllDigits) {
  const int64_t odd = (int64_t{1} << 53) + 1;
  save_values<int64_t>("x.npy", {odd, -odd, 3});
  const Json s = stats("x.npy");
  EXPECT_EQ(s["max"], odd);
  EXPECT_EQ(s["min"], -odd);
  EXPECT_NEAR(s["mean"], 1, 1e-9);
}

TEST_F(InfoTest, NothingToCount) {
  save_values<float>("empty.npy", {});
  save_values<float>("nan.npy", {NAN});
  EXPECT_EQ(stats("empty.npy")["count"], 0);
  EXPECT_EQ(stats("empty.npy")["min"], nullptr);
  EXPECT_EQ(stats("nan.npy")["mean"], nullptr);
  EXPECT_EQ(rapt({"info", "empty.npy", "nan.npy"}).exit, 0);
}

TEST_F(InfoTest, BigEndianAndFortranOrderCountTheSame) {
  std::string header = "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 2), }";
  header.resize(117, ' ');
  std::string file("\x93NUMPY\x01\0\x76\0", 10);
  file += header + "\n";
  file += std::string("\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0\x40\x80\0\0", 16);  // 1, 2, 3, 4
  write("x.npy", file);
  const Json tensor = info({"x.npy"})["files"][0]["tensors"][0];
  EXPECT_EQ(tensor["byte_order"], "big");
  EXPECT_EQ(tensor["fortran_order"], true);
  EXPECT_EQ(tensor["statistics"]["mean"], 2.5);
  const Ran text = rapt({"info", "x.npy"});
  EXPECT_TRUE(contains(text.out, "big-endian, Fortran order")) << text.out;
}

TEST_F(InfoTest, ListsTheTensorsOfAFileOrOne) {
  const Tensor a = filled(DType::f32, {2, 3}, 1), b = filled(DType::f64, {5}, 2);
  for (const std::string file : {"x.npz", "x.safetensors"}) {
    save_all(file, {{"alpha", a.view()}, {"beta", b.view()}});
    EXPECT_EQ(info({file})["files"][0]["tensors"].size(), 2u);
    const Json one = info({file + ":beta"})["files"][0]["tensors"];
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0]["name"], "beta");
    EXPECT_EQ(one[0]["dtype"], "f64");
    const Ran text = rapt({file});
    EXPECT_TRUE(contains(text.out, "2 tensors, 64 bytes")) << text.out;
    EXPECT_TRUE(contains(text.out, "alpha  f32")) << text.out;
  }
}

TEST_F(InfoTest, WithoutStatisticsNothingIsRead) {
  save_values<float>("x.npy", {1, 2});
  const Ran text = rapt({"info", "--no-stats", "x.npy"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_FALSE(contains(text.out, "mean")) << text.out;
  const Ran json = rapt({"info", "--no-stats", "--json", "x.npy"});
  EXPECT_EQ(Json::parse(json.out)["files"][0]["tensors"][0]["statistics"], nullptr);
}

TEST_F(InfoTest, TypesThatRaptDoesNotReadAreListed) {
  const std::string header =
      R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"__metadata__":{"format":"pt"}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  write("x.safetensors", file + header + std::string(8, '\0'));
  const Json document = info({"x.safetensors"})["files"][0];
  EXPECT_EQ(document["metadata"]["format"], "pt");
  for (const Json& tensor : document["tensors"]) {
    EXPECT_EQ(tensor["dtype"].is_null(), tensor["name"] == "a");
    EXPECT_EQ(tensor["statistics"].is_null(), tensor["name"] == "a");
  }
  const Ran text = rapt({"x.safetensors"});
  EXPECT_TRUE(contains(text.out, "F8_E4M3")) << text.out;
  EXPECT_TRUE(contains(text.out, "format = pt")) << text.out;
}

TEST_F(InfoTest, TypesOfNumPyThatRaptDoesNotReadAreListedToo) {
  std::string header = "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  write("x.npy", std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" + std::string(16, '\0'));
  const Json tensor = info({"x.npy"})["files"][0]["tensors"][0];
  EXPECT_EQ(tensor["dtype"], nullptr);
  EXPECT_EQ(tensor["type"], "<c8");
  EXPECT_EQ(tensor["bytes"], 16);
  const Ran converted = rapt({"convert", "x.npy", "y.npz"});
  EXPECT_EQ(converted.exit, 3) << converted.err;
  EXPECT_TRUE(contains(converted.err, "element type '<c8' is not supported")) << converted.err;
  EXPECT_EQ(files(), std::vector<std::string>{"x.npy"});
}

TEST_F(InfoTest, ControlCharactersInNamesStayText) {
  const Tensor a = filled(DType::f32, {1}, 1);
  save_all("x.npz", {{"a\n\x1b[31m", a.view()}});
  const Ran text = rapt({"x.npz"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_TRUE(contains(text.out, "a\\x0a\\x1b[31m")) << text.out;
}

TEST_F(InfoTest, ReadsStandardInput) {
  save_values<float>("x.npy", {1, 2});
  const Ran ran = rapt({"-"}, {.input = read("x.npy")});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "standard input: npy, 1 tensor")) << ran.out;
}

TEST_F(InfoTest, ErrorsAreOneLineWithTheExitCodesOfTheContract) {
  write("cut.npz", "PK\x03\x04");
  write("text.npy", "no tensors");
  const auto says = [&](const std::vector<std::string>& arguments, int exit, const char* what) {
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, exit) << ran.err;
    EXPECT_TRUE(contains(ran.err, what)) << ran.err;
    EXPECT_EQ(ran.out, "");
  };
  says({"info"}, 2, "expected files");
  says({"info", "none.npy"}, 4, "rapt info: no such file: 'none.npy'");
  says({"none.npy"}, 4, "rapt info: no such file: 'none.npy'");
  says({"info", "cut.npz"}, 3, "cut.npz");
  says({"text.npy"}, 3, "text.npy");
  says({"info", "."}, 4, "folder");
}

}  // namespace
}  // namespace rapt::cli_test
