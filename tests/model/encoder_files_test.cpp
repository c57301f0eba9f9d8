// Folders of encoders: what is missing, damaged or not computed, by name; pooling.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/io/safetensors.h"
#include "rapt/model/encoder_model.h"
#include "rapt/model/pooling.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

class EncoderFilesTest : public testing::Test {
 protected:
  EncoderFilesTest() {
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy(std::string(RAPT_TEST_DATA) + "/bert/" + name, path(name));
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  void change_config(const std::function<void(Json&)>& change) const {
    Json config = Json::parse(file_bytes(std::string(RAPT_TEST_DATA) + "/bert/config.json"));
    change(config);
    write("config.json", config.dump());
  }
  template <class... Parts>
  void expect_config(ErrorCode code, const std::function<void(Json&)>& change,
                     const Parts&... parts) const {
    change_config(change);
    expect_error(
        code, [&] { model::load_encoder(folder_.path()); }, parts...);
  }

  ScratchFolder folder_;
};

TEST_F(EncoderFilesTest, ConfigsThatDoNotFitAreRejectedByTheKey) {
  using enum ErrorCode;
  expect_config(
      unsupported, [](Json& j) { j["model_type"] = "t5"; }, "model_type is '\"t5\"'",
      "bert, roberta or distilbert");
  expect_config(
      unsupported, [](Json& j) { j["position_embedding_type"] = "relative_key"; },
      "position_embedding_type");
  expect_config(
      unsupported, [](Json& j) { j["is_decoder"] = true; }, "is_decoder");
  expect_config(
      unsupported, [](Json& j) { j["quantization_config"] = Json::object(); },
      "quantised weights are not read");
  expect_config(
      unsupported, [](Json& j) { j["hidden_act"] = "mish"; }, "hidden_act", "gelu");
  expect_config(
      format, [](Json& j) { j["num_attention_heads"] = 5; }, "heads that divide");
  expect_config(
      format, [](Json& j) { j["vocab_size"] = int64_t{1} << 31; }, "word_embeddings.weight",
      "[2147483648, 24]", "got [50, 24]");
  expect_config(
      format, [](Json& j) { j["num_hidden_layers"] = 3; },
      "'encoder.layer.2.attention.self.query.weight' is missing");
  expect_config(
      format, [](Json& j) { j["num_hidden_layers"] = 1; },
      "the model has no tensor 'encoder.layer.1.");
}

TEST_F(EncoderFilesTest, TensorsOfOtherTypesAreRejectedAndPrefixesAreNot) {
  const TensorFile file = open_tensor_file(path("model.safetensors"));
  const auto save = [&](const std::string& prefix, bool integers) {
    std::vector<LoadedTensor> loaded;
    std::vector<NamedTensor> tensors;
    loaded.reserve(file.tensors.size());
    const std::vector<int64_t> numbers(24);
    for (const StoredTensor& stored : file.tensors) {
      loaded.push_back(load(stored));
      const bool changes = integers && stored.name == "embeddings.LayerNorm.bias";
      tensors.push_back({prefix + stored.name,
                         changes ? TensorView(numbers.data(), {24}) : loaded.back().view()});
    }
    std::string bytes;
    write_safetensors(
        [&](const void* data, int64_t count) {
          bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
        },
        tensors);
    return bytes;
  };
  const std::string with_prefix = save("bert.", false), wrong = save("", true);
  std::filesystem::remove(path("model.safetensors"));
  write("model.safetensors", with_prefix);
  EXPECT_EQ(model::load_encoder(folder_.path()).spec.layers, 2);
  write("model.safetensors", wrong);
  expect_error(
      ErrorCode::format, [&] { model::load_encoder(folder_.path()); },
      "'embeddings.LayerNorm.bias': expected F32, BF16 or F16, got I64");
  std::filesystem::remove(path("model.safetensors"));
  expect_error(
      ErrorCode::io, [&] { model::load_encoder(folder_.path()); }, "expected model.safetensors");
  std::filesystem::remove(path("config.json"));
  expect_error(
      ErrorCode::io, [&] { model::load_encoder(folder_.path()); }, "config.json");
}

TEST_F(EncoderFilesTest, PoolingIsThatOfTheModules) {
  EXPECT_FALSE(model::load_pooling(folder_.path()).normalize);
  std::filesystem::create_directory(path("1_Pooling"));
  write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  write("sentence_bert_config.json", R"({"max_seq_length": 12})");
  write("modules.json", R"([{"type": "a.Transformer", "path": ""},
      {"type": "a.Pooling", "path": "1_Pooling"}, {"type": "a.Normalize", "path": "2"}])");
  const model::Pooling pooling = model::load_pooling(folder_.path());
  EXPECT_EQ(pooling.mode, model::PoolingMode::cls_token);
  EXPECT_TRUE(pooling.normalize);
  EXPECT_EQ(pooling.longest, 12);
  const auto rejects = [&](ErrorCode code, const char* modules, const char* part) {
    write("modules.json", modules);
    expect_error(
        code, [&] { model::load_pooling(folder_.path()); }, "modules.json", part);
  };
  rejects(ErrorCode::unsupported, R"([{"type": "a.Dense", "path": "2"}])", "'Dense'");
  rejects(ErrorCode::format, R"([{"type": "a.Pooling", "path": "../x"}])", "path");
  rejects(ErrorCode::format, R"({"type": 1})", "an array");
  rejects(ErrorCode::format, "[", "JSON");
}

TEST(PoolingTest, EachModeOfTwoTexts) {
  const std::vector<float> rows = {1, -4, 3, 2, 5, 0};  // [3, 2]
  const TensorView view(rows.data(), {3, 2});
  const std::vector<int64_t> starts = {0, 2, 3, 3};
  const auto expect = [&](model::PoolingMode mode, bool normalize, std::vector<float> expected) {
    model::Pooling pooling;
    pooling.mode = mode;
    pooling.normalize = normalize;
    const Tensor pooled = pool(pooling, view, starts);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_FLOAT_EQ(pooled.values<float>()[i], expected[i]) << i;
  };
  using enum model::PoolingMode;
  expect(mean_tokens, false, {2, -1, 5, 0, 0, 0});
  expect(cls_token, false, {1, -4, 5, 0, 0, 0});
  expect(max_tokens, false, {3, 2, 5, 0, 0, 0});
  expect(mean_sqrt_len_tokens, false, {4 / std::sqrt(2.0f), -2 / std::sqrt(2.0f), 5, 0, 0, 0});
  expect(mean_tokens, true, {2 / std::sqrt(5.0f), -1 / std::sqrt(5.0f), 1, 0, 0, 0});
}

}  // namespace
}  // namespace rapt::test
