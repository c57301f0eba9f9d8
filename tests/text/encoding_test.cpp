// WordPiece, templates, pairs, spans and cut texts, by hand. The package tokenizers judges the same
// on drawn strings (tests/peers/tokenizers_test.py).
#include "rapt/text/encoding.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"
#include "rapt/text/stream_decoder.h"
#include "rapt/text/tokenizer_file.h"
#include "text/wordpiece/word_piece.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int64_t>;
using Spans = std::vector<text::ByteSpan>;

Json added(int64_t id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json part(const char* kind, const char* id, int type) {
  return {{kind, {{"id", id}, {"type_id", type}}}};
}

// [UNK] 0, [CLS] 1, [SEP] 2, cat 3, ##s 4, s 5, sat 6, "." 7, e 8, U+4E2D 9, ##at 10
Json word_piece_file() {
  Json json = {{"added_tokens", {added(0, "[UNK]"), added(1, "[CLS]"), added(2, "[SEP]")}}};
  json["truncation"] = {{"max_length", 3}};
  json["padding"] = {{"pad_id", 0}};
  json["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", true}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  const Json begin = part("SpecialToken", "[CLS]", 0), end = part("SpecialToken", "[SEP]", 0);
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {begin, part("Sequence", "A", 0), end}},
                            {"pair",
                             {begin, part("Sequence", "A", 0), end, part("Sequence", "B", 1),
                              part("SpecialToken", "[SEP]", 1)}},
                            {"special_tokens",
                             {{"[CLS]", {{"id", "[CLS]"}, {"ids", {1}}, {"tokens", {"[CLS]"}}}},
                              {"[SEP]", {{"id", "[SEP]"}, {"ids", {2}}, {"tokens", {"[SEP]"}}}}}}};
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  Json vocab;
  int64_t id = 0;
  for (const char* token :
       {"[UNK]", "[CLS]", "[SEP]", "cat", "##s", "s", "sat", ".", "e", "\u4e2d", "##at"})
    vocab[token] = id++;
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 6},
                   {"vocab", vocab}};
  return json;
}

text::Tokenizer parsed(const Json& json) { return text::parse_tokenizer(json.dump(), "t.json"); }

TEST(WordPiece, TheLongestTokensFromTheBeginningOfEachWord) {
  const text::Tokenizer tokenizer = parsed(word_piece_file());
  EXPECT_EQ(tokenizer.encode("cats sat."), (Ids{3, 4, 6, 7}));
  EXPECT_EQ(tokenizer.encode("sats ss"), (Ids{6, 4, 5, 4}));
  EXPECT_EQ(tokenizer.encode("catx cat"), (Ids{0, 3}));  // no part of the word counts
  EXPECT_EQ(tokenizer.encode("satsss satssss"), (Ids{6, 4, 4, 4, 0}));  // 6 and 7 characters
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(WordPiece, TextsAreNormalised) {
  const text::Tokenizer tokenizer = parsed(word_piece_file());
  EXPECT_EQ(tokenizer.encode("CAT\u0301S\t\u00c9"), (Ids{3, 4, 8}));  // accents, capitals, tabs
  EXPECT_EQ(tokenizer.encode("cat\u4e2dcat"), (Ids{3, 9, 3}));
  EXPECT_EQ(tokenizer.encode("ca\u200bt\ufffd"), Ids{3});  // controls are dropped
  EXPECT_EQ(tokenizer.encode("cat\u3000sat\u00a0s"), (Ids{3, 6, 5}));
}

TEST(WordPiece, WithoutLowerCaseAccentsStay) {
  Json json = word_piece_file();
  json["normalizer"]["lowercase"] = false;
  EXPECT_EQ(parsed(json).encode("CAT cat \u00e9"), (Ids{0, 3, 0}));
  json["normalizer"]["strip_accents"] = true;
  EXPECT_EQ(parsed(json).encode("CAT cat \u00e9"), (Ids{0, 3, 8}));
}

// The file with other tokens behind its own, and words of any length.
Json word_piece_file_with(const std::vector<std::string>& tokens) {
  Json json = word_piece_file();
  for (const std::string& token : tokens)
    json["model"]["vocab"][token] = json["model"]["vocab"].size();
  json["model"]["max_input_chars_per_word"] = 1'000'000;
  return json;
}

TEST(WordPiece, MarksAreSortedAndTheirPlacesAreNot) {
  // Canonical classes 226, 224 and 216: tokens 13, 12 and 11.
  const text::Tokenizer tokenizer =
      parsed(word_piece_file_with({"\U0001d165", "##\u302e", "##\U0001d16d", "##\U0001d165"}));
  const std::string marks = "\U0001d16d\u302e\U0001d165";
  const text::Encoding sorted = encode_texts(tokenizer, marks, {}, {.special_tokens = false});
  EXPECT_EQ(sorted.ids, (Ids{11, 12, 13}));
  EXPECT_EQ(sorted.spans, (Spans{{0, 4}, {4, 7}, {7, 11}}));
  const text::Encoding unknown = encode_texts(tokenizer, marks + "x");
  EXPECT_EQ(unknown.spans[1], (text::ByteSpan{0, 12}));
  EXPECT_EQ(tokenizer.encode("s\U0001d16d\u302es"), (Ids{5, 12, 13, 4}));
}

TEST(WordPiece, ALongRunOfMarksIsSorted) {
  const text::Tokenizer tokenizer =
      parsed(word_piece_file_with({"\U0001d165", "##\u302e", "##\U0001d165"}));
  constexpr size_t kPairs = 50'000;  // insertion one by one would take minutes
  std::string text;
  for (size_t i = 0; i < kPairs; ++i) text += "\u302e\U0001d165";
  Ids expected(2 * kPairs, 13);
  expected[0] = 11;
  std::fill(expected.begin() + kPairs, expected.end(), 12);
  EXPECT_EQ(tokenizer.encode(text), expected);
}

// A text may have a part between any two added tokens: if each were searched up to the end of the
// text, the work would grow with the square of its length.
TEST(WordPiece, WhatFollowsAPartIsNotRead) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  std::memset(pages, 'a', page);
  const text::WordPieceModel model({"[UNK]", "a"}, {.steps = {}, .unknown = 0});
  Ids ids;
  text::WordPieceModel::Encoder(model, ids, nullptr)
      .encode({static_cast<const char*>(pages), 2 * page}, page - 2, page);
  EXPECT_EQ(ids, Ids{0});
  munmap(pages, 2 * page);
}

TEST(WordPiece, EarlyFilesHaveNoType) {
  Json json = word_piece_file();
  json["model"].erase("type");
  EXPECT_EQ(parsed(json).encode("cats sat."), (Ids{3, 4, 6, 7}));
}

TEST(WordPiece, DecodingJoinsWordsAndPunctuation) {
  const text::Tokenizer tokenizer = parsed(word_piece_file());
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 6, 7}), "cats sat.");
  EXPECT_EQ(tokenizer.decode(Ids{1, 3, 2}), "[CLS] cat [SEP]");
  expect_error(
      ErrorCode::unsupported, [&] { text::StreamDecoder decoder(tokenizer); }, "WordPiece");
}

TEST(Encoding, TheTemplateStandsAroundTexts) {
  const text::Tokenizer tokenizer = parsed(word_piece_file());
  const text::Encoding one = encode_texts(tokenizer, "\u00c9 cats");
  EXPECT_EQ(one.ids, (Ids{1, 8, 3, 4, 2}));
  EXPECT_EQ(one.types, (Ids{0, 0, 0, 0, 0}));
  EXPECT_EQ(one.spans, (Spans{{0, 0}, {0, 2}, {3, 6}, {6, 7}, {0, 0}}));
  EXPECT_EQ(one.texts, (std::vector<int>{-1, 0, 0, 0, -1}));
  EXPECT_FALSE(one.cut);
  const text::Encoding pair = encode_texts(tokenizer, "cat", "sat.");
  EXPECT_EQ(pair.ids, (Ids{1, 3, 2, 6, 7, 2}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(pair.spans, (Spans{{0, 0}, {0, 3}, {0, 0}, {0, 3}, {3, 4}, {0, 0}}));
  EXPECT_EQ(pair.texts, (std::vector<int>{-1, 0, -1, 1, 1, -1}));
  EXPECT_EQ(encode_texts(tokenizer, "cat", "sat", {.special_tokens = false}).ids, (Ids{3, 6}));
  EXPECT_EQ(encode_texts(tokenizer, "a[SEP]b").ids, (Ids{1, 0, 2, 0, 2}));
}

TEST(Encoding, TheLongerTextIsCutFirst) {
  const text::Tokenizer tokenizer = parsed(word_piece_file());
  const text::Encoding cut = encode_texts(tokenizer, "cat sat", "s s s s s", {.most_tokens = 7});
  EXPECT_EQ(cut.ids, (Ids{1, 3, 6, 2, 5, 5, 2}));
  EXPECT_TRUE(cut.cut);
  EXPECT_EQ(encode_texts(tokenizer, "cat cat cat", {}, {.most_tokens = 4}).ids, (Ids{1, 3, 3, 2}));
  EXPECT_FALSE(encode_texts(tokenizer, "cat cat", {}, {.most_tokens = 4}).cut);
  expect_error(
      ErrorCode::argument, [&] { encode_texts(tokenizer, "cat", {}, {.most_tokens = 1}); },
      "most_tokens", "2 special tokens");
}

TEST(Encoding, SpansOfBytesAreThoseOfCharactersWithoutBlanks) {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("", 256)));
  const auto spans = [&] { return encode_texts(parsed(json), " \u00e9").spans; };
  EXPECT_EQ(spans(), (Spans{{0, 1}, {1, 3}, {1, 3}}));
  json["post_processor"] = {{"type", "ByteLevel"},
                            {"add_prefix_space", false},
                            {"trim_offsets", true},
                            {"use_regex", true}};
  EXPECT_EQ(spans(), (Spans{{1, 1}, {1, 3}, {1, 3}}));
  EXPECT_EQ(Json::parse(text::tokenizer_json(parsed(json)))["post_processor"],
            json["post_processor"]);
}

// A single blank in front of a text may be one that the package added. Expected spans are those of
// tokenizers 0.23.3.
TEST(Encoding, ABlankInFrontOfATextCountsToItsFirstToken) {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("", 256)));
  json["post_processor"] = {{"type", "ByteLevel"},
                            {"add_prefix_space", true},
                            {"trim_offsets", true},
                            {"use_regex", true}};
  json["added_tokens"] = Json::array({added(256, "<m>")});
  json["added_tokens"][0]["lstrip"] = json["added_tokens"][0]["rstrip"] = true;
  const text::Tokenizer tokenizer = parsed(json);
  const auto spans = [&](const char* text) { return encode_texts(tokenizer, text).spans; };
  EXPECT_EQ(spans(" "), (Spans{{0, 0}}));
  EXPECT_EQ(spans("  !"), (Spans{{0, 0}, {2, 2}, {2, 3}}));
  EXPECT_EQ(spans("! "), (Spans{{0, 1}, {2, 2}}));
  EXPECT_EQ(spans(" <m> !"), (Spans{{0, 4}, {5, 6}}));
  EXPECT_EQ(spans("  <m>"), (Spans{{2, 5}}));
  EXPECT_EQ(spans("\u3000<m>"), (Spans{{0, 6}}));
  EXPECT_EQ(encode_texts(tokenizer, " ", " ").spans, (Spans{{0, 0}, {0, 0}}));
  EXPECT_EQ(Json::parse(text::tokenizer_json(tokenizer))["post_processor"], json["post_processor"]);
}

// Writing a part of it would lose tokens or types without a word.
TEST(Encoding, AnyTemplateIsReadButNotWritten) {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("", 256)));
  const Json a = part("Sequence", "A", 0), b = part("Sequence", "B", 1);
  const auto expect_refusal = [&](const Json& single, const Json& pair) {
    json["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", single},
                              {"pair", pair},
                              {"special_tokens", {{"x", {{"id", "x"}, {"ids", {1}}}}}}};
    expect_error(
        ErrorCode::unsupported, [&] { text::tokenizer_json(parsed(json)); }, "not written");
  };
  expect_refusal(Json::array({a}), {a, part("SpecialToken", "x", 0), b});
  expect_refusal(Json::array({part("Sequence", "A", 1)}), Json::array({a, b}));
  expect_refusal(Json::array({a, part("SpecialToken", "x", 0)}), Json::array({a, b}));
}

TEST(Encoding, ATokenMayTakeTheBlanksBesideIt) {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("", 256)));
  json["added_tokens"] = Json::array({added(256, "<mask>")});
  json["added_tokens"][0]["lstrip"] = true;
  EXPECT_EQ(parsed(json).encode("a <mask> b"), (Ids{64, 256, 220, 65}));
  json["added_tokens"][0]["rstrip"] = true;
  const text::Encoding both = encode_texts(parsed(json), "a \u3000<mask> b");
  EXPECT_EQ(both.ids, (Ids{64, 256, 65}));
  EXPECT_EQ(both.spans, (Spans{{0, 1}, {1, 12}, {12, 13}}));
}

TEST(Encoding, WhatIsMalformedIsRejectedByName) {
  const auto expect_format = [](const std::function<void(Json&)>& change, const char* part) {
    Json json = word_piece_file();
    change(json);
    expect_error(
        ErrorCode::format, [&] { parsed(json); }, "t.json: ", part);
  };
  expect_format([](Json& j) { j["post_processor"]["single"] = 1; }, "single: expected an array");
  expect_format([](Json& j) { j["post_processor"]["single"].erase(1); }, "the sequence A once");
  expect_format([](Json& j) { j["post_processor"]["pair"].erase(3); }, "A and B once");
  expect_format([](Json& j) { j["post_processor"]["special_tokens"].erase("[CLS]"); },
                "special_tokens: expected ids of '[CLS]'");
  expect_format([](Json& j) { j["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {11}; },
                "expected an id from 0 to 11 - 1, got '11'");
  expect_format(
      [](Json& j) {
        j["post_processor"]["special_tokens"]["[CLS]"]["ids"] = std::vector<int>(513, 1);
        j["post_processor"]["single"].push_back(part("SpecialToken", "[CLS]", 0));
      },
      "single: expected at most 1024 special tokens");
  expect_format([](Json& j) { j["model"]["unk_token"] = "no"; }, "unk_token");
  expect_format([](Json& j) { j["model"]["max_input_chars_per_word"] = -1; },
                "max_input_chars_per_word");
  const auto expect_unsupported = [](const std::function<void(Json&)>& change, const char* part) {
    Json json = word_piece_file();
    change(json);
    expect_error(
        ErrorCode::unsupported, [&] { parsed(json); }, "t.json: ", part);
  };
  expect_unsupported([](Json& j) { j["normalizer"]["type"] = "NFC"; }, "normalizer 'NFC'");
  expect_unsupported([](Json& j) { j["pre_tokenizer"]["type"] = "Whitespace"; }, "'Whitespace'");
  expect_unsupported(
      [](Json& j) {
        const Json one = j["post_processor"];
        j["post_processor"] = {{"type", "Sequence"}, {"processors", {one, one}}};
      },
      "two templates");
  expect_unsupported(
      [](Json& j) {
        const Json trim = {{"type", "ByteLevel"}, {"trim_offsets", true}};
        j["post_processor"] = {{"type", "Sequence"}, {"processors", {trim, trim}}};
      },
      "two with trim_offsets");
  expect_unsupported([](Json& j) { j["decoder"]["type"] = "Fuse"; }, "decoder 'Fuse'");
  expect_unsupported([](Json& j) { j["added_tokens"][0]["normalized"] = true; }, "'[UNK]'");
  expect_error(
      ErrorCode::unsupported, [] { text::tokenizer_json(parsed(word_piece_file())); },
      "read, but not written");
}

}  // namespace
}  // namespace rapt::test
