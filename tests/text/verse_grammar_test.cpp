// The verse grammar: every text has one derivation, and the entropy is that of the texts.
#include "rapt/text/verse_grammar.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "rapt/error.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using laws::expect_error;
using text::Grammar;

struct Derivations {
  double count = 0, probability = 0;  // summed over all derivations
};

// All derivations of a text, by dynamic programming over (rule, first character). Rules that begin
// with themselves would not end.
class Parser {
 public:
  Parser(const Grammar& grammar, std::string text) : grammar_(grammar), text_(std::move(text)) {}

  Derivations of_whole_text() {
    const Ends& ends = after(0, 0);
    const auto found = ends.find(text_.size());
    return found == ends.end() ? Derivations{} : found->second;
  }

 private:
  using Ends = std::map<size_t, Derivations>;  // where an expansion ends: all that end there

  const Ends& after(int32_t rule, size_t begin) {
    const auto key = std::make_pair(rule, begin);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Ends ends;
    const Grammar::Rule& r = grammar_.rules()[static_cast<size_t>(rule)];
    for (const Grammar::Alternative& alternative : r.alternatives) {
      const double p = static_cast<double>(alternative.weight) / static_cast<double>(r.weights);
      Ends reached = {{begin, {1, p}}};
      for (const Grammar::Symbol& symbol : alternative.symbols) reached = advance(reached, symbol);
      for (const auto& [end, d] : reached) add(ends[end], d.count, d.probability);
    }
    return known_[key] = ends;
  }

  Ends advance(const Ends& from, const Grammar::Symbol& symbol) {
    Ends to;
    for (const auto& [begin, d] : from) {
      if (symbol.rule < 0) {
        if (text_.compare(begin, symbol.text.size(), symbol.text) == 0)
          add(to[begin + symbol.text.size()], d.count, d.probability);
        continue;
      }
      for (const auto& [end, inner] : after(symbol.rule, begin))
        add(to[end], d.count * inner.count, d.probability * inner.probability);
    }
    return to;
  }

  static void add(Derivations& sum, double count, double probability) {
    sum.count += count;
    sum.probability += probability;
  }

  const Grammar& grammar_;
  std::string text_;
  std::map<std::pair<int32_t, size_t>, Ends> known_;
};

TEST(VerseGrammarTest, EveryStanzaHasOneDerivation) {
  for (uint64_t i = 0; i < 500; ++i) {
    const Grammar::Drawn stanza = text::verse_grammar().draw(1, i);
    const Derivations all = Parser(text::verse_grammar(), stanza.text).of_whole_text();
    ASSERT_EQ(all.count, 1) << stanza.text;
    ASSERT_NEAR(-std::log(all.probability), stanza.nats, 1e-9 * stanza.nats) << stanza.text;
  }
}

TEST(VerseGrammarTest, ParserFindsEveryDerivationOfAnAmbiguousText) {
  const Grammar grammar(
      "sum = <number> | <number>+<sum> | <number>+<number>+<number>\nnumber = 1\n");
  EXPECT_EQ(Parser(grammar, "1").of_whole_text().count, 1);
  EXPECT_EQ(Parser(grammar, "1+1+1").of_whole_text().count, 2);
  EXPECT_EQ(Parser(grammar, "1+").of_whole_text().count, 0);
}

// The words of the lists: rules without other rules.
TEST(VerseGrammarTest, EveryWordStandsInOneList) {
  std::set<std::string> words;
  for (const Grammar::Rule& rule : text::verse_grammar().rules())
    for (const Grammar::Alternative& alternative : rule.alternatives) {
      if (alternative.symbols.size() > 1 || alternative.symbols[0].rule >= 0) continue;
      EXPECT_TRUE(words.insert(alternative.symbols[0].text).second)
          << alternative.symbols[0].text << " in " << rule.name;
    }
  EXPECT_GT(words.size(), 100u);
}

// A ratio of means and its standard error, over independent pairs.
struct Ratio {
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0, sum_yy = 0;
  void add(double x, double y) {
    sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y, sum_yy += y * y;
  }
  double value() const { return sum_x / sum_y; }
  double error() const {
    const double r = value();
    return std::sqrt(sum_xx - 2 * r * sum_xy + r * r * sum_yy) / sum_y;
  }
};

double words_of(const std::string& stanza) {
  double words = 0;
  for (size_t i = 1; i < stanza.size(); ++i)
    words += std::isspace(static_cast<unsigned char>(stanza[i])) && stanza[i - 1] != '\n';
  return words;
}

TEST(VerseGrammarTest, EntropyIsTheMeanOfMinusLogProbability) {
  Ratio per_character, per_word;
  for (uint64_t i = 0; i < 20000; ++i) {
    const Grammar::Drawn stanza = text::verse_grammar().draw(2, i);
    per_character.add(stanza.nats, static_cast<double>(stanza.text.size()));
    per_word.add(stanza.nats, words_of(stanza.text));
  }
  const text::VerseEntropy entropy = text::verse_entropy();
  EXPECT_NEAR(entropy.per_character(), per_character.value(), 4 * per_character.error());
  EXPECT_NEAR(entropy.per_word(), per_word.value(), 4 * per_word.error());
  EXPECT_LT(per_character.error(), 1e-3 * per_character.value());
}

TEST(VerseGrammarTest, ExpectationsOfASmallGrammarAreThoseOfItsFormulas) {
  // n letters with probability 2^-n: 2 letters and 2 ln 2 nats are expected.
  const Grammar grammar("row = a | a<row>\n");
  EXPECT_NEAR(grammar.entropy(), 2 * std::log(2.0), 1e-15);
  const auto length = [](std::string_view piece) { return static_cast<double>(piece.size()); };
  EXPECT_NEAR(grammar.expected(length), 2, 1e-15);
}

TEST(VerseGrammarTest, TextsDependOnTheirSeedAlone) {
  const std::string text = text::write_verse(1000, 7);
  EXPECT_GE(text.size(), 1000u);
  EXPECT_EQ(text.substr(text.size() - 3), ".\n\n");
  EXPECT_EQ(text, text::write_verse(1000, 7));
  EXPECT_NE(text, text::write_verse(1000, 8));
  EXPECT_EQ(text::write_verse(5000, 7).substr(0, text.size()), text);
  EXPECT_EQ(text::write_verse(0, 7), "");
}

// Where these change, so do all texts that models have been trained on.
TEST(VerseGrammarTest, FirstStanzaOfASeed) {
  EXPECT_EQ(text::verse_grammar().draw(7, 0).text,
            "I asked the golden bird for luck.\n"
            "It moves beyond the lane.\n"
            "It gave me honey and some salt.\n"
            "It waits behind the plain.\n\n");
  EXPECT_NEAR(text::verse_entropy().per_character(), 0.260097, 1e-6);
}

TEST(VerseGrammarTest, RejectsRulesThatCannotBeReadOrDoNotEnd) {
  const auto expect_refused = [](const char* rules, const char* reason) {
    expect_error(ErrorCode::format, {reason}, [&] { Grammar grammar(rules); });
  };
  expect_refused("", "expected a rule");
  expect_refused("\n  a | b\n", "line 2 of the grammar");
  expect_refused("a b c\n", "expected `name = alternative");
  expect_refused("a<b = c\n", "has a blank or one of");
  expect_refused("a = b\na = c\n", "another rule \"a\"");
  expect_refused("a = b | | c\n", "an alternative is empty");
  expect_refused("a = <b\n", "a < without >");
  expect_refused("a = <b>\n", "no rule \"b\"");
  expect_refused("a = 0 b | c\n", "weights from 1");
  expect_refused("a = 99999999999999999999 b | c\n", "weights from 1");
  expect_refused("a = b\nc = d<c>\n", "is infinite");
  expect_refused("a = b | a<a><a>\n", "is infinite");
  expect_refused("a = b | 2 a<a><a>\n", "is infinite");
  expect_error(ErrorCode::argument, {"0 or more"}, [] { text::write_verse(-1, 0); });
}

}  // namespace
