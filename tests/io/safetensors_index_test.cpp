// Models in shards: the index is strict, shards lie in its folder, and no tensor may be missing.
#include "safetensors_bytes.h"

namespace rapt::test {
namespace {

// A file of U8 tensors with one element each; its value is the first letter of the tensor's name.
std::string shard(const std::vector<std::string>& names) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names)
    tensors.push_back({name, TensorView(reinterpret_cast<const uint8_t*>(name.data()), {1})});
  return written(tensors);
}

class SafetensorsIndex : public testing::Test {
 protected:
  SafetensorsIndex() {
    make_file(folder_ / "1.safetensors", shard({"a", "c"}));
    make_file(folder_ / "2.safetensors", shard({"b", "unlisted"}));
  }
  std::string path() const { return folder_ / "model.safetensors.index.json"; }
  TensorFile open(const std::string& json) const {
    make_file(path(), json);
    return open_tensor_file(path());
  }
  template <class... Parts>
  void refused(ErrorCode code, const std::string& json, const Parts&... parts) const {
    SCOPED_TRACE(json.substr(0, 200));
    expect_error(
        code, [&] { open(json); }, "model.safetensors.index.json: ", parts...);
  }
  static std::string map(const std::string& entries) {
    return "{\"weight_map\":{" + entries + "}}";
  }

  ScratchFolder folder_;
};

TEST_F(SafetensorsIndex, ListsItsTensorsInItsOrder) {
  const TensorFile file = open(R"({
  "metadata": {"total_size": 3, "notes": [1.5, -2, null, true, {"deep": "text"}]},
  "weight_map": {
    "c": "1.safetensors",
    "b": "2.safetensors",
    "a": "1.safetensors"
  }
})");
  EXPECT_STREQ(file.format, "safetensors");
  ASSERT_EQ(file.tensors.size(), 3u);
  const char* const names[] = {"c", "b", "a"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.tensors[i].name, names[i]);
    EXPECT_EQ(*static_cast<const char*>(load(file.tensors[i]).view().data), names[i][0]);
  }
  EXPECT_EQ(file.tensors[0].file, file.tensors[2].file);  // both tensors share one opened file
  EXPECT_EQ(file.find("unlisted"), nullptr);
}

TEST_F(SafetensorsIndex, NeedsNoMetadataAndNoTensors) {
  EXPECT_EQ(open(map("\"a\":\"1.safetensors\"")).tensors.size(), 1u);
  EXPECT_TRUE(open(map("")).tensors.empty());
}

TEST_F(SafetensorsIndex, IsFoundFromItsOwnFolder) {
  open(map("\"a\":\"1.safetensors\""));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  EXPECT_EQ(open_tensor_file("model.safetensors.index.json").tensors.size(), 1u);
  EXPECT_EQ(open_tensor_file("./model.safetensors.index.json").tensors.size(), 1u);
  std::filesystem::current_path(before);
}

TEST_F(SafetensorsIndex, NamesOfFilesNeverLeaveTheFolder) {
  std::filesystem::create_directory(folder_ / "sub");
  make_file(folder_ / "sub/1.safetensors", shard({"a"}));
  for (const std::string name : {"sub/1.safetensors", "./1.safetensors", "../1.safetensors", "..",
                                 ".", "", "/etc/passwd", "sub\\\\1.safetensors", "a..safetensors",
                                 "1.safetensors\\u0000", "\\u002e\\u002e/x", "sub\\/1.safetensors"})
    refused(ErrorCode::format, map("\"a\":\"" + name + "\""),
            "the name of a file in the same folder for tensor 'a', got '");
  refused(ErrorCode::format, map("\"a\":\"" + (folder_ / "1.safetensors") + "\""), "same folder");
}

TEST_F(SafetensorsIndex, TensorsAndFilesThatAreNotThere) {
  refused(ErrorCode::format, map("\"d\":\"1.safetensors\""),
          "expected tensor 'd' in '1.safetensors'");
  refused(ErrorCode::format, map("\"a\":\"2.safetensors\""),
          "expected tensor 'a' in '2.safetensors'");
  refused(ErrorCode::io, map("\"a\":\"3.safetensors\""),
          "a file that it names: ", "3.safetensors: cannot be opened: No such file or directory");
  refused(ErrorCode::io, map("\"a\":\"sub\""), "sub: cannot be opened");
  make_file(folder_ / "bad.safetensors", "12345678");
  refused(ErrorCode::format, map("\"a\":\"bad.safetensors\""),
          "bad.safetensors: expected a header");
  // An index must not be a shard, or an index that names itself would recurse for ever.
  refused(ErrorCode::format, map("\"a\":\"model.safetensors.index.json\""),
          "model.safetensors.index.json: expected a header");
}

TEST_F(SafetensorsIndex, NamesThatComeTwice) {
  const std::string a = "\"a\":\"1.safetensors\"";
  refused(ErrorCode::format, map(a + ",\"b\":\"2.safetensors\"," + a), "tensor 'a' twice");
  refused(ErrorCode::format, map(a + ",\"\\u0061\":\"1.safetensors\""), "tensor 'a' twice");
  refused(ErrorCode::format, "{\"weight_map\":{},\"weight_map\":{}}", "'weight_map' twice");
  refused(ErrorCode::format, "{\"metadata\":{},\"weight_map\":{},\"metadata\":{}}",
          "'metadata' twice");
}

TEST_F(SafetensorsIndex, HoldsAMapOfTextAndNothingElse) {
  refused(ErrorCode::format, "{}", "expected a weight_map, got none");
  refused(ErrorCode::format, "{\"metadata\":{}}", "expected a weight_map, got none");
  refused(ErrorCode::format, "{\"model_type\":\"bert\"}",
          "expected metadata and weight_map, got 'model_type'");
  for (const std::string value : {"1", "-1", "null", "\"a\"", "[]", "1.5"}) {
    refused(ErrorCode::format, "{\"weight_map\":" + value + "}", "the object of weight_map, got ");
    refused(ErrorCode::format, "{\"metadata\":" + value + "}", "the object of metadata, got ");
  }
  for (const std::string value : {"1", "-1", "null", "{}", "[]", "1.5", "[\"1.safetensors\"]"})
    refused(ErrorCode::format, map("\"a\":" + value), "for tensor 'a', got ");
  refused(ErrorCode::format, "{\"weight_map\":{}} more", "expected JSON");
  refused(ErrorCode::format, map("\"" + std::string(kMaxSafetensorsName + 1, 'n') + "\":\"f\""),
          "names of at most 4096 bytes");
  std::string json = "\"a\":\"1.safetensors\"";
  json.reserve(24u << 20);
  for (int64_t i = 0; i < kMaxSafetensorsTensors; ++i) json += ",\"a\":\"1.safetensors\"";
  refused(ErrorCode::format, map(json), "at most 1048576 tensors");
}

TEST_F(SafetensorsIndex, DeepNestingIsNoRecursion) {
  std::string deep = "{\"metadata\":{\"a\":";
  refused(ErrorCode::format, deep + std::string(300'000, '['), "at most 4 deep");
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  refused(ErrorCode::format, deep, "at most 4 deep");
}

TEST_F(SafetensorsIndex, EveryPrefixAndEveryByteReplaced) {
  const std::string whole = "{\"metadata\":{\"n\":[1]},\"weight_map\":{\"a\":\"1.safetensors\"}}";
  ASSERT_EQ(open(whole).tensors.size(), 1u);
  for (size_t n = 1; n < whole.size(); ++n) refused(ErrorCode::format, whole.substr(0, n));
  const auto index = [&](const std::string& json) {
    return open_safetensors_index(held(path(), json));
  };
  int64_t opened = 0, refusals = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      std::string json = whole;
      json[at] = static_cast<char>(value);
      try {
        const TensorFile file = index(json);
        ASSERT_EQ(file.tensors.size(), 1u);
        ++opened;
      } catch (const Error&) {
        ++refusals;
      }
    }
  EXPECT_GT(opened, 60);
  EXPECT_GT(refusals, 10'000);
}

TEST_F(SafetensorsIndex, LargeOnesAreRefusedUnread) {
  make_file(path(), "{");
  std::filesystem::resize_file(path(),
                               static_cast<uintmax_t>(kMaxSafetensorsHeader) + 1);  // a sparse file
  expect_error(
      ErrorCode::format, [&] { open_tensor_file(path()); }, "an index of at most 100000000 bytes");
}

}  // namespace
}  // namespace rapt::test
