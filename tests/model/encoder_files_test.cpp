// Folders of encoders: what is missing, damaged or not computed, by name; pooling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/float16.h"
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
      format, [](Json& j) { j["layer_norm_eps"] = -1; }, "config.json: layer_norm_eps");
  for (const int64_t id : {int64_t{23}, INT64_MAX})
    expect_config(
        format,
        [&](Json& j) {
          j["model_type"] = "roberta";
          j["max_position_embeddings"] = 24;
          j["pad_token_id"] = id;
        },
        "pad_token_id leaves no position");
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

TEST_F(EncoderFilesTest, ClassesOfOtherFamiliesAreRejectedAndUnknownKeysAreListed) {
  using enum ErrorCode;
  expect_config(
      unsupported, [](Json& j) { j["architectures"] = {"RobertaModel"}; }, "architectures",
      "BertModel, BertForMaskedLM", "got 'RobertaModel'");
  expect_config(
      format, [](Json& j) { j["architectures"] = "BertModel"; }, "a list of texts");
  expect_config(
      unsupported,
      [](Json& j) {
        j["pruned_heads"] = {{"0", {1}}};
      },
      "pruned_heads");
  change_config([](Json& j) { j["architectures"] = {"BertForMaskedLM"}; });
  EXPECT_EQ(model::load_encoder_spec(folder_.path()).ignored_keys, std::vector<std::string>{});
  change_config([](Json& j) {
    j["architectures"] = nullptr;
    j["pruned_heads"] = Json::object();
    j["new_key"] = 1;
  });
  EXPECT_EQ(model::load_encoder_spec(folder_.path()).ignored_keys,
            std::vector<std::string>{"new_key"});
}

template <class T>
T rounded_to(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return T::from(value);
}

// A file of some tensors, as T.
template <class T>
std::string file_of(const TensorFile& file, size_t begin, size_t end) {
  std::vector<Tensor> rounded;
  std::vector<NamedTensor> named;
  rounded.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) {
    const LoadedTensor loaded = load(file.tensors[i]);
    const auto* const from = static_cast<const float*>(loaded.view().data);
    rounded.emplace_back(dtype_of<T>(), loaded.view().dims());
    std::transform(from, from + loaded.view().count(), rounded.back().values<T>().begin(),
                   [](float value) { return rounded_to<T>(value); });
    named.push_back({file.tensors[i].name, rounded.back().view()});
  }
  std::string bytes;
  write_safetensors(
      [&](const void* data, int64_t count) {
        bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
      },
      named);
  return bytes;
}

TEST_F(EncoderFilesTest, ShardsAreOneModel) {
  const TensorFile file = open_tensor_file(path("model.safetensors"));
  const size_t half = file.tensors.size() / 2, all = file.tensors.size();
  const std::vector<int64_t> ids = {3, 7, 1, 20};
  const Tensor expected = encode(model::load_encoder(folder_.path()), {ids, {}, {}});
  Json index = {{"metadata", Json::object()}};
  for (size_t i = 0; i < all; ++i)
    index["weight_map"][file.tensors[i].name] = i < half ? "a.safetensors" : "b.safetensors";
  write("a.safetensors", file_of<float>(file, 0, half));
  write("b.safetensors", file_of<float>(file, half, all));
  write("model.safetensors.index.json", index.dump());
  std::filesystem::remove(path("model.safetensors"));
  const Tensor found = encode(model::load_encoder(folder_.path()), {ids, {}, {}});
  EXPECT_TRUE(std::ranges::equal(found.values<float>(), expected.values<float>()));
  index["weight_map"][file.tensors[0].name] = "../a.safetensors";
  write("model.safetensors.index.json", index.dump());
  expect_error(
      ErrorCode::format, [&] { model::load_encoder(folder_.path()); }, "../a.safetensors");
  index["weight_map"][file.tensors[0].name] = "c.safetensors";
  write("model.safetensors.index.json", index.dump());
  expect_error(
      ErrorCode::io, [&] { model::load_encoder(folder_.path()); }, "c.safetensors");
}

// Weights of 16 bits are those of the same numbers in f32. Either result may have twice the error
// of transformers' own float32 (data/make_golden.py), and a rounding of its own.
template <class T>
void expect_rounded_weights(const std::string& folder, const TensorFile& file) {
  const auto write = [&](const std::string& bytes) {
    std::filesystem::remove(folder + "/model.safetensors");
    std::ofstream(folder + "/model.safetensors", std::ios::binary) << bytes;
  };
  const std::vector<int64_t> ids = {3, 7, 1, 20, 30, 31, 4};
  write(file_of<T>(file, 0, file.tensors.size()));
  const TensorFile rounded = open_tensor_file(folder + "/model.safetensors");
  const model::EncoderModel model = model::load_encoder(folder);
  EXPECT_EQ(model.blocks[0].query.weight.dtype, dtype_of<T>());
  const Tensor found = encode(model, {ids, {}, {}});
  std::vector<Tensor> wide;
  wide.reserve(rounded.tensors.size());
  std::vector<NamedTensor> named;
  for (const StoredTensor& stored : rounded.tensors) {
    const LoadedTensor loaded = load(stored);
    const auto* const from = static_cast<const T*>(loaded.view().data);
    wide.emplace_back(DType::f32, loaded.view().dims());
    std::transform(from, from + loaded.view().count(), wide.back().values<float>().begin(),
                   [](T value) { return static_cast<float>(value); });
    named.push_back({stored.name, wide.back().view()});
  }
  std::string bytes;
  write_safetensors(
      [&](const void* data, int64_t count) {
        bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
      },
      named);
  write(bytes);
  const Tensor same = encode(model::load_encoder(folder), {ids, {}, {}});
  const TensorFile golden =
      open_tensor_file(std::string(RAPT_TEST_DATA) + "/bert/golden.safetensors");
  const double error = static_cast<const double*>(load(*golden.find("error")).view().data)[0];
  for (int64_t i = 0; i < found.count(); ++i) {
    const float value = same.values<float>()[static_cast<size_t>(i)];
    EXPECT_NEAR(found.values<float>()[static_cast<size_t>(i)], value,
                4 * error + std::fabs(value) * 0x1p-23);
  }
}

TEST_F(EncoderFilesTest, WeightsOf16BitsAreComputedAsTheyAre) {
  const TensorFile file = open_tensor_file(std::string(RAPT_TEST_DATA) + "/bert/model.safetensors");
  expect_rounded_weights<BFloat16>(folder_.path(), file);
  expect_rounded_weights<Float16>(folder_.path(), file);
}

TEST_F(EncoderFilesTest, TensorsOfOtherTypesAreRejectedAndPrefixesAreNot) {
  const TensorFile file = open_tensor_file(path("model.safetensors"));
  const auto save = [&](const std::string& prefix, bool integers, bool early = false) {
    std::vector<LoadedTensor> loaded;
    std::vector<NamedTensor> tensors;
    loaded.reserve(file.tensors.size());
    const std::vector<int64_t> numbers(24);
    for (const StoredTensor& stored : file.tensors) {
      loaded.push_back(load(stored));
      const bool changes = integers && stored.name == "embeddings.LayerNorm.bias";
      std::string name = prefix + stored.name;
      if (const size_t at = name.find("LayerNorm."); early && at != std::string::npos)
        name.replace(at + 10, std::string::npos, name.ends_with(".weight") ? "gamma" : "beta");
      tensors.push_back({name, changes ? TensorView(numbers.data(), {24}) : loaded.back().view()});
    }
    std::string bytes;
    write_safetensors(
        [&](const void* data, int64_t count) {
          bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
        },
        tensors);
    return bytes;
  };
  const std::string with_prefix = save("bert.", false), wrong = save("", true),
                    early = save("bert.", false, true);
  const model::EncoderModel model = model::load_encoder(folder_.path());
  std::filesystem::remove(path("model.safetensors"));
  write("model.safetensors", with_prefix);
  EXPECT_EQ(model::load_encoder(folder_.path()).spec.layers, 2);
  write("model.safetensors", early);
  const std::vector<int64_t> ids = {3, 7, 1};
  const Tensor expected = encode(model, {ids, {}, {}});
  const Tensor found = encode(model::load_encoder(folder_.path()), {ids, {}, {}});
  EXPECT_TRUE(std::ranges::equal(found.values<float>(), expected.values<float>()));
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
  rejects(ErrorCode::unsupported, R"([{"type": "a.Transformer", "path": ""}])", "got 0");
}

TEST_F(EncoderFilesTest, SettingsThatChangeVectorsAreNeverPassedOver) {
  std::filesystem::create_directory(path("1_Pooling"));
  const auto rejects = [&](const char* name, ErrorCode code, const char* text, const char* part) {
    write(name, text);
    expect_error(
        code, [&] { model::load_pooling(folder_.path()); }, name, part);
  };
  write("modules.json", R"([{"type": "a.Pooling", "path": "1_Pooling"}])");
  constexpr const char* kMode = "1_Pooling/config.json";
  rejects(kMode, ErrorCode::unsupported, R"({"pooling_mode": "mean"})", "got none");
  rejects(kMode, ErrorCode::unsupported, R"({"pooling_mode_lasttoken": true})", "lasttoken");
  rejects(kMode, ErrorCode::unsupported,
          R"({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true})", "several");
  rejects(kMode, ErrorCode::format, R"({"pooling_mode_cls_token": 1})", "true or false");
  write(kMode, R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})");
  EXPECT_EQ(model::load_pooling(folder_.path()).mode, model::PoolingMode::mean_tokens);
  write("config_sentence_transformers.json", R"({"default_prompt_name": null})");
  write("sentence_roberta_config.json", R"({"max_seq_length": 7, "do_lower_case": false})");
  EXPECT_EQ(model::load_pooling(folder_.path()).longest, 7);
  rejects("config_sentence_transformers.json", ErrorCode::unsupported,
          R"({"default_prompt_name": "query"})", "default_prompt_name");
  rejects("sentence_bert_config.json", ErrorCode::unsupported, R"({"do_lower_case": true})",
          "do_lower_case");
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
  for (const size_t at : {size_t{0}, size_t{2}, size_t{4}}) {
    std::vector<float> with_nan = rows;
    with_nan[at] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<int64_t> one = {0, 3};
    model::Pooling pooling;
    pooling.mode = max_tokens;
    const Tensor pooled = pool(pooling, {with_nan.data(), {3, 2}}, one);
    EXPECT_TRUE(std::isnan(pooled.values<float>()[0])) << at;
  }
  for (const std::vector<int64_t>& wrong :
       std::vector<std::vector<int64_t>>{{}, {0, 2}, {0, 100, 3}, {-5, 3}, {1, 3}, {0, 2, 1, 3}})
    expect_error(
        ErrorCode::shape, [&] { pool(model::Pooling(), view, wrong); },
        "starts: expected numbers from 0 to 3");
}

}  // namespace
}  // namespace rapt::test
