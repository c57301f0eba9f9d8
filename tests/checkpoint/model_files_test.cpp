// Language models in folders: round trips, shards, and one error for each bad file.
#include "rapt/checkpoint/model_files.h"

#include <gtest/gtest.h>

#include "checkpoint/small_models.h"
#include "io/scratch_folder.h"
#include "rapt/checkpoint/model_tensors.h"
#include "rapt/io/safetensors.h"

namespace {

using namespace rapt;
using namespace checkpoint_tests;
using checkpoint::load_model;
using checkpoint::save_model;
using nn::LanguageModelLayout;
using test::expect_error;
using test::file_bytes;
using test::make_file;
using test::ScratchFolder;

TEST(ModelFiles, ReadWhatTheyWrite) {
  for (const LanguageModelLayout layout : kAllLayouts)
    for (const bool tied : {false, true}) {
      const ScratchFolder folder;
      nn::LanguageModel model = small_language_model(layout, tied);
      save_model(folder / "model", model);
      nn::LanguageModel read = load_model(folder / "model");
      EXPECT_TRUE(same_parameters(model, read));
      EXPECT_EQ(read.head.defined(), !tied);
    }
}

TEST(ModelFiles, AreReadWithoutGradients) {
  for (const LanguageModelLayout layout : kAllLayouts) {
    const ScratchFolder folder;
    nn::LanguageModel model = small_language_model(layout, false);
    save_model(folder.path(), model);
    nn::LanguageModel read = load_model(folder.path(), DType::f32, nn::Frozen::yes);
    EXPECT_TRUE(same_parameters(model, read));
    nn::visit(read, [](const std::string& name, const nn::Parameter& p) {
      EXPECT_FALSE(p.learns()) << name;
    });
    const nn::LanguageModelSpec spec = checkpoint::load_model_spec(folder.path());
    EXPECT_EQ(count_parameters(spec), static_cast<double>(nn::count_parameters(model)));
  }
}

TEST(ModelFiles, ConvertToTheWantedDtype) {
  const ScratchFolder folder;
  save_model(folder.path(), small_language_model(LanguageModelLayout::qwen3, true));
  const nn::LanguageModel read = load_model(folder.path(), DType::f64);
  EXPECT_EQ(read.dtype(), DType::f64);
  save_model(folder.path(), read, Overwrite::yes);
  EXPECT_NE(file_bytes(folder / "config.json").find("float64"), std::string::npos);
}

TEST(ModelFiles, AreReadFromShards) {
  const ScratchFolder folder;
  nn::LanguageModel model = small_language_model(LanguageModelLayout::llama, false);
  save_model(folder.path(), model);
  const std::vector<NamedTensor> all = checkpoint::model_tensors(model);
  std::string index = "{\"metadata\": {}, \"weight_map\": {";
  for (size_t shard = 0; shard < 2; ++shard) {
    const std::string name = "model-" + std::to_string(shard) + ".safetensors";
    std::vector<NamedTensor> some;
    for (size_t i = shard; i < all.size(); i += 2) {
      some.push_back(all[i]);
      index += (index.back() == '{' ? "\"" : ", \"") + all[i].name + "\": \"" + name + "\"";
    }
    OutputFile file(folder / name, Overwrite::no);
    write_safetensors([&](const void* data, int64_t bytes) { file.write(data, bytes); }, some);
    file.commit();
  }
  std::filesystem::remove(folder / "model.safetensors");
  make_file(folder / "model.safetensors.index.json", index + "}}");
  nn::LanguageModel read = load_model(folder.path());
  EXPECT_TRUE(same_parameters(model, read));
}

TEST(ModelFiles, KeepWhatExists) {
  const ScratchFolder folder;
  const nn::LanguageModel model = small_language_model(LanguageModelLayout::gpt2, true);
  save_model(folder.path(), model);
  const std::string before = file_bytes(folder / "model.safetensors");
  expect_error(
      ErrorCode::io,
      [&] { save_model(folder.path(), small_language_model(LanguageModelLayout::gpt2, true, 2)); },
      "model.safetensors");
  EXPECT_EQ(file_bytes(folder / "model.safetensors"), before);
  EXPECT_EQ(folder.entries(), 2);
}

TEST(ModelFiles, NameTheFileThatIsBad) {
  const ScratchFolder folder;
  const auto load = [&] { load_model(folder.path()); };
  expect_error(ErrorCode::io, load, "config.json");
  save_model(folder.path(), small_language_model(LanguageModelLayout::gpt2, true));
  const std::string config = file_bytes(folder / "config.json");
  const std::string tensors = file_bytes(folder / "model.safetensors");
  const auto with_config = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    changed.replace(changed.find(from), from.size(), to);
    make_file(folder / "config.json", changed);
  };
  with_config("\"n_embd\": 4", "\"n_embd\": 400000");
  expect_error(ErrorCode::format, load, "config.json: its matrices have");
  with_config("\"n_head\": 2", "\"n_head\": 3");
  expect_error(ErrorCode::argument, load, "config.json: ", "heads 3");
  with_config("\"n_inner\": 6", "\"n_inner\": 5");
  expect_error(ErrorCode::shape, load, "model.safetensors: ", "c_fc.weight is [4, 6]");
  make_file(folder / "config.json", config);
  make_file(folder / "model.safetensors", tensors.substr(0, tensors.size() / 2));
  expect_error(ErrorCode::format, load, "model.safetensors");
  std::filesystem::remove(folder / "model.safetensors");
  expect_error(ErrorCode::io, load, "expected model.safetensors or model.safetensors.index.json");
}

}  // namespace
