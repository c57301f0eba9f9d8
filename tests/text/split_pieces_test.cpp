// GPT-2's expression, piece by piece.
#include "text/bpe/split_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rapt::test {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(std::string_view text, text::PiecePattern pattern = text::PiecePattern::gpt2) {
  Pieces pieces;
  while (!text.empty()) {
    pieces.emplace_back(text.substr(0, text::first_piece(text, pattern)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

TEST(SplitPieces, ABlankBelongsToWhatFollows) {
  EXPECT_EQ(pieces_of("the cat, 12 cats."), (Pieces{"the", " cat", ",", " 12", " cats", "."}));
  EXPECT_EQ(pieces_of("a1!b"), (Pieces{"a", "1", "!", "b"}));
  EXPECT_EQ(pieces_of(" !? x"), (Pieces{" !?", " x"}));
}

TEST(SplitPieces, ContractionsStandAlone) {
  EXPECT_EQ(pieces_of("don't we'll"), (Pieces{"don", "'t", " we", "'ll"}));
  EXPECT_EQ(pieces_of("x'sy"), (Pieces{"x", "'s", "y"}));
  EXPECT_EQ(pieces_of("'re've'm'd"), (Pieces{"'re", "'ve", "'m", "'d"}));
  EXPECT_EQ(pieces_of("'l'v'R'S"), (Pieces{"'", "l", "'", "v", "'", "R", "'", "S"}));
  EXPECT_EQ(pieces_of(" 's !'s"), (Pieces{" '", "s", " !'", "s"}));
}

TEST(SplitPieces, TheLastWhiteSpaceBeforeAWordIsCutOff) {
  EXPECT_EQ(pieces_of("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(pieces_of("a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
  EXPECT_EQ(pieces_of("a\n b"), (Pieces{"a", "\n", " b"}));
  EXPECT_EQ(pieces_of("a\tb"), (Pieces{"a", "\t", "b"}));
  EXPECT_EQ(pieces_of("a  \n"), (Pieces{"a", "  \n"}));
  EXPECT_EQ(pieces_of(" "), (Pieces{" "}));
}

TEST(SplitPieces, ClassesAreThoseOfUnicode) {
  EXPECT_EQ(pieces_of("\u00e9\u4e2d\U00010330"), (Pieces{"\u00e9\u4e2d\U00010330"}));  // letters
  EXPECT_EQ(pieces_of("a\u00b2\u0663\u2167"), (Pieces{"a", "\u00b2\u0663\u2167"}));    // numbers
  EXPECT_EQ(pieces_of("e\u0301\U0001f600"), (Pieces{"e", "\u0301\U0001f600"}));        // neither
  EXPECT_EQ(pieces_of("a\u00a0b"), (Pieces{"a", "\u00a0", "b"}));
  EXPECT_EQ(pieces_of("a\u3000 b"), (Pieces{"a", "\u3000", " b"}));
  EXPECT_EQ(pieces_of("a\u200bb"), (Pieces{"a", "\u200b", "b"}));  // no white space
}

TEST(SplitPieces, LlamaAndQwenCutNumbersAndLines) {
  using enum text::PiecePattern;
  for (const text::PiecePattern pattern : {llama3, qwen2}) {
    EXPECT_EQ(pieces_of("DON'T x'\u017f", pattern), (Pieces{"DON", "'T", " x", "'\u017f"}));
    EXPECT_EQ(pieces_of("a,b\tc -d", pattern), (Pieces{"a", ",b", "\tc", " -", "d"}));
    EXPECT_EQ(pieces_of("a \n\n  b", pattern), (Pieces{"a", " \n\n", " ", " b"}));
    EXPECT_EQ(pieces_of("a;\r\n\nb", pattern), (Pieces{"a", ";\r\n\n", "b"}));
    EXPECT_EQ(pieces_of(" !?\n x  ", pattern), (Pieces{" !?\n", " x", "  "}));
    EXPECT_EQ(pieces_of("\na", pattern), (Pieces{"\n", "a"}));
  }
  EXPECT_EQ(pieces_of("x 12345", llama3), (Pieces{"x", " ", "123", "45"}));
  EXPECT_EQ(pieces_of("x 12a", qwen2), (Pieces{"x", " ", "1", "2", "a"}));
}

}  // namespace
}  // namespace rapt::test
