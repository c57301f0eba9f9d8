// Folders of decoders: configs of transformers 4 and 5, what is missing, damaged or not computed,
// by name, and what a folder is said to hold.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/checkpoint/model_config.h"
#include "rapt/io/safetensors.h"
#include "rapt/model/decoder_model.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Change = std::function<void(Json&)>;

class DecoderFilesTest : public testing::Test {
 protected:
  DecoderFilesTest() { take("llama"); }

  std::string data(const std::string& family) const {
    return std::string(RAPT_TEST_DATA) + "/" + family;
  }
  // Puts the files of a family in the place of others.
  void take(const std::string& family) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      std::filesystem::remove(entry.path());
    for (const auto& entry : std::filesystem::directory_iterator(data(family)))
      std::filesystem::copy(entry.path(), folder_.path());
    family_ = family;
  }
  void change(const Change& edit) const {
    Json config = Json::parse(file_bytes(data(family_) + "/config.json"));
    edit(config);
    std::ofstream(folder_ / "config.json", std::ios::binary) << config.dump();
  }
  model::DecoderSpec spec(const Change& edit) const {
    change(edit);
    return model::load_decoder_spec(folder_.path());
  }
  template <class... Parts>
  void expect_config(ErrorCode code, const Change& edit, const Parts&... parts) const {
    change(edit);
    expect_error(
        code, [&] { model::load_decoder(folder_.path()); }, parts...);
    expect_error(
        code, [&] { model::load_decoder_info(folder_.path()); }, parts...);
  }
  Tensor output() const {
    const std::vector<int64_t> ids = {3, 7, 1, 40, 12};
    return read_text(model::load_decoder(folder_.path()), ids);
  }

  ScratchFolder folder_;
  std::string family_;
};

TEST_F(DecoderFilesTest, PartsThatRaptLacksAreRejectedByTheKey) {
  using enum ErrorCode;
  const auto rejects = [&](const char* key, const Json& value, const std::string& part) {
    expect_config(
        unsupported, [&](Json& j) { j[key] = value; }, key, part);
  };
  rejects("model_type", "t5", "one of gpt2, llama, mistral, qwen2, qwen3, gemma2");
  rejects("model_type", "mixtral", "mixtures of experts are not read");
  rejects("model_type", "qwen3_moe", "mixtures of experts are not read");
  rejects("architectures", {"LlamaForSequenceClassification"}, "LlamaForCausalLM or LlamaModel");
  rejects("quantization_config", Json::object(), "dequantize() and save_pretrained()");
  rejects("num_local_experts", 8, "take a dense model");
  rejects("residual_multiplier", 0.22, "does not compute with it");
  rejects("auto_map", {{"AutoModel", "code.Model"}}, "code of a folder is not run");
  rejects("hidden_act", "mish", "silu");
  rejects("rope_parameters", {{"rope_type", "longrope"}},
          "default, linear, dynamic, yarn or llama3");
  rejects("rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}},
          "expected 1");
  rejects("layer_types", {"full_attention", "sliding_attention"}, "that this model has");
  rejects("num_key_value_heads", 3, "a divisor of the heads, which are 4");
  rejects("head_dim", 7, "an even number");
  rejects("rms_norm_eps", -1, "0 or more");
  rejects("num_hidden_layers", 1 << 20, "at most 65536");
  rejects("vocab_size", int64_t{1} << 31, "at most 2147483647");
  take("gpt2");
  rejects("scale_attn_by_inverse_layer_idx", true, "expected false");
  rejects("add_cross_attention", true, "expected false");
  rejects("n_head", 5, "heads that divide n_embd 24");
  take("gemma2");
  rejects("use_bidirectional_attention", true, "expected false");
  rejects("query_pre_attn_scalar", 0, "above 0");
  rejects("attn_logit_softcapping", -1, "or null");
  rejects("layer_types", {"full_attention"}, "for each of the 2 layers");
  rejects("layer_types", {"full_attention", "chunked_attention"}, "sliding_attention alone");
}

TEST_F(DecoderFilesTest, RopeThatDoesNotFitIsRejectedByTheKey) {
  const auto rejects = [&](const Json& rope, const std::string& part) {
    expect_config(
        ErrorCode::format, [&](Json& j) { j["rope_parameters"] = rope; },
        "config.json: rope_parameters: rotary: ", part);
  };
  rejects({{"rope_theta", 0.5}}, "theta");
  rejects({{"rope_type", "yarn"}, {"rope_theta", 1.0}, {"factor", 2.0}}, "theta above 1");
  rejects({{"rope_type", "llama3"}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}},
          "expected the first to be smaller");
  expect_config(
      ErrorCode::format,
      [](Json& j) {
        j.erase("rope_parameters");
        j["rope_theta"] = 0.5;
      },
      "config.json: rope_theta: rotary: ");
}

// Sizes are compared with the tensors before memory is taken for them.
TEST_F(DecoderFilesTest, SizesThatTheTensorsDoNotHaveAreRejected) {
  const int64_t most = model::kMostDecoderSize;
  const auto rejects = [&](const char* key, int64_t value, const std::string& part) {
    expect_config(
        ErrorCode::format, [&](Json& j) { j[key] = value; }, part);
  };
  rejects("vocab_size", most, "'model.embed_tokens.weight': expected the shape [2147483647, 24]");
  rejects("hidden_size", most - 3, "got [50, 24]");
  rejects("head_dim", most - 1, "'model.layers.0.self_attn.q_proj.weight'");
  rejects("intermediate_size", most, "'model.layers.0.mlp.gate_proj.weight'");
  rejects("num_hidden_layers", 3, "'model.layers.2.input_layernorm.weight' is missing");
  rejects("num_hidden_layers", 1, "the model has no tensor 'model.layers.1.");
  change([](Json& j) { j["attention_bias"] = false; });
  expect_error(
      ErrorCode::format, [&] { model::load_decoder(folder_.path()); }, "has no tensor", "bias'");
}

TEST_F(DecoderFilesTest, ConfigsOfTransformers4AreReadToo) {
  const Tensor expected = output();
  change([](Json& j) {
    Json rope = j["rope_parameters"];
    j.erase("rope_parameters");
    j["rope_theta"] = rope["rope_theta"];
    rope.erase("rope_theta");
    j["rope_scaling"] = rope;
  });
  const Tensor found = output();
  ASSERT_EQ(found.count(), expected.count());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(),
                        static_cast<size_t>(found.count()) * sizeof(float)),
            0);
  EXPECT_EQ(spec([](Json&) {}).rotary.original_length, 24);
  EXPECT_EQ(
      spec([](Json& j) { j["original_max_position_embeddings"] = 32; }).rotary.original_length, 32);
  // Frequencies change beyond the context alone.
  const auto plain = [](Json& j) { j["rope_parameters"] = {{"rope_theta", 500.0}}; };
  const auto dynamic = [&](Json& j) {
    plain(j);
    j["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}, {"rope_theta", 500.0}};
  };
  EXPECT_EQ(spec(dynamic).rotary.scaling, RotaryScaling::none);
  EXPECT_EQ(spec(dynamic).rotary.theta, spec(plain).rotary.theta);
}

TEST_F(DecoderFilesTest, AbsentAndNullKeysHaveTheDefaultsOfTransformers) {
  const auto without = [](const char* key) { return [key](Json& j) { j.erase(key); }; };
  const auto null = [](const char* key) { return [key](Json& j) { j[key] = nullptr; }; };
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(spec(null("num_key_value_heads")).kv_heads, 4);
  EXPECT_EQ(spec(null("head_dim")).head_dim, 6);
  take("mistral");
  EXPECT_EQ(spec([](Json&) {}).windows, (Windows{5, 5}));
  EXPECT_EQ(spec(without("sliding_window")).windows, (Windows{4096, 4096}));
  EXPECT_EQ(spec(null("sliding_window")).windows, (Windows{0, 0}));
  take("gemma2");
  EXPECT_EQ(spec(without("layer_types")).windows, (Windows{4, 0}));
  EXPECT_EQ(spec([](Json& j) {
              j["layer_types"] = {"full_attention", "sliding_attention"};
            }).windows,
            (Windows{0, 4}));
  EXPECT_EQ(spec(without("final_logit_softcapping")).logit_cap, 30);
  EXPECT_EQ(spec(null("final_logit_softcapping")).logit_cap, 0);
  EXPECT_EQ(spec(null("attn_logit_softcapping")).score_cap, 0);
  EXPECT_TRUE(spec(without("tie_word_embeddings")).tied_head);
  take("qwen2");
  EXPECT_EQ(spec(without("layer_types")).windows, (Windows{0, 6}));
  const auto without_window = [](Json& j) {
    j.erase("layer_types");
    j["use_sliding_window"] = false;
  };
  EXPECT_EQ(spec(without_window).windows, (Windows{0, 0}));
}

// Models that learn have a reader of their own, which rejects what layers do not have.
TEST_F(DecoderFilesTest, TheConfigsOfModelsThatLearnHaveTheSameSizes) {
  for (const char* const family : nn::kLanguageModelLayoutNames) {
    take(family);
    const std::string whole = file_bytes(folder_ / "config.json");
    for (const std::string& text : {whole, Json{{"model_type", family}}.dump()}) {
      SCOPED_TRACE(text);
      const nn::LanguageModelSpec learning = nn::complete_spec(checkpoint::read_model_config(text));
      const model::DecoderSpec spec = model::read_decoder_spec(text, "config.json");
      EXPECT_EQ(learning.vocabulary, spec.vocabulary);
      EXPECT_EQ(learning.context, spec.context);
      EXPECT_EQ(learning.layers, spec.layers);
      EXPECT_EQ(learning.heads, spec.heads);
      EXPECT_EQ(learning.features, spec.features);
      EXPECT_EQ(learning.kv_heads, spec.kv_heads);
      EXPECT_EQ(learning.head_dim, spec.head_dim);
      EXPECT_EQ(learning.hidden_features, spec.hidden_features);
      EXPECT_EQ(learning.activation, spec.activation);
      EXPECT_EQ(learning.norm_epsilon, spec.norm_epsilon);
      EXPECT_EQ(learning.attention_bias, spec.input_bias);
      EXPECT_EQ(learning.attention_bias, spec.output_bias);
      EXPECT_EQ(learning.network_bias, spec.network_bias);
      EXPECT_EQ(learning.rotary.theta, spec.rotary.theta);
      EXPECT_EQ(learning.rotary.scaling, spec.rotary.scaling);
      EXPECT_EQ(learning.rotary.original_length, spec.rotary.original_length);
      EXPECT_EQ(learning.tied_head, spec.tied_head);
    }
  }
}

TEST_F(DecoderFilesTest, SaysWhatAFolderHolds) {
  change([](Json& j) {
    j["unsloth_version"] = "2025.1";
    j["torch_dtype"] = "float32";
  });
  EXPECT_TRUE(model::is_decoder_folder(folder_.path()));
  const model::DecoderInfo info = model::load_decoder_info(folder_.path());
  EXPECT_EQ(info.spec.ignored_keys, std::vector<std::string>{"unsloth_version"});
  const model::DecoderModel model = model::load_decoder(folder_.path());
  int64_t mapped = 0, elements = 0, biases = 0;
  for (const LoadedTensor& tensor : model.loaded) {
    EXPECT_TRUE(tensor.mapped());
    elements += tensor.view().count();
    if (tensor.view().rank == 1) biases += tensor.view().count();
    mapped += tensor.view().count() * size_of(tensor.view().dtype);
  }
  const int64_t norms = 5 * 24;
  EXPECT_EQ(info.mapped_bytes, mapped);
  EXPECT_EQ(info.copied_bytes, norms * size_of(DType::f32));
  EXPECT_EQ(info.parameters, elements + norms);
  const model::DecoderInfo halved = model::load_decoder_info(folder_.path(), DType::bf16);
  // The folder is in f32, of which only biases are mapped.
  EXPECT_EQ(halved.mapped_bytes, biases * size_of(DType::f32));
  EXPECT_EQ(halved.copied_bytes, info.copied_bytes + (elements - biases) * size_of(DType::bf16));
  EXPECT_EQ(halved.dtype, DType::bf16);
  expect_error(
      ErrorCode::dtype, [&] { model::load_decoder(folder_.path(), DType::f16); },
      "computed in f32 or bf16, got f16");
  take("mistral");
  const model::DecoderModel mistral = model::load_decoder(folder_.path(), DType::bf16);
  EXPECT_TRUE(std::ranges::all_of(mistral.loaded, &LoadedTensor::mapped));
  EXPECT_EQ(mistral.tokens.dtype, DType::bf16);
  take("gpt2");  // matrices [in, out], which are mapped as they lie
  const model::DecoderModel gpt2 = model::load_decoder(folder_.path());
  EXPECT_TRUE(std::ranges::all_of(gpt2.loaded, &LoadedTensor::mapped));
  EXPECT_EQ(gpt2.blocks[0].widen.weight.strides[0], 1);
  const model::DecoderModel rounded = model::load_decoder(folder_.path(), DType::bf16);
  EXPECT_EQ(rounded.blocks[0].widen.weight.dtype, DType::bf16);
  EXPECT_EQ(rounded.blocks[0].widen.bias.dtype, DType::f32);  // is added, so it is not rounded
  EXPECT_EQ(rounded.places.dtype, DType::f32);
  take("bert");
  EXPECT_FALSE(model::is_decoder_folder(folder_.path()));
  for (const auto& [type, expected] : {std::pair("phi3", "expected one of bert, "),
                                       std::pair("mixtral", "mixtures of experts are not read")}) {
    change([type = type](Json& j) { j["model_type"] = type; });
    expect_error(
        ErrorCode::unsupported, [&] { model::is_decoder_folder(folder_.path()); }, expected,
        "distilbert, gpt2, llama, mistral");
  }
}

TEST_F(DecoderFilesTest, NamesWithoutAPrefixBuffersAndF64AreRead) {
  const Tensor expected = output();
  const TensorFile file = open_tensor_file(folder_ / "model.safetensors");
  std::vector<Tensor> doubles;
  std::vector<NamedTensor> tensors;
  for (const StoredTensor& stored : file.tensors) {
    const LoadedTensor loaded = load(stored);
    Tensor& copy = doubles.emplace_back(DType::f64, loaded.view().dims());
    for (size_t i = 0; i < copy.values<double>().size(); ++i)
      copy.values<double>()[i] = static_cast<const float*>(loaded.view().data)[i];
    const bool prefixed = stored.name.starts_with("model.");
    tensors.push_back({prefixed ? stored.name.substr(6) : stored.name, copy.view()});
  }
  const std::vector<float> buffer(4);
  tensors.push_back({"layers.0.self_attn.rotary_emb.inv_freq", TensorView(buffer.data(), {4})});
  std::string bytes;
  write_safetensors(
      [&](const void* from, int64_t count) {
        bytes.append(static_cast<const char*>(from), static_cast<size_t>(count));
      },
      tensors);
  std::filesystem::remove(folder_ / "model.safetensors");
  std::ofstream(folder_ / "model.safetensors", std::ios::binary) << bytes;
  const Tensor found = output();
  EXPECT_EQ(std::memcmp(found.data(), expected.data(),
                        static_cast<size_t>(found.count()) * sizeof(float)),
            0);
}

TEST_F(DecoderFilesTest, TextsThatDoNotFitAreRejected) {
  const model::DecoderModel model = model::load_decoder(folder_.path());
  const std::vector<int64_t> beyond = {3, 50}, many(97, 3);
  expect_error(
      ErrorCode::argument, [&] { read_text(model, beyond); },
      "the id 50 at 1; the model has 0 to 49");
  expect_error(
      ErrorCode::argument, [&] { read_text(model, many); }, "97; the model has 96 positions");
  EXPECT_EQ(read_text(model, {}).count(), 0);
  nn::Arena counter;
  EXPECT_NO_THROW(nn::make_decoding_cache(model.sizes(), 1, 96, counter));
  expect_error(
      ErrorCode::argument, [&] { nn::make_decoding_cache(model.sizes(), 1, 97, counter); },
      "a capacity of 1 to 96");
  std::filesystem::remove(folder_ / "model.safetensors");
  expect_error(
      ErrorCode::io, [&] { model::load_decoder(folder_.path()); }, "model.safetensors",
      "save_pretrained()");
}

// A part of a model in shards: what the index names, and no path that leaves the folder.
TEST_F(DecoderFilesTest, ShardsThatAreMissingOrElsewhereAreRejected) {
  take("gemma2");
  const std::string index = folder_ / "model.safetensors.index.json";
  const Json named = Json::parse(file_bytes(index));
  const std::string shard = named["weight_map"].begin().value();
  const ScratchFolder elsewhere;
  std::filesystem::copy(folder_ / shard, elsewhere / shard);
  const std::string up =
      "../" + std::filesystem::path(elsewhere.path()).filename().string() + "/" + shard;
  ASSERT_TRUE(std::filesystem::exists(folder_ / up));
  const auto rejects = [&](ErrorCode code, const std::string& name, const std::string& part) {
    Json changed = named;
    for (auto& one : changed["weight_map"])
      if (one == shard) one = name;
    std::ofstream(index, std::ios::binary) << changed.dump();
    expect_error(
        code, [&] { model::load_decoder(folder_.path()); }, part);
  };
  constexpr const char* kOfTheFolder = "the name of a file in the same folder";
  rejects(ErrorCode::format, up, kOfTheFolder);
  rejects(ErrorCode::format, elsewhere / shard, kOfTheFolder);
  rejects(ErrorCode::io, "absent.safetensors", "absent.safetensors");
}

}  // namespace
}  // namespace rapt::test
