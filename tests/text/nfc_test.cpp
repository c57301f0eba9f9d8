// Normal form C by hand, and before byte-level BPE. The package tokenizers judges every character
// and drawn strings (tests/peers/tokenizers_test.py).
#include "text/normal_form/nfc.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

std::string nfc(const std::string& text) { return text::NfcText(text).text(); }

TEST(Nfc, MarksAreComposedInTheOrderOfTheirClasses) {
  EXPECT_EQ(nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(nfc("a\u0301\u0323"), "\u1ea1\u0301");  // below comes before above
  EXPECT_EQ(nfc("a\u0323\u0301"), "\u1ea1\u0301");
  EXPECT_EQ(nfc("a\u0301\u0301"), "\u00e1\u0301");  // blocked by a mark of its class
  EXPECT_EQ(nfc("\u0301e"), "\u0301e");
  EXPECT_EQ(nfc("\u212b\u0958"), "\u00c5\u0915\u093c");  // a singleton, and one that is excluded
  EXPECT_EQ(nfc("\u1100\u1161\u11a8 \uac00\u11a8"), "\uac01 \uac01");
  EXPECT_EQ(nfc("xe\u0301y"), "x\u00e9y");
  EXPECT_EQ(nfc(""), "");
}

TEST(Nfc, TextsThatNeedNothingAreTold) {
  EXPECT_TRUE(text::is_surely_nfc("na\u00efve \u4e2d\u6587 \uac00 \U0001f600"));
  EXPECT_FALSE(text::is_surely_nfc("e\u0301"));
  EXPECT_FALSE(text::is_surely_nfc("\u0958"));
}

TEST(Nfc, PlacesAreThoseOfTheFirstCharacter) {
  const text::NfcText composed("xe\u0301y\u0958");
  EXPECT_EQ(composed.text(), "x\u00e9y\u0915\u093c");
  EXPECT_EQ(composed.place(0), (text::ByteSpan{0, 1}));
  EXPECT_EQ(composed.place(1), (text::ByteSpan{1, 2}));  // of "e" alone
  EXPECT_EQ(composed.place(2), (text::ByteSpan{1, 2}));
  EXPECT_EQ(composed.place(3), (text::ByteSpan{4, 5}));
  EXPECT_EQ(composed.place(4), (text::ByteSpan{5, 8}));
  EXPECT_EQ(composed.place(7), (text::ByteSpan{5, 8}));  // what U+0958 has become, too
  const text::NfcText added("\u212b\u0323");  // A with a dot, and a ring that is added behind both
  EXPECT_EQ(added.text(), "\u1ea0\u030a");
  EXPECT_EQ(added.place(0), (text::ByteSpan{0, 3}));
  EXPECT_EQ(added.place(3), (text::ByteSpan{3, 5}));
  const text::NfcText exchanged("q\u0301\u0323");
  EXPECT_EQ(exchanged.text(), "q\u0323\u0301");
  EXPECT_EQ(exchanged.place(1), (text::ByteSpan{1, 3}));
  EXPECT_EQ(exchanged.place(3), (text::ByteSpan{3, 5}));
}

TEST(Nfc, ALongRunOfMarksIsSorted) {
  std::string text = "a", sorted = "\u1ea1";
  for (int i = 0; i < 100'000; ++i) text += "\u0301\u0323";
  for (int i = 1; i < 100'000; ++i) sorted += "\u0323";
  for (int i = 0; i < 100'000; ++i) sorted += "\u0301";
  EXPECT_EQ(nfc(text), sorted);
}

TEST(Nfc, BeforeByteLevelBpe) {
  Json json = Json::parse(text::tokenizer_json(text::learn_byte_level_bpe("\u00e9\u00e9", 257)));
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] = {{{"id", 257},
                           {"content", "<e>"},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}}};
  const auto read = [](const Json& file) { return text::parse_tokenizer(file.dump(), "t.json"); };
  const text::Tokenizer tokenizer = read(json);
  const text::Encoding encoding = encode_texts(tokenizer, "\u00e9<e>e\u0301e\u0301!");
  EXPECT_EQ(encoding.ids, (std::vector<int64_t>{256, 257, 256, 256, 0}));
  EXPECT_EQ(encoding.spans,
            (std::vector<text::ByteSpan>{{0, 2}, {2, 5}, {5, 6}, {8, 9}, {11, 12}}));
  EXPECT_EQ(tokenizer.decode(encoding.ids), "\u00e9<e>\u00e9\u00e9!");
  expect_error(
      ErrorCode::unsupported, [&] { text::tokenizer_json(tokenizer); }, "not written");
  json["added_tokens"][0]["normalized"] = true;
  expect_error(
      ErrorCode::unsupported, [&] { read(json); }, "'<e>' that is normalized", "NFC");
}

}  // namespace
}  // namespace rapt::test
