// Foreign text in messages is readable, on one line, and without terminal control sequences.
#include "rapt/io/plain_text.h"

#include <gtest/gtest.h>

namespace rapt::test {
namespace {

TEST(PlainText, WordsOfAnyScriptStay) {
  for (const char* text :
       {"", "weights/q.npy", "ma\u00dfe \u4e2d\u6587 \U0001f600.npy", "\ufffd", "a\\x1b is text"})
    EXPECT_EQ(plain_text(text), text);
}

TEST(PlainText, WhatDrivesATerminalIsSpeltOut) {
  EXPECT_EQ(plain_text("\x1b]0;x\x07\r\n\t\x7f"), "\\x1b]0;x\\x07\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(plain_text(std::string_view("a\0b", 3)), "a\\x00b");
  // Control characters beyond ASCII: U+009B begins a sequence as ESC [ does.
  EXPECT_EQ(plain_text("\u009b31m\u0085"), "\\xc2\\x9b31m\\xc2\\x85");
  EXPECT_EQ(plain_text("\u2028\u2029"), "\\xe2\\x80\\xa8\\xe2\\x80\\xa9");
}

// Marks that reverse the direction could show "txt.npy" as "ypn.txt".
TEST(PlainText, WhatTurnsTheDirectionIsSpeltOut) {
  EXPECT_EQ(plain_text("a\u202etxt"), "a\\xe2\\x80\\xaetxt");
  for (const char* text : {"\u061c", "\u200e", "\u200f", "\u202a", "\u2066", "\u2069"})
    EXPECT_EQ(plain_text(text).substr(0, 2), "\\x") << text;
}

TEST(PlainText, BytesThatAreNoUtf8AreSpeltOut) {
  EXPECT_EQ(plain_text("a\x9b\xff"), "a\\x9b\\xff");
  EXPECT_EQ(plain_text("\xc3("), "\\xc3(");                  // cut short
  EXPECT_EQ(plain_text("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(plain_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

}  // namespace
}  // namespace rapt::test
