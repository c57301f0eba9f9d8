// Valid .safetensors files: writing, reading, and where the elements lie.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "io/elements.h"
#include "rapt/float16.h"
#include "safetensors_bytes.h"

namespace rapt::test {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                          DType::i64, DType::i32, DType::u8,   DType::boolean};

// Up to 256 bytes all differ, so that a wrong order is noticed.
Tensor ramp(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape);
  auto* bytes = static_cast<unsigned char*>(tensor.data());
  for (int64_t i = 0; i < tensor.count() * size_of(dtype); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 3 == 0 : i * 7 + 1);
  return tensor;
}

std::string bytes_of(const TensorView& view) {
  const Tensor dense = Tensor::copy_of(view);
  return {static_cast<const char*>(dense.data()),
          static_cast<size_t>(dense.count() * size_of(view.dtype))};
}

TEST(Safetensors, BytesOfASmallFile) {
  const float values[] = {1, 2, 3, 4};
  const std::string bytes = written({{"w", TensorView(values, {2, 2})}});
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string padded = header + std::string(120 - header.size(), ' ');
  std::string elements(16, '\0');
  std::memcpy(elements.data(), values, 16);
  EXPECT_EQ(bytes, safetensors_file(padded, elements));
  EXPECT_EQ((bytes.size() - 16) % 64, 0u);
}

// The example from the documentation of the reference implementation.
TEST(Safetensors, AFileOfTheReference) {
  const std::string bytes = safetensors_file(
      R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})", std::string(16, '\0'));
  ASSERT_EQ(bytes[0], '<');
  const TensorFile file = open_bytes(bytes);
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_STREQ(file.format, "safetensors");
  const StoredTensor& tensor = file.tensors[0];
  EXPECT_EQ(tensor.name, "test");
  EXPECT_EQ(tensor.type, "I32");
  EXPECT_EQ(tensor.dtype, DType::i32);
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensor.bytes, 16);
  EXPECT_EQ(tensor.offset, 68);
  EXPECT_EQ(load(tensor).view().dims()[0], 2);
}

TEST(Safetensors, LargerAlignmentsFirstThenNames) {
  std::vector<Tensor> own;
  std::vector<NamedTensor> tensors;
  for (const char* name : {"b", "a", "ab", "\xc3\xa9"})
    for (const DType dtype : kAll)
      tensors.push_back(
          {std::string(name) + "." + name_of(dtype), own.emplace_back(dtype, Shape{}).view()});
  for (Tensor& tensor : own) std::memset(tensor.data(), 0, size_t(size_of(tensor.dtype())));
  std::vector<std::string> names;
  for (const StoredTensor& tensor : open_bytes(written(tensors)).tensors)
    names.push_back(tensor.name);
  std::vector<std::string> expected;
  for (const char* dtype : {"i64", "f64", "f32", "i32", "bf16", "f16", "u8", "bool"})
    for (const char* name : {"a", "ab", "b", "\xc3\xa9"})
      expected.push_back(std::string(name) + "." + dtype);
  EXPECT_EQ(names, expected);
}

TEST(Safetensors, EveryTypeAndShapeComesBack) {
  const std::vector<std::vector<int64_t>> shapes = {{},
                                                    {1},
                                                    {7},
                                                    {3, 5},
                                                    {2, 3, 4},
                                                    {2, 1, 3, 2},
                                                    {1, 2, 1, 3, 2},
                                                    {0},
                                                    {0, 4},
                                                    {4, 0},
                                                    {2, 0, 3},
                                                    std::vector<int64_t>(kMaxRank, 1)};
  const ScratchFolder folder;
  std::vector<Tensor> own;
  std::vector<NamedTensor> tensors;
  for (const DType dtype : kAll)
    for (const auto& shape : shapes)
      tensors.push_back({std::string(name_of(dtype)) + " " + to_string(shape),
                         own.emplace_back(ramp(dtype, shape)).view()});
  make_file(folder / "all.safetensors", written(tensors));
  const TensorFile file = open_tensor_file(folder / "all.safetensors");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const NamedTensor& tensor : tensors) {
    SCOPED_TRACE(tensor.name);
    const StoredTensor* stored = file.find(tensor.name);
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(memory_of(*stored), 0);
    const LoadedTensor loaded = load(*stored);
    EXPECT_TRUE(loaded.mapped());
    EXPECT_TRUE(loaded.view().read_only);
    EXPECT_EQ(loaded.view().dtype, tensor.view.dtype);
    EXPECT_EQ(to_string(loaded.view().dims()), to_string(tensor.view.dims()));
    EXPECT_EQ(bytes_of(loaded.view()), bytes_of(tensor.view));
  }
}

TEST(Safetensors, NanInfinityAndNegativeZeroKeepTheirBits) {
  const float values[] = {
      std::bit_cast<float>(0x7fc12345u),       -std::nanf(""), INFINITY, -INFINITY, -0.0f,
      std::numeric_limits<float>::denorm_min()};
  const TensorFile file = open_bytes(written({{"x", TensorView(values, {6})}}));
  EXPECT_EQ(std::memcmp(load(file.tensors[0]).view().data, values, sizeof values), 0);
}

TEST(Safetensors, ViewsWithStridesAreWrittenRowByRow) {
  Tensor own = ramp(DType::i32, Shape(std::vector<int64_t>{3, 4}));
  const TensorView turned = own.view().transposed();
  const TensorFile file = open_bytes(written({{"x", turned}}));
  EXPECT_EQ(to_string(file.tensors[0].shape), "[4, 3]");
  EXPECT_EQ(bytes_of(load(file.tensors[0]).view()), bytes_of(turned));
}

TEST(Safetensors, NamesAndMetadataOfAnyText) {
  const float one = 1;
  const std::string names[] = {"",
                               "a b",
                               "quote\"backslash\\slash/",
                               "\n\t\x01\x7f",
                               "\xc3\xa9\xf0\x9f\x98\x80",
                               std::string("a\0b", 3),
                               "../up"};
  std::vector<NamedTensor> tensors;
  Texts metadata;
  for (const std::string& name : names) {
    tensors.push_back({name, TensorView(&one, {1})});
    metadata.emplace_back(name, "text of " + name);
  }
  const TensorFile file = open_bytes(written(tensors, metadata));
  EXPECT_EQ(file.metadata, metadata);
  for (const std::string& name : names) EXPECT_NE(file.find(name), nullptr) << name;
  EXPECT_EQ(header_of(written({{"\"\\/\b\f\n\r\t\x1f\x7f\xc3\xa9", TensorView(&one, {1})}})),
            "{\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\xc3\xa9\":"
            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
}

TEST(Safetensors, NoTensorsAtAll) {
  const std::string bytes = written({});
  EXPECT_EQ(bytes.size(), 64u);
  EXPECT_TRUE(open_bytes(bytes).tensors.empty());
  EXPECT_TRUE(open_bytes(safetensors_file("{}")).tensors.empty());
  EXPECT_EQ(open_bytes(written({}, {{"format", "pt"}})).metadata, (Texts{{"format", "pt"}}));
}

TEST(Safetensors, HeadersOfOtherWritersInAnyOrderAndWithBlanks) {
  const TensorFile file = open_bytes(safetensors_file(
      "{ \"z\" : {\"data_offsets\":[4 , 8], \"shape\":[1],\n\"dtype\":\"F32\"},\t" +
          entry("a", "U8", "[4]", "[0,4]") + ",\"__metadata__\":{}} \r\n ",
      std::string(8, '\1')));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a");  // in the order of the file
  EXPECT_EQ(file.tensors[1].name, "z");
}

TEST(Safetensors, ElementsAtOddAddressesAreCopied) {
  const std::string pad(3, ' ');
  for (const std::string& blanks : {std::string(), std::string(1, ' '), std::string(3, ' ')}) {
    const std::string json = "{" + entry("x", "F64", "[2]", "[0,16]") + "}" + blanks;
    const double values[] = {0.5, -3};
    std::string elements(16, '\0');
    std::memcpy(elements.data(), values, 16);
    const TensorFile file = open_bytes(safetensors_file(json, elements));
    const StoredTensor& x = file.tensors[0];
    EXPECT_EQ(memory_of(x), x.offset % 8 == 0 ? 0 : 16);
    const LoadedTensor loaded = load(x);
    EXPECT_EQ(loaded.mapped(), x.offset % 8 == 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded.view().data) % 8, 0u);
    EXPECT_EQ(static_cast<const double*>(loaded.view().data)[1], -3);
  }
}

TEST(Safetensors, TypesThatAreNotReadAreListedAndRefusedByName) {
  const struct {
    const char* type;
    int64_t length, bytes;
  } types[] = {{"F4", 2, 1},          {"F6_E2M3", 4, 3}, {"F6_E3M2", 8, 6}, {"I8", 1, 1},
               {"F8_E5M2", 3, 3},     {"F8_E4M3", 1, 1}, {"F8_E8M0", 2, 2}, {"F8_E4M3FNUZ", 1, 1},
               {"F8_E5M2FNUZ", 1, 1}, {"I16", 3, 6},     {"U16", 1, 2},     {"U32", 1, 4},
               {"C64", 2, 16},        {"U64", 1, 8}};
  std::string json = "{";
  int64_t end = 0;
  for (const auto& t : types) {
    json += json.size() > 1 ? "," : "";
    json += entry(t.type, t.type, "[" + std::to_string(t.length) + "]",
                  "[" + std::to_string(end) + "," + std::to_string(end + t.bytes) + "]");
    end += t.bytes;
  }
  const TensorFile file =
      open_bytes(safetensors_file(json + "}", std::string(static_cast<size_t>(end), '\0')));
  ASSERT_EQ(file.tensors.size(), std::size(types));
  for (size_t i = 0; i < std::size(types); ++i) {
    const StoredTensor& tensor = file.tensors[i];
    EXPECT_EQ(tensor.type, types[i].type);
    EXPECT_EQ(tensor.bytes, types[i].bytes);
    EXPECT_FALSE(tensor.dtype.has_value());
    EXPECT_EQ(memory_of(tensor), 0);
    expect_error(
        ErrorCode::dtype, [&] { load(tensor); }, "evil.safetensors", tensor.name,
        "convert it to one that is: f32");
  }
}

TEST(Safetensors, NothingIsWrittenOfWhatCannotBe) {
  const float one = 1;
  const TensorView view(&one, {1});
  const auto refused = [&](const std::vector<NamedTensor>& tensors, const Texts& metadata,
                           const std::string& says) {
    expect_error(
        ErrorCode::argument,
        [&] {
          write_safetensors([](const void*, int64_t) { FAIL() << "something was written"; },
                            tensors, metadata);
        },
        says);
  };
  refused({{"a", view}, {"b", view}, {"a", view}}, {}, "'a' twice");
  refused({{"a", view}}, {{"k", "1"}, {"k", "2"}}, "'k' twice");
  refused({{"__metadata__", view}}, {}, "'__metadata__' is taken");
  refused({{"\xff", view}}, {}, "UTF-8, got '\\xff'");
  refused({{"\xed\xa0\x80", view}}, {}, "UTF-8");
  refused({}, {{"k", "\xc3"}}, "UTF-8");
  refused({{std::string(kMaxSafetensorsName + 1, 'a'), view}}, {}, "at most 4096 bytes");
  refused({{"a", TensorView()}}, {}, "got none");
  refused({{"a", TensorView(static_cast<const float*>(nullptr), {1})}}, {}, "null pointer");
  refused({}, {{"k", std::string(static_cast<size_t>(kMaxSafetensorsHeader), 'a')}},
          "a header of 100000000 bytes");
}

TEST(Safetensors, AllElementsTogetherFitInto64Bits) {
  const double one = 1;
  const int64_t length = int64_t{1} << 58,
                stride = 0;  // one element, repeated to 2^61 bytes per tensor
  const TensorView view(const_cast<double*>(&one), DType::f64, {&length, 1}, {&stride, 1}, true);
  const NamedTensor tensors[] = {{"a", view}, {"b", view}, {"c", view}, {"d", view}};
  expect_error(
      ErrorCode::overflow,
      [&] {
        write_safetensors([](const void*, int64_t) { FAIL() << "something was written"; }, tensors);
      },
      "64 bits");
}

TEST(Safetensors, ElementsAreLittleEndianOnEveryMachine) {
  constexpr std::endian kOther =
      std::endian::native == std::endian::little ? std::endian::big : std::endian::little;
  for (const DType dtype : kAll) {
    Tensor own = ramp(dtype, Shape(std::vector<int64_t>{2, 3}));
    for (const TensorView& view : {own.view(), own.view().transposed()}) {
      std::string bytes, swapped;
      write_elements(
          [&](const void* data, int64_t n) {
            bytes.append(static_cast<const char*>(data), static_cast<size_t>(n));
          },
          view);
      write_elements(
          [&](const void* data, int64_t n) {
            swapped.append(static_cast<const char*>(data), static_cast<size_t>(n));
          },
          view, kOther);
      const auto width = static_cast<std::ptrdiff_t>(size_of(dtype));
      for (auto at = swapped.begin(); at != swapped.end(); at += width)
        std::reverse(at, at + width);
      EXPECT_EQ(swapped, bytes);
    }
  }
}

// The format is detected from the content for any header length: 123 is '{', and 19,280 is "PK",
// the mark of a ZIP archive.
TEST(Safetensors, IsToldByWhatItHolds) {
  for (const size_t length : {64, 123, 128, 19280}) {
    std::string json = "{" + entry("x", "U8", "[1]", "[0,1]") + "}";
    json.append(length - json.size(), ' ');
    const TensorFile file = open_tensor_file(held("model.npy", safetensors_file(json, "7")));
    EXPECT_STREQ(file.format, "safetensors");
    EXPECT_EQ(file.tensors.size(), 1u);
  }
}

TEST(TensorFileFormat, NoneOfThemNamesThemAll) {
  const struct {
    std::string start;
    const char* says;
  } cases[] = {{"", "got an empty file"},
               {"1.0,2.0\n3.0,4.0\n", "got one that begins with '1.0,2.0\\x0a3.0,4.0\\x0a'"},
               {"[[1, 2], [3, 4]]", "begins with '[[1, 2], [3, 4]]'"},
               {"\x93NUM", "begins with '\\x93NUM'"},
               {std::string(8, '\0'), "begins with '\\x00"},
               {"GGUF\3", "got a GGUF file"},
               {"\x89HDF\r\n\x1a\n", "got an HDF5 file"},
               {"\x80\x02}q", "got a Python pickle"}};
  for (const auto& c : cases)
    expect_error(
        ErrorCode::format, [&] { open_tensor_file(held("evil", c.start)); },
        "evil: expected a .npy, .npz or .safetensors file", "model.safetensors.index.json", c.says);
}

}  // namespace
}  // namespace rapt::test
