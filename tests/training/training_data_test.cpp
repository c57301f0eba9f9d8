// Texts as tokens: where the held-out part begins, what is trained on, and which windows are read.
#include <gtest/gtest.h>

#include <algorithm>

#include "rapt/training/training_data.h"
#include "support/expect_error.h"
#include "training/token_windows.h"

namespace {

using namespace rapt;
using namespace rapt::training;

TEST(TrainingData, HoldsOutTheLastTenthOfEachText) {
  EXPECT_EQ(held_out_begin(std::string(100, 'a')), 90u);
  EXPECT_EQ(held_out_begin(""), 0u);
  EXPECT_EQ(held_out_begin("abc"), 3u);
  const std::string first = std::string(90, 'a') + std::string(10, 'b');
  const std::string second = std::string(18, 'c') + std::string(2, 'd');
  const NamedText texts[] = {{"first", first}, {"second", second}};
  const TrainingData data(texts, learn_tokenizer(texts, {}));
  ASSERT_EQ(data.training().size(), 2u);
  EXPECT_EQ(data.training()[0], Tokens(90, 0));
  EXPECT_EQ(data.held_out()[0], Tokens(10, 1));
  EXPECT_EQ(data.training()[1], Tokens(18, 2));
  EXPECT_EQ(data.held_out()[1], Tokens(2, 3));
}

TEST(TrainingData, CutsBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 35; ++i) text += "\xe2\x82\xac";  // the euro sign
  const size_t cut = held_out_begin(text);
  EXPECT_EQ(cut % 3, 0u);
  EXPECT_GE(cut, text.size() - text.size() / 10);
  const NamedText texts[] = {{"text", text}};
  const TrainingData data(texts, learn_tokenizer(texts, {}));
  EXPECT_EQ(data.training()[0].size() + data.held_out()[0].size(), 35u);
  EXPECT_EQ(data.bytes_of(0), 3);
}

TEST(TrainingData, LearnsBpeFromThePartForTrainingAlone) {
  const std::string text = std::string(90, 'a') + "xyxyxyxyxy";
  const NamedText texts[] = {{"text", text}};
  const text::Tokenizer tokenizer =
      learn_tokenizer(texts, {.kind = TokenizerKind::byte_level_bpe, .vocabulary = 300});
  for (int64_t id = 256; id < tokenizer.vocabulary(); ++id)
    EXPECT_EQ(tokenizer.token_bytes(id).find('x'), std::string_view::npos);
}

TEST(TrainingData, HashesTextsAndWhereTheyEnd) {
  const NamedText two[] = {{"a", "one"}, {"b", "two"}}, moved[] = {{"a", "onet"}, {"b", "wo"}},
                  renamed[] = {{"x", "one"}, {"y", "two"}},
                  swapped[] = {{"a", "two"}, {"b", "one"}};
  EXPECT_EQ(hash_texts(two), hash_texts(renamed));
  EXPECT_NE(hash_texts(two), hash_texts(moved));
  EXPECT_NE(hash_texts(two), hash_texts(swapped));
}

TEST(TrainingData, NamesTheTextThatCannotBeEncoded) {
  const NamedText known[] = {{"known.txt", "abcabc"}}, other[] = {{"other.txt", "abz"}};
  const text::Tokenizer tokenizer = learn_tokenizer(known, {});
  laws::expect_error(ErrorCode::argument, {"other.txt"}, [&] { TrainingData(other, tokenizer); });
}

TEST(TokenWindows, CoverEachTextAndSpanNone) {
  const Tokens texts[] = {{0, 1, 2, 3, 4}, {9}, {}, {5, 6, 7}};
  const TokenWindows windows(texts, 2);
  ASSERT_EQ(windows.count(), 4);
  const int64_t expected[4][4] = {{0, 1, 1, 2}, {1, 2, 2, 3}, {2, 3, 3, 4}, {5, 6, 6, 7}};
  for (int64_t i = 0; i < 4; ++i) {
    int64_t found[4];
    windows.read(i, found, found + 2);
    EXPECT_TRUE(std::equal(found, found + 4, expected[i])) << i;
  }
  EXPECT_EQ(windows.consecutive(10), (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(windows.consecutive(2), (std::vector<int64_t>{0, 2}));
}

TEST(TokenWindows, AreDrawnFromAllPlacesAlike) {
  const Tokens texts[] = {Tokens(14, 0)};
  const TokenWindows windows(texts, 4);
  ASSERT_EQ(windows.count(), 10);
  std::vector<int> drawn(10);
  for (int64_t i = 0; i < 10000; ++i)
    ++drawn[static_cast<size_t>(windows.drawn(1, WindowStream::training, i))];
  // 1,000 each; the standard deviation is 30.
  for (const int count : drawn) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(windows.drawn(1, WindowStream::training, 7),
            windows.drawn(1, WindowStream::training, 7));
}

TEST(TokenWindows, NeverReadTheHeldOutPart) {
  const std::string text = std::string(900, 'a') + std::string(100, '#');
  const NamedText texts[] = {{"text", text}};
  const TrainingData data(texts, learn_tokenizer(texts, {}));
  const int64_t held_out = data.tokenizer().encode("#")[0];
  const TokenWindows windows(data.training(), 8);
  int64_t read[16];
  for (int64_t i = 0; i < windows.count(); ++i) {
    windows.read(i, read, read + 8);
    EXPECT_EQ(std::count(read, read + 16, held_out), 0);
  }
}

}  // namespace
