// CSV, JSON arrays and raw elements: reading, writing, and errors.
#include "rapt/io/number_text.h"

#include <cmath>
#include <limits>

#include "rapt/io/raw.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

std::shared_ptr<const InputFile> held(const std::string& name, const std::string& text) {
  const auto bytes = as_bytes(text);
  return std::make_shared<InputFile>(name, std::vector<std::byte>(bytes.begin(), bytes.end()));
}

Tensor csv(const std::string& text) {
  return Tensor::copy_of(load(open_csv(held("x.csv", text)).tensors[0]).view());
}
Tensor json(const std::string& text) {
  return Tensor::copy_of(load(open_json_array(held("x.json", text)).tensors[0]).view());
}

double first(const Tensor& reals) { return reals.values<double>()[0]; }

using Write = void (*)(const WriteBytes&, const TensorView&);

std::string written(Write write, const TensorView& view) {
  std::string text;
  write(
      [&](const void* data, int64_t bytes) {
        text.append(static_cast<const char*>(data), static_cast<size_t>(bytes));
      },
      view);
  return text;
}

TEST(NumberText, IsToldByEndingOrByItsFirstCharacter) {
  EXPECT_EQ(text_kind_of(*held("x.csv", "1")), TextKind::csv);
  EXPECT_EQ(text_kind_of(*held("x.txt", " \n[1]")), TextKind::json);
  EXPECT_EQ(text_kind_of(*held("x.json", "{}")), TextKind::none);
  EXPECT_EQ(text_kind_of(*held("x", "")), TextKind::none);
}

TEST(NumberText, WholeNumbersAreIntegersAndOthersFloats) {
  const Tensor whole = csv("1,2\n-3,9007199254740993\n");
  EXPECT_EQ(whole.dtype(), DType::i64);
  EXPECT_EQ(to_string(whole.dims()), "[2, 2]");
  EXPECT_EQ(whole.values<int64_t>()[3], 9007199254740993);
  const Tensor mixed = csv(" 1 ,\t+2\r\n.5,1e3");
  EXPECT_EQ(mixed.dtype(), DType::f64);
  EXPECT_EQ(mixed.values<double>()[0], 1);
  EXPECT_EQ(mixed.values<double>()[2], 0.5);
  EXPECT_TRUE(std::signbit(first(csv("-0"))));
  EXPECT_EQ(first(csv("9223372036854775808")), 0x1p63);
  EXPECT_TRUE(std::isnan(first(csv("nan,inf"))));
  EXPECT_EQ(json("[true, false]").dtype(), DType::boolean);
  EXPECT_EQ(json("[[1, 2.5]]").dtype(), DType::f64);
  EXPECT_EQ(first(json("[18446744073709551615]")), 0x1p64);
  EXPECT_TRUE(std::isinf(first(json("[\"-inf\"]"))));
}

TEST(NumberText, ShapesOfJsonArrays) {
  EXPECT_EQ(to_string(json("[]").dims()), "[0]");
  EXPECT_EQ(to_string(json("[[],[]]").dims()), "[2, 0]");
  EXPECT_EQ(to_string(json("[[[1],[2]],[[3],[4]],[[5],[6]]]").dims()), "[3, 2, 1]");
}

TEST(NumberText, WhatIsWrittenIsReadAgainExactly) {
  const float values[] = {0.1f, -0.0f, 1, 3.4028235e38f, 1e-45f, -2.5f};
  const TensorView view(values, {2, 3});
  EXPECT_EQ(written(write_csv, view), "0.1,-0.0,1.0\n3.4028235e+38,1e-45,-2.5\n");
  EXPECT_EQ(written(write_json_array, view),
            "[[0.1, -0.0, 1.0],\n [3.4028235e+38, 1e-45, -2.5]]\n");
  for (const Tensor& back : {csv(written(write_csv, view)), json(written(write_json_array, view))})
    for (size_t i = 0; i < 6; ++i) {
      const auto value = static_cast<float>(back.values<double>()[i]);
      EXPECT_EQ(std::memcmp(&value, values + i, sizeof value), 0) << values[i];
    }
  const double special[] = {NAN, INFINITY, -INFINITY};
  EXPECT_EQ(written(write_csv, TensorView(special, {3})), "nan\ninf\n-inf\n");
  EXPECT_EQ(written(write_json_array, TensorView(special, {3})), "[\"nan\", \"inf\", \"-inf\"]\n");
  const bool flags[] = {true, false};
  EXPECT_EQ(written(write_csv, TensorView(flags, {1, 2})), "1,0\n");
  EXPECT_EQ(written(write_json_array, TensorView(flags, {2})), "[true, false]\n");
  EXPECT_EQ(written(write_json_array, TensorView(values, {})), "0.1\n");
  EXPECT_EQ(written(write_csv, view.transposed()), "0.1,3.4028235e+38\n-0.0,1e-45\n1.0,-2.5\n");
}

// A view of a few bytes with 2^58 empty rows would fill a disk.
TEST(NumberText, LinesWithoutNumbersHaveABound) {
  const float value = 0;
  EXPECT_EQ(written(write_json_array, TensorView(&value, {2, 0})), "[[],\n []]\n");
  EXPECT_EQ(written(write_json_array, TensorView(&value, {0, int64_t{1} << 58})), "[]\n");
  for (const Write write : {Write(write_csv), Write(write_json_array)}) {
    expect_error(
        ErrorCode::shape,
        [&] {
          written(write, TensorView(&value, {int64_t{1} << 58, 0}));
        },
        "[288230376151711744, 0] would be lines without a number; expected at most 268435456");
  }
  expect_error(
      ErrorCode::shape,
      [&] {
        written(write_json_array, TensorView(&value, {1 << 20, 1 << 20, 0}));
      },
      "lines");
}

TEST(NumberText, RefusesWhatIsNoMatrixOfNumbers) {
  const auto refused = [](const std::string& text, const std::string& says) {
    expect_error(
        ErrorCode::format, [&] { csv(text); }, "x.csv: line ", says);
  };
  refused("a,b\n1,2", "line 1: expected numbers with commas between them, got 'a'");
  refused("1,2\n3", "line 2: expected 2 numbers as in the lines before, got 1");
  refused("1,\n", "got ''");
  refused("1\n\n2\n", "line 2");
  refused("1;2", "got '1;2'");
  refused("1 2", "got '1 2'");
  refused("1e999", "got '1e999'");
  refused("+-1", "got '+-1'");
  refused("0x10", "got '0x10'");
  refused("\"1\"", "got");
}

TEST(NumberText, RefusesJsonThatIsNoArrayOfNumbers) {
  const auto refused = [](const std::string& text, const std::string& says) {
    expect_error(
        ErrorCode::format, [&] { json(text); }, "x.json: ", says);
  };
  refused("[[1,2],[3]]", "expected 2 elements as in the arrays before, got 1");
  refused("[1,[2]]", "got an array");
  refused("[[1],2]", "a number beside an array");
  refused("[[1],[]]", "expected 1 elements");
  refused("[[[]],[1]]", "a number beside an array");
  refused("[[],1]", "a number beside an array");
  refused("[null]", "got null");
  refused("[{}]", "got an object");
  refused("[\"one\"]", "got the text 'one'");
  refused("[1,true]", "got both");
  refused("[1e999]", "beyond the range");
  refused("[1,]", "not JSON from byte 4");
  refused("[1] x", "not JSON");
  refused("[1", "not JSON");
  refused(std::string("[1,2]\0, 3]", 10), "not JSON from byte 6 on: a zero byte");
  refused(std::string("[1,2]\n\0", 7), "not JSON from byte 7 on: a zero byte");
  refused(std::string("\0[1]", 4), "not JSON from byte 1 on: a zero byte");
  std::string deep(33, '[');
  expect_error(
      ErrorCode::shape, [&] { json(deep); }, "at most 32 dimensions");
  deep.assign(1'000'000, '[');
  expect_error(
      ErrorCode::shape, [&] { json(deep); }, "at most 32 dimensions");
}

TEST(NumberText, EveryCutOfAFileIsReadOrRefusedInOneLine) {
  const std::string text = "[[1.5, -2e3], [\"nan\", 4]]";
  for (size_t length = 0; length < text.size(); ++length)
    expect_error(
        ErrorCode::format, [&] { json(text.substr(0, length)); }, "x.json");
}

TEST(NumberText, CsvHoldsNoMoreThanAMatrix) {
  const Tensor cube(DType::f32, {1, 1, 1});
  expect_error(
      ErrorCode::shape, [&] { written(write_csv, cube.view()); }, "[1, 1, 1]");
}

TEST(RawFile, HasTheBytesThatItsShapeNeeds) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const std::string bytes = written(write_raw, TensorView(values, {2, 3}).transposed());
  const TensorFile file = open_raw(held("x.raw", bytes), DType::f32, std::vector<int64_t>{3, 2});
  const LoadedTensor loaded = load(file.tensors[0]);
  EXPECT_EQ(static_cast<const float*>(loaded.view().data)[1], 4);
  const auto refused = [&](ErrorCode code, std::vector<int64_t> shape) {
    expect_error(
        code, [&] { open_raw(held("x.raw", bytes), DType::f32, shape); }, "x.raw");
  };
  refused(ErrorCode::format, {7});
  refused(ErrorCode::format, {});
  refused(ErrorCode::shape, {-1});
  refused(ErrorCode::overflow, {int64_t{1} << 62, 4});
  refused(ErrorCode::shape, std::vector<int64_t>(33, 1));
}

}  // namespace
}  // namespace rapt::test
