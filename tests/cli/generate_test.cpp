// rapt generate: texts, seeds, files, refusals, exit codes and interruption.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "cli/support/tiny_language_model.h"
#include "rapt/checkpoint/model_files.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class GenerateTest : public RaptTest {
 protected:
  GenerateTest() { save_tiny_language_model(path("model")); }

  Ran generate(const std::vector<std::string>& more, const How& how = {}) const {
    std::vector<std::string> arguments = {"generate", "model"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return rapt(arguments, how);
  }

  Json document(std::vector<std::string> more) const {
    more.push_back("--json");
    const Ran ran = generate(more);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return Json::parse(ran.out);
  }

  void refused(int exit, const std::vector<std::string>& more, const std::string& message) const {
    const Ran ran = generate(more);
    EXPECT_EQ(ran.exit, exit) << message;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(contains(ran.err, message)) << ran.err;
  }
};

TEST_F(GenerateTest, PrintsThePromptAndWhatFollows) {
  const Ran ran = generate({"--prompt", "abé", "--length", "6"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("abé")) << ran.out;
  EXPECT_TRUE(ran.out.ends_with("\n")) << ran.out;
  EXPECT_TRUE(contains(ran.err, "6 tokens, ")) << ran.err;
  EXPECT_TRUE(contains(ran.err, " per second, after a prompt of 3 in ")) << ran.err;
  EXPECT_TRUE(contains(ran.err, "ended by length")) << ran.err;
  const Json text = document({"--prompt", "abé", "--length", "6"}).at("texts").at(0);
  const std::string whole = "abé" + text.at("text").get<std::string>();
  EXPECT_EQ(ran.out, whole + (whole.ends_with('\n') ? "" : "\n"));
  EXPECT_EQ(text.at("tokens").size(), 6u);
  EXPECT_EQ(text.at("finish"), "length");
}

TEST_F(GenerateTest, ReadsThePromptFromAFile) {
  write("start.txt", "cab\n");
  EXPECT_EQ(generate({"--prompt-file", "start.txt", "--length", "5"}).out,
            generate({"--prompt", "cab\n", "--length", "5"}).out);
}

TEST_F(GenerateTest, TheSeedDecidesAndThreadsDoNot) {
  const auto text = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--prompt", "a", "--length", "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return generate(arguments).out;
  };
  EXPECT_EQ(text({"--seed", "3", "--threads", "1"}), text({"--seed", "3", "--threads", "2"}));
  EXPECT_NE(text({"--seed", "3"}), text({"--seed", "4"}));
  EXPECT_EQ(text({"--temperature", "0"}), text({"--temperature", "0", "--seed", "4"}));
  EXPECT_EQ(text({"--top-k", "1"}), text({"--temperature", "0"}));
  EXPECT_EQ(text({"--top-p", "1e-9"}), text({"--temperature", "0"}));
  EXPECT_EQ(text({"--min-p", "1"}), text({"--temperature", "0"}));
}

// Each token of the model is a character, so a word of three is cut into three tokens.
TEST_F(GenerateTest, EndsBeforeAStopWord) {
  const std::vector<std::string> drawn = {"--prompt", "ab", "--length", "30", "--seed", "5"};
  const std::string whole = document(drawn).at("texts").at(0).at("text");
  const auto is_ascii = [](const std::string& part) {
    return std::ranges::all_of(part, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  };
  size_t middle = whole.size() / 3;  // other characters have several bytes
  while (!is_ascii(whole.substr(middle, 3))) ++middle;
  const std::string word = whole.substr(middle, 3);  // its first place may be an earlier one
  ASSERT_EQ(word.size(), 3u);
  const std::string expected = whole.substr(0, whole.find(word));
  std::vector<std::string> stopped = drawn;
  stopped.insert(stopped.end(), {"--stop", "no such word", "--stop", word});
  const Json ended = document(stopped);
  const Json text = ended.at("texts").at(0);
  EXPECT_EQ(text.at("text"), expected);
  EXPECT_EQ(text.at("finish"), "stop-word");
  EXPECT_LT(text.at("tokens").size(), 30u);
  EXPECT_EQ(ended.at("stop"), std::vector<std::string>({"no such word", word}));
  const Ran ran = generate(stopped);
  EXPECT_TRUE(ran.out.starts_with("ab" + expected)) << ran.out;
  EXPECT_TRUE(contains(ran.err, "ended by stop-word")) << ran.err;
  // A word that is begun and not ended is part of the text.
  std::vector<std::string> begun = drawn;
  begun.insert(begun.end(), {"--stop", whole.substr(whole.size() - 6) + "no such end"});
  EXPECT_EQ(document(begun).at("texts").at(0).at("text"), whole);
  EXPECT_NE(document(begun).at("texts").at(0).at("finish"), "stop-word");
}

TEST_F(GenerateTest, PrintsSeveralTextsOneAfterTheOther) {
  const std::vector<std::string> arguments = {"--prompt", "ab", "--num", "2", "--length", "5"};
  const Ran ran = generate(arguments);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("== 1 of 2 ==\nab")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "\n\n== 2 of 2 ==\nab")) << ran.out;
  const Json texts = document(arguments).at("texts");
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], document({"--prompt", "ab", "--length", "5"}).at("texts").at(0));
  EXPECT_NE(texts[0], texts[1]);
}

TEST_F(GenerateTest, ContinuesSeveralPromptsAsEachAlone) {
  write("lines.txt", "abc\nca\n");
  const std::vector<std::string> prompts = {"ab", "abc", "ca", "bab"};
  for (const std::string num : {"1", "2"}) {
    const std::vector<std::string> more = {"--length", "6", "--num", num, "--seed", "3"};
    std::vector<std::string> all = {"--prompt", "ab", "--prompt", "@lines.txt", "--prompt", "bab"};
    all.insert(all.end(), more.begin(), more.end());
    const Json found = document(all);
    EXPECT_EQ(found.at("prompt"), nullptr);
    EXPECT_EQ(found.at("prompt_tokens"), nullptr);
    const size_t texts = num == "1" ? 1 : 2;
    ASSERT_EQ(found.at("texts").size(), 4 * texts);
    std::string printed;
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::vector<std::string> one = {"--prompt", prompts[i]};
      one.insert(one.end(), more.begin(), more.end());
      const Json alone = document(one);
      EXPECT_EQ(found.at("prompts").at(i), alone.at("prompts").at(0));
      EXPECT_EQ(alone.at("prompt"), prompts[i]);
      for (size_t t = 0; t < texts; ++t) {
        Json text = found.at("texts").at(i * texts + t);
        EXPECT_EQ(text.at("prompt"), i);
        text["prompt"] = 0;
        EXPECT_EQ(text, alone.at("texts").at(t));
        printed += (printed.empty() ? "== " : "\n== ") + std::to_string(i * texts + t + 1) +
                   " of " + std::to_string(4 * texts) + " ==\n" + prompts[i] +
                   text.at("text").get<std::string>();
        if (!printed.ends_with('\n')) printed += "\n";
      }
    }
    const Ran ran = generate(all);
    EXPECT_EQ(ran.out, printed);
    EXPECT_TRUE(contains(ran.err, "after 4 prompts of 10 in ")) << ran.err;
  }
}

// As "[INST] ... [/INST]" stands in brackets.
TEST_F(GenerateTest, TextsInBracketsStayWhole) {
  text::write_tokenizer(text::learn_characters("[],/ abc"), path("model"), Overwrite::yes);
  for (const std::string text : {"[a,b]", "[a] b [/a]"}) {
    for (const std::vector<std::string>& given :
         {std::vector<std::string>{"--prompt", text}, {"--prompt=" + text}}) {
      std::vector<std::string> more = given;
      more.insert(more.end(), {"--length", "2", "--stop", text, "--stop=" + text});
      const Json found = document(more);
      ASSERT_EQ(found.at("prompts").size(), 1u);
      EXPECT_EQ(found.at("prompts")[0].at("text"), text);
      EXPECT_EQ(found.at("stop"), std::vector<std::string>({text, text}));
    }
  }
}

TEST_F(GenerateTest, TakesOneTextBehindEachPrompt) {
  const Ran behind = rapt({"generate", "--prompt", "a", "model", "--length", "3"});
  EXPECT_EQ(behind.exit, 0) << behind.err;
  EXPECT_EQ(behind.out, generate({"--prompt", "a", "--length", "3"}).out);
  refused(2, {"--prompt", "a", "b"}, "'b' is not expected here");
  refused(2, {"--prompt", "a", "[a,b]"}, "'[a,b]' is not expected here");
}

TEST_F(GenerateTest, LinesEndAsOnAnySystem) {
  write("lines.txt", "abc\r\nca\r\n");
  const Json found = document({"--prompt", "@lines.txt", "--length", "3"});
  ASSERT_EQ(found.at("prompts").size(), 2u);
  EXPECT_EQ(found.at("prompts")[0].at("text"), "abc");
  EXPECT_EQ(found.at("prompts")[1].at("text"), "ca");
}

// Before any text is continued.
TEST_F(GenerateTest, NamesThePromptThatIsWrong) {
  write("lines.txt", "ab\naxb\n");
  refused(3, {"--prompt", "ab", "--prompt", "@lines.txt"},
          "line 2 of lines.txt: the tokenizer lacks 'x'");
  refused(3, {"--prompt", "ab", "--prompt", std::string(25, 'a')},
          "--prompt 2: 25 tokens; the model has 24 positions");
  write("lines.txt", "");
  refused(3, {"--prompt", "@lines.txt"}, "--prompt @lines.txt: the file has no line");
  write("lines.txt", "ab\n\nb\n");
  refused(3, {"--prompt", "@lines.txt"}, "line 2 of lines.txt: there is no prompt");
  refused(4, {"--prompt", "@nowhere.txt"}, "nowhere.txt");
  refused(2, {"--prompt", "a", "--prompt", "b", "--attention", "f.npy"}, "expected one --prompt");
  write("lines.txt", "a\nb\n");
  refused(2, {"--prompt", "@lines.txt", "--attention", "f.npy"}, "the file has several lines");
  EXPECT_FALSE(std::filesystem::exists(folder() / "f.npy"));
}

TEST_F(GenerateTest, EndsWhenTheContextIsFullUnlessItSlides) {
  const std::vector<std::string> arguments = {"--prompt", "abc", "--length", "40"};
  const Json full = document(arguments).at("texts").at(0);
  EXPECT_EQ(std::ssize(full.at("tokens")), kTinyContext - 3 + 1);
  EXPECT_EQ(full.at("finish"), "context");
  EXPECT_TRUE(contains(generate(arguments).err, "--when-full slide")) << generate(arguments).err;
  const Json slid =
      document({"--prompt", "abc", "--length", "40", "--when-full", "slide"}).at("texts").at(0);
  EXPECT_EQ(slid.at("tokens").size(), 40u);
}

TEST_F(GenerateTest, EndsBeforeAStopToken) {
  const Json whole = document({"--prompt", "a", "--length", "20"}).at("texts").at(0);
  const std::vector<int64_t> tokens = whole.at("tokens");
  write("model/generation_config.json", "{\"eos_token_id\": " + std::to_string(tokens[7]) + "}");
  const Json ended = document({"--prompt", "a", "--length", "20"}).at("texts").at(0);
  const auto stop = std::find(tokens.begin(), tokens.end(), tokens[7]);
  EXPECT_EQ(ended.at("tokens"), std::vector<int64_t>(tokens.begin(), stop));
  EXPECT_EQ(ended.at("finish"), "stop-token");
}

TEST_F(GenerateTest, WithoutAPromptATextBeginsBehindTheStopToken) {
  refused(3, {}, "there is no prompt");
  write("empty.txt", "");
  refused(3, {"--prompt-file", "empty.txt"}, "there is no prompt");
  write("model/generation_config.json", "{\"eos_token_id\": 0}");
  const Json found = document({"--length", "3"});
  EXPECT_EQ(found.at("prompt"), "");
  EXPECT_EQ(found.at("prompt_tokens"), 1);
}

TEST_F(GenerateTest, ComputesInBf16) {
  const Json found = document({"--prompt", "ab", "--length", "4", "--dtype", "bf16"});
  EXPECT_EQ(found.at("model").at("dtype"), "bf16");
  EXPECT_EQ(found.at("texts").at(0).at("tokens").size(), 4u);
}

TEST_F(GenerateTest, KeepsKeysAndValuesInTheTypeOfTheWeights) {
  std::vector<std::string> arguments = {"--prompt",      "ab",   "--length", "8",
                                        "--cache-dtype", "model"};
  EXPECT_EQ(document(arguments).at("cache_dtype"), "f32");
  EXPECT_EQ(document({"--prompt", "ab", "--length", "2", "--dtype", "bf16"}).at("cache_dtype"),
            "bf16");
  std::filesystem::remove_all(folder() / "model");
  save_tiny_language_model(path("model"), nn::LanguageModelLayout::llama, DType::bf16);
  const Json kept = document(arguments);
  EXPECT_EQ(kept.at("cache_dtype"), "bf16");
  EXPECT_EQ(kept.at("model").at("dtype"), "f32");
  EXPECT_EQ(kept.at("texts").at(0).at("tokens").size(), 8u);
  arguments.back() = "f32";
  EXPECT_EQ(document(arguments).at("cache_dtype"), "f32");
  refused(2, {"--prompt", "ab", "--cache-dtype", "f16"}, "expected f32 or model, got 'f16'");
  refused(2, {"--prompt", "ab", "--dtype", "bf16", "--cache-dtype", "f32"},
          "--dtype bf16 keeps keys and values in bf16");
}

TEST_F(GenerateTest, TellsWhetherItIsInvariant) {
  const std::vector<std::string> arguments = {"--prompt", "ab", "--length", "4"};
  EXPECT_EQ(document(arguments).at("invariant"), false);
  EXPECT_EQ(document({"--prompt", "ab", "--length", "4", "--invariant"}).at("invariant"), true);
}

// Mistral is Llama with a window, here wider than the context.
TEST_F(GenerateTest, ContinuesByFamiliesThatAreNotMadeOfLayers) {
  std::filesystem::remove_all(folder() / "model");
  save_tiny_language_model(path("model"), nn::LanguageModelLayout::llama);
  const std::vector<std::string> arguments = {"--prompt", "ab", "--length", "8"};
  const Json llama = document(arguments);
  EXPECT_EQ(llama.at("model").at("layout"), "llama");
  Json config = Json::parse(read("model/config.json"));
  config["model_type"] = "mistral";
  config["architectures"] = {"MistralForCausalLM"};
  write("model/config.json", config.dump());
  const Json mistral = document(arguments);
  EXPECT_EQ(mistral.at("model").at("layout"), "mistral");
  EXPECT_EQ(mistral.at("texts"), llama.at("texts"));
  const Json in_bf16 = document({"--prompt", "ab", "--length", "8", "--dtype", "bf16"});
  EXPECT_EQ(in_bf16.at("model").at("dtype"), "bf16");
  EXPECT_EQ(in_bf16.at("texts").at(0).at("tokens").size(), 8u);
}

TEST_F(GenerateTest, WritesWhatEachTokenLookedAt) {
  const std::vector<std::string> arguments = {"--prompt", "abc", "--length", "4", "--attention"};
  const auto with = [&](const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = arguments;
    all.push_back(file);
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = generate(all);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_TRUE(contains(ran.err, "wrote " + file)) << ran.err;
  };
  with("looked.npy");
  const Tensor weights = load("looked.npy");
  ASSERT_EQ(std::vector<int64_t>(weights.dims().begin(), weights.dims().end()),
            (std::vector<int64_t>{4, 6}));
  const auto values = weights.values<float>();
  for (size_t row = 0; row < 4; ++row) {
    float sum = 0;
    for (size_t column = 0; column < 6; ++column) {
      const float weight = values[row * 6 + column];
      EXPECT_EQ(weight > 0, column < row + 3) << row << " " << column;
      sum += weight;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  with("looked.svg", {"--attention-layer", "0", "--attention-head", "1"});
  EXPECT_TRUE(contains(read("looked.svg"), "Attention weights of layer 0, head 1"));
  EXPECT_TRUE(contains(read("looked.svg"), ">c<")) << "tokens as labels";
  with("looked.png");
  with("looked.npy", {"--force"});
  EXPECT_EQ(read("looked.png").substr(1, 3), "PNG");
}

TEST_F(GenerateTest, SaysWhatAFolderLacks) {
  const auto fails = [&](const std::string& folder, const std::string& message) {
    const Ran ran = rapt({"generate", folder, "--prompt", "a"});
    EXPECT_EQ(ran.exit, 4) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(contains(ran.err, message)) << ran.err;
  };
  write("file", "text");
  fails("nowhere", "nowhere: no such folder");
  fails("file", "file: is no folder");
  std::filesystem::remove(folder() / "model" / "model.safetensors");
  fails("model", "model.safetensors");
  std::filesystem::remove(folder() / "model" / "tokenizer.json");
  fails("model", "model: has no tokenizer.json");
}

TEST_F(GenerateTest, NamesTheCharactersThatTheTokenizerLacks) {
  refused(3, {"--prompt", "axbüx z"}, "--prompt: the tokenizer lacks 'x', 'ü', 'z'");
  write("latin1.txt", "ab\xE9");
  refused(3, {"--prompt-file", "latin1.txt"}, "expected UTF-8");
}

// Its tokens are not the bytes of a text: "##b" would be printed as it is.
TEST_F(GenerateTest, RefusesWordPiece) {
  write("model/tokenizer.json",
        R"({"normalizer": null, "pre_tokenizer": {"type": "BertPreTokenizer"},
      "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
      "model": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 9, "vocab": {"a": 0, "##b": 1}}})");
  refused(2, {"--prompt", "ab"}, "got WordPiece");
}

TEST_F(GenerateTest, RefusesPromptsBeyondTheContext) {
  refused(3, {"--prompt", std::string(25, 'a')}, "prompt: 25 tokens; the model has 24 positions");
}

TEST_F(GenerateTest, RefusesWhatCannotBeMeant) {
  const auto usage = [&](const std::vector<std::string>& more, const std::string& message) {
    std::vector<std::string> arguments = {"--prompt", "a"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    refused(2, arguments, message);
  };
  usage({"--length", "0"}, "--length: expected 1 to 1000000, got 0");
  usage({"--length", "x"}, "--length: expected a whole number");
  usage({"--num", "0"}, "--num: expected 1 to 1024");
  usage({"--temperature", "-1"}, "--temperature: expected 0 or more");
  usage({"--top-k", "0"}, "--top-k: expected 1 or more");
  usage({"--top-p", "0"}, "--top-p: expected more than 0, at most 1");
  usage({"--min-p", "2"}, "--min-p: expected 0 to 1");
  usage({"--seed", "-1"}, "--seed: expected 0 or more");
  usage({"--dtype", "f64"}, "--dtype: expected f32 or bf16");
  usage({"--when-full", "go"}, "--when-full: expected stop or slide");
  usage({"--prompt-file", "f"}, "--prompt and --prompt-file");
  usage({"--attention-head", "1"}, "need --attention");
  usage({"--attention", "-"}, "standard output has the text");
  usage({"--attention", "f.txt"}, "--attention: the format follows the ending");
  usage({"--attention", "f.npy", "--num", "2"}, "leave out --num");
  usage({"--attention", "f.npy", "--length", "5000"}, "at most 4096");
  usage({"--attention", "f.npy", "--attention-layer", "2"}, "the model has layers 0 to 1, got 2");
  usage({"--attention", "f.npy", "--attention-head", "2"}, "the model has heads 0 to 1, got 2");
  usage({"--temprature", "1"}, "did you mean '--temperature'?");
  refused(2, {"--prompt", ""}, "--prompt: expected a value");
  EXPECT_EQ(rapt({"generate"}).exit, 2);
  EXPECT_FALSE(std::filesystem::exists(folder() / "f.npy"));
}

// Keys and values of 134 TB beside 2 MB of weights.
TEST_F(GenerateTest, TellsThatACacheDoesNotFitTheMemory) {
  const nn::LanguageModel model = nn::make_language_model({.layout = nn::LanguageModelLayout::llama,
                                                           .vocabulary = 8,
                                                           .context = 1 << 30,
                                                           .layers = 2,
                                                           .heads = 64,
                                                           .features = 8,
                                                           .head_dim = 128});
  checkpoint::save_model(path("model"), model, Overwrite::yes);
  refused(5, {"--prompt", "ab", "--num", "1024", "--length", "1000000"},
          "grow with the prompt, --length and --num");
}

TEST_F(GenerateTest, CtrlCEndsTheText) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const Ran ran = generate({"--prompt", "ab", "--length", "1000000", "--when-full", "slide"},
                           {.watch = [&](int child, const std::string&) {
                             // Long after the program has set its signal handler.
                             if (Clock::now() - start < std::chrono::seconds(1)) return false;
                             kill(child, SIGINT);
                             return true;
                           }});
  EXPECT_EQ(ran.exit, 130) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "rapt generate: interrupted")) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("ab")) << ran.out.substr(0, 40);
}

}  // namespace
}  // namespace rapt::cli_test
