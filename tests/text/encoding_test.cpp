// WordPiece, templates, pairs, spans and cut texts, by hand. The package tokenizers judges the same
// on drawn strings (tests/peers/tokenizers_test.py).
#include "rapt/text/encoding.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

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

TEST(WordPiece, DecodingJoinsWordsAndPunctuation) {
  const text::Tokenizer tokenizer = parsed(word_piece_file());
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 6, 7}), "cats sat.");
  EXPECT_EQ(tokenizer.decode(Ids{1, 3, 2}), "[CLS] cat [SEP]");
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
  expect_unsupported([](Json& j) { j["decoder"]["type"] = "Fuse"; }, "decoder 'Fuse'");
  expect_unsupported([](Json& j) { j["added_tokens"][0]["normalized"] = true; }, "'[UNK]'");
  expect_error(
      ErrorCode::unsupported, [] { text::tokenizer_json(parsed(word_piece_file())); },
      "read, but not written");
}

}  // namespace
}  // namespace rapt::test
