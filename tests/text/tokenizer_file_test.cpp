// tokenizer.json: what is read, what is rejected and by which name.
#include "rapt/text/tokenizer_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using TokenIds = std::vector<int64_t>;
using Change = std::function<void(Json&)>;

// A file of BPE with one merge, "th".
Json bpe_file() {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("ththth", 257)));
  json["added_tokens"] = {{{"id", 257},
                           {"content", "<|endoftext|>"},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}}};
  return json;
}

Json character_file() { return Json::parse(text::tokenizer_json(text::learn_characters("ab"))); }

text::Tokenizer tokenizer_in(const Json& json) {
  return text::parse_tokenizer(json.dump(), "t.json");
}

// Changes a file and expects that it is rejected with these parts in the message.
template <class... Parts>
void expect_rejected(ErrorCode code, Json json, const Change& change, const Parts&... parts) {
  change(json);
  expect_error(
      code, [&] { tokenizer_in(json); }, "t.json: ", parts...);
}

TEST(TokenizerFile, AddedTokensAreFoundFirst) {
  const text::Tokenizer tokenizer = tokenizer_in(bpe_file());
  EXPECT_EQ(tokenizer.vocabulary(), 258);
  EXPECT_EQ(tokenizer.added_token("<|endoftext|>"), 257);
  EXPECT_EQ(tokenizer.encode("th<|endoftext|>th<|end"),
            (TokenIds{256, 257, 256, 27, 91, 68, 77, 67}));
  EXPECT_EQ(tokenizer.decode(TokenIds{256, 257}), "th<|endoftext|>");
}

TEST(TokenizerFile, OfAddedTokensTheLongestAtTheFirstPlaceCounts) {
  Json json = bpe_file();
  json["added_tokens"].push_back(json["added_tokens"][0]);
  json["added_tokens"][1].update({{"id", 258}, {"content", "<|end"}});
  json["added_tokens"].push_back(json["added_tokens"][0]);
  json["added_tokens"][2].update({{"id", 64}, {"content", "a"}});  // of the vocabulary, too
  const text::Tokenizer tokenizer = tokenizer_in(json);
  EXPECT_EQ(tokenizer.encode("<|end<|endoftext|>a"), (TokenIds{258, 257, 64}));
  EXPECT_EQ(Json::parse(text::tokenizer_json(tokenizer)), json);
}

TEST(TokenizerFile, MergesMayBeTextsAndAnEarlyFileHasNoType) {
  Json json = bpe_file();
  json["model"]["merges"] = {"t h"};
  json["model"].erase("type");
  EXPECT_EQ(tokenizer_in(json).encode("th"), (TokenIds{256}));
}

// The pre_tokenizer of Llama 3.
Json split_and_bytes() {
  const char* const expression =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  Json sequence = {{"type", "Sequence"}};
  sequence["pretokenizers"] = Json::array();
  sequence["pretokenizers"].push_back({{"type", "Split"},
                                       {"pattern", {{"Regex", expression}}},
                                       {"behavior", "Isolated"},
                                       {"invert", false}});
  sequence["pretokenizers"].push_back({{"type", "ByteLevel"},
                                       {"add_prefix_space", false},
                                       {"trim_offsets", true},
                                       {"use_regex", false}});
  return sequence;
}

TEST(TokenizerFile, ASplitByAKnownExpressionStandsBeforeBytes) {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("1212 1212", 258)));
  EXPECT_EQ(json["model"]["merges"].size(), 2u);  // 12 and 1212
  EXPECT_EQ(tokenizer_in(json).encode("1212"), (TokenIds{257}));
  json["pre_tokenizer"] = split_and_bytes();
  EXPECT_EQ(tokenizer_in(json).encode("1212"), (TokenIds{256, 16, 17}));  // 121 and 2
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = ".";
  expect_error(
      ErrorCode::unsupported, [&] { tokenizer_in(json); }, "t.json: ", "pre_tokenizer Split by");
  json["pre_tokenizer"]["pretokenizers"].erase(0);
  expect_error(
      ErrorCode::unsupported, [&] { tokenizer_in(json); }, "t.json: ", "other than of Split");
}

TEST(TokenizerFile, PiecesThatAreTokensNeedNoMerge) {
  Json json = bpe_file();
  json["model"]["merges"] = Json::array();
  EXPECT_EQ(tokenizer_in(json).encode("th"), (TokenIds{83, 71}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(tokenizer_in(json).encode("th th"), (TokenIds{256, 220, 83, 71}));
  expect_error(
      ErrorCode::unsupported, [&] { text::tokenizer_json(tokenizer_in(json)); }, "not written");
}

TEST(TokenizerFile, BothKindsComeBackFromAFolder) {
  const std::string sample = "the cat saw the cat\n";
  for (const text::Tokenizer& tokenizer :
       {text::learn_characters(sample), text::learn_byte_level_bpe(sample, 262),
        tokenizer_in(bpe_file())}) {
    const ScratchFolder folder;
    text::write_tokenizer(tokenizer, folder.path(), Overwrite::no);
    const text::Tokenizer again = text::read_tokenizer(folder.path());
    EXPECT_EQ(text::tokenizer_json(again), text::tokenizer_json(tokenizer));
    EXPECT_EQ(again.encode(sample.substr(4)), tokenizer.encode(sample.substr(4)));
    const Json config = Json::parse(file_bytes(folder / "tokenizer_config.json"));
    EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
    expect_error(
        ErrorCode::io, [&] { text::write_tokenizer(tokenizer, folder.path(), Overwrite::no); },
        "exists");
  }
  expect_error(
      ErrorCode::io, [] { text::read_tokenizer("/no/such/folder"); }, "tokenizer.json");
}

TEST(TokenizerFile, WhatIsNotComputedIsRejectedByName) {
  const auto expect_unsupported = [](const Change& change, const auto&... parts) {
    expect_rejected(ErrorCode::unsupported, bpe_file(), change, parts...);
  };
  expect_unsupported([](Json& j) { j["normalizer"] = {{"type", "NFKC"}}; }, "normalizer 'NFKC'");
  expect_unsupported([](Json& j) { j["pre_tokenizer"]["type"] = "Metaspace"; },
                     "model 'BPE' with pre_tokenizer 'Metaspace'");
  expect_unsupported([](Json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; },
                     "add_prefix_space 'true'");
  expect_unsupported([](Json& j) { j["pre_tokenizer"]["use_regex"] = false; }, "use_regex 'false'");
  expect_unsupported([](Json& j) { j["model"]["type"] = "Unigram"; }, "model 'Unigram'");
  expect_unsupported([](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout '0.1'");
  expect_unsupported([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "'</w>'");
  expect_unsupported([](Json& j) { j["model"]["new"] = 1; }, "member 'new' of model BPE");
  expect_unsupported([](Json& j) { j["decoder"]["type"] = "Metaspace"; }, "decoder 'Metaspace'");
  expect_unsupported(
      [](Json& j) {
        j["post_processor"] = {{"type", "Other"}};
      },
      "post_processor 'Other'");
  expect_unsupported([](Json& j) { j["version"] = "2.0"; }, "version '2.0'");
  expect_unsupported([](Json& j) { j["added_tokens"][0]["single_word"] = true; },
                     "added token with single_word 'true'");
  expect_unsupported(
      [](Json& j) {
        j["model"]["vocab"]["\u4e2d"] = 257;  // stands for no byte
        j["added_tokens"][0]["id"] = 258;
      },
      "token '\\xe4\\xb8\\xad' in a model of this kind");
}

TEST(TokenizerFile, DamagedFilesAreRejected) {
  const auto expect_malformed = [](const Change& change, const auto&... parts) {
    expect_rejected(ErrorCode::format, bpe_file(), change, parts...);
  };
  expect_malformed([](Json& j) { j["model"]["vocab"].erase("!"); }, "0 to 256 - 1, each once");
  expect_malformed([](Json& j) { j["model"]["vocab"]["th"] = -1; }, "token 'th'", "got '-1'");
  expect_malformed([](Json& j) { j["model"]["vocab"]["th"] = 1e99; }, "token 'th'");
  expect_malformed([](Json& j) { j["model"]["vocab"]["th"] = 7; }, "have the same id '7'");
  expect_malformed([](Json& j) { j["model"]["vocab"] = Json::array(); }, "vocab: expected");
  expect_malformed([](Json& j) { j["model"]["merges"][0] = "th"; }, "merge 0", "two tokens");
  expect_malformed([](Json& j) { j["model"]["merges"][0] = "t h e"; }, "merge 0", "two tokens");
  expect_malformed([](Json& j) { j["model"]["merges"][0] = {"t", "h", "e"}; }, "merge 0");
  expect_malformed([](Json& j) { j["model"]["merges"][0] = {"t", "e"}; }, "merge 0", "got 'te'");
  expect_malformed([](Json& j) { j["model"]["merges"] = 3; }, "merges: expected an array");
  expect_malformed([](Json& j) { j["model"].erase("merges"); }, "'merges'");
  expect_malformed([](Json& j) { j.erase("model"); }, "'model'");
  expect_malformed([](Json& j) { j["model"] = 1; }, "model: expected an object");
  expect_malformed([](Json& j) { j["decoder"] = nullptr; }, "decoder: expected an object");
  expect_malformed([](Json& j) { j["added_tokens"] = 1; }, "added_tokens: expected an array");
  expect_malformed([](Json& j) { j["added_tokens"][0]["id"] = 300; }, "expected the id 257");
  expect_malformed([](Json& j) { j["added_tokens"][0]["content"] = ""; }, "'content'");
  expect_malformed([](Json& j) { j["added_tokens"][0].erase("special"); }, "'special'");
  // The second is expected to have the next id, which is 258; so make it one of the vocabulary.
  expect_malformed(
      [](Json& j) {
        j["added_tokens"][0].update({{"id", 0}, {"content", "!"}});
        j["added_tokens"].push_back(j["added_tokens"][0]);
      },
      "'!' occurs twice");
}

TEST(TokenizerFile, ByteTokensAreAllThere) {
  Json json = bpe_file();
  json["model"]["vocab"].erase("\u0143");  // byte 173
  json["model"]["vocab"]["th"] = 255;
  json["added_tokens"] = Json::array();
  expect_error(
      ErrorCode::format, [&] { tokenizer_in(json); }, "byte 173");
}

TEST(TokenizerFile, CharactersAreWordLevelBetweenSplitAndFuse) {
  EXPECT_EQ(tokenizer_in(character_file()).encode("ba"), (TokenIds{1, 0}));
  const auto expect_unsupported = [](const Change& change, const auto&... parts) {
    expect_rejected(ErrorCode::unsupported, character_file(), change, parts...);
  };
  expect_unsupported([](Json& j) { j["pre_tokenizer"]["pattern"]["String"] = " "; }, "pattern");
  expect_unsupported([](Json& j) { j["pre_tokenizer"]["behavior"] = "Removed"; }, "'Removed'");
  expect_unsupported([](Json& j) { j["decoder"]["type"] = "ByteLevel"; }, "decoder 'ByteLevel'");
  expect_unsupported([](Json& j) { j["model"]["unk_token"] = "a"; }, "unknown characters, 'a'");
  expect_unsupported([](Json& j) { j["model"]["vocab"]["ab"] = 2; }, "token 'ab'");
}

TEST(TokenizerFile, WhatIsNoJsonIsRejected) {
  for (const std::string& json :
       {std::string(), std::string("{"), std::string("{\"a\": \xff}"), std::string("{}\0{}", 5),
        std::string("[1e999]"), std::string(100'000, '[')})
    expect_error(
        ErrorCode::format, [&] { text::parse_tokenizer(json, "t.json"); }, "t.json");
  expect_error(
      ErrorCode::format, [] { text::parse_tokenizer("[]", "t.json"); }, "an object");
  expect_error(
      ErrorCode::format, [] { text::parse_tokenizer("{}", "t.json"); }, "'pre_tokenizer'");
}

}  // namespace
}  // namespace rapt::test
