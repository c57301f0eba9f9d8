// Tokenizers learned from a text: ids, bytes, errors.
#include "rapt/text/tokenizer.h"

#include <gtest/gtest.h>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"

namespace rapt::test {
namespace {

using Ids = std::vector<int64_t>;

TEST(Characters, TokensAreSortedByCodePoint) {
  const text::Tokenizer tokenizer = text::learn_characters("b\u00e9a\U0001f600 ba\n");
  EXPECT_EQ(tokenizer.vocabulary(), 6);
  EXPECT_EQ(tokenizer.encode("\n ab\u00e9\U0001f600a"), (Ids{0, 1, 2, 3, 4, 5, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{5, 4, 0}), "\U0001f600\u00e9\n");
  EXPECT_EQ(tokenizer.token_bytes(4), "\u00e9");
  EXPECT_EQ(tokenizer.added_token("a"), std::nullopt);
}

TEST(Characters, AnUnknownCharacterIsNamedWithItsOffset) {
  const text::Tokenizer tokenizer = text::learn_characters("ab\u00e9");
  Ids ids = {7};
  expect_error(
      ErrorCode::argument, [&] { tokenizer.encode("a\u00e9\u00e8b", ids); }, "vocabulary of 3",
      "U+00E8 '\u00e8'", "byte 3");
  EXPECT_EQ(ids, (Ids{7}));
  expect_error(
      ErrorCode::argument, [&] { (void)tokenizer.encode("ab\n"); }, "U+000A '\\x0a'");
}

TEST(Characters, AnEmptyTextHasNone) {
  expect_error(
      ErrorCode::argument, [] { text::learn_characters(""); }, "at least one character");
}

TEST(ByteLevelBpe, TheFirstTokensAreBytes) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("", 300);
  EXPECT_EQ(tokenizer.vocabulary(), 256);                        // there is nothing to merge
  EXPECT_EQ(tokenizer.encode("!a \n"), (Ids{0, 64, 220, 198}));  // as in GPT-2's vocabulary
  EXPECT_EQ(tokenizer.token_bytes(220), " ");
}

TEST(ByteLevelBpe, TheMostFrequentPairIsMergedFirst) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("abc abc ab", 259);
  EXPECT_EQ(tokenizer.token_bytes(256), "ab");  // three times; "bc" and " a" twice
  EXPECT_EQ(tokenizer.token_bytes(257),
            " ab");  // twice, as "abc", and the blank has the smaller id
  EXPECT_EQ(tokenizer.token_bytes(258), "abc");  // once, as " abc"
  EXPECT_EQ(tokenizer.encode("abcab"), (Ids{258, 256}));
}

TEST(ByteLevelBpe, OverlappingPairsMergeFromTheLeft) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("aaaa", 257);
  EXPECT_EQ(tokenizer.encode("aaaaa"), (Ids{256, 256, 64}));
}

TEST(ByteLevelBpe, AllBytesOfAnyTextComeBack) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("the cat the cats", 280);
  const std::string any("\0\x7f \u00e9\u732b\U0001f600\n", 13);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(any)), any);
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(ByteLevelBpe, LongPiecesTakeLittleTime) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("aaaaaaaaaaaaaaaa", 260);
  const std::string run(300'000, 'a');  // one piece: quadratic time would be minutes
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(run)), run);
}

TEST(ByteLevelBpe, VocabulariesHoldTheBytes) {
  for (const int64_t vocabulary : {int64_t{-1}, int64_t{255}, int64_t{1} << 31})
    expect_error(
        ErrorCode::argument, [&] { text::learn_byte_level_bpe("a", vocabulary); }, "expected 256",
        "got " + std::to_string(vocabulary));
}

TEST(Tokenizer, TextThatIsNoUtf8IsRejectedWithItsOffset) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("", 256);
  Ids ids = {1, 2};
  // A wrong byte, an overlong form, a surrogate, beyond U+10FFFF, and a character that is cut.
  for (const char* wrong : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8"})
    expect_error(
        ErrorCode::argument, [&] { tokenizer.encode("a\u00e9" + std::string(wrong), ids); },
        "expected UTF-8", "at byte 3");
  EXPECT_EQ(ids, (Ids{1, 2}));
  expect_error(
      ErrorCode::argument, [] { text::learn_characters("a\xff"); }, "at byte 1");
  expect_error(
      ErrorCode::argument, [] { text::learn_byte_level_bpe("\x80", 256); }, "at byte 0");
}

TEST(Tokenizer, IdsOutOfRangeAreRejected) {
  const text::Tokenizer tokenizer = text::learn_characters("abc");
  for (const int64_t id : {int64_t{-1}, int64_t{3}, int64_t{1} << 40}) {
    expect_error(
        ErrorCode::argument,
        [&] {
          (void)tokenizer.decode(Ids{0, id});
        },
        "0 to 2", "got " + std::to_string(id));
    expect_error(
        ErrorCode::argument, [&] { (void)tokenizer.token_bytes(id); }, "0 to 2");
  }
}

}  // namespace
}  // namespace rapt::test
