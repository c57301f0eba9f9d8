// Only whole characters come out, whatever the tokens are.
#include "rapt/text/stream_decoder.h"

#include <gtest/gtest.h>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"

namespace rapt::test {
namespace {

// What comes out for each byte, and at the end.
std::vector<std::string> streamed_bytes(const std::string& bytes) {
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe("", 256);
  text::StreamDecoder decoder(tokenizer);
  std::vector<std::string> out;
  for (const char byte : bytes)
    for (int64_t id = 0; id < 256; ++id)
      if (tokenizer.token_bytes(id)[0] == byte) out.push_back(decoder.next(id));
  out.push_back(decoder.finish());
  EXPECT_EQ(decoder.finish(), "");
  return out;
}

using Strings = std::vector<std::string>;

TEST(StreamDecoder, BytesWaitForTheirCharacter) {
  EXPECT_EQ(streamed_bytes("a\u00e9"), (Strings{"a", "", "\u00e9", ""}));
  EXPECT_EQ(streamed_bytes("\U0001f600b"), (Strings{"", "", "", "\U0001f600", "b", ""}));
  EXPECT_EQ(streamed_bytes("\ufffd"), (Strings{"", "", "\ufffd", ""}));
}

TEST(StreamDecoder, BytesThatBeginNoCharacterAreReplaced) {
  EXPECT_EQ(streamed_bytes("\xff"), (Strings{"\ufffd", ""}));
  EXPECT_EQ(streamed_bytes("\x80\x80"), (Strings{"\ufffd", "\ufffd", ""}));
  EXPECT_EQ(streamed_bytes("\xe4\xb8!"), (Strings{"", "", "\ufffd!", ""}));
  EXPECT_EQ(streamed_bytes("\xe4\xc3\xa9"), (Strings{"", "\ufffd", "\u00e9", ""}));
  EXPECT_EQ(streamed_bytes("\xed\xa0\x80"), (Strings{"", "\ufffd\ufffd", "\ufffd", ""}));
}

TEST(StreamDecoder, AnUnfinishedCharacterEndsTheText) {
  EXPECT_EQ(streamed_bytes("a\xf0\x9f\x98"), (Strings{"a", "", "", "", "\ufffd"}));
}

TEST(StreamDecoder, IdsOutOfRangeAreRejected) {
  text::StreamDecoder decoder(text::learn_characters("ab"));  // keeps a copy
  EXPECT_EQ(decoder.next(1), "b");
  expect_error(
      ErrorCode::argument, [&] { decoder.next(2); }, "0 to 1");
}

}  // namespace
}  // namespace rapt::test
