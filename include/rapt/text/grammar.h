#pragma once
// Texts by the rules of a weighted grammar, and the entropy of these texts: what no model can beat.
//
//   Grammar grammar("greeting = 3 Good <day>! | Hello!\nday = morning | evening\n");
//   Drawn one = grammar.draw(seed, 0);           text 0 of the seed, and -ln of its probability
//   double nats = grammar.entropy();             the mean of one.nats, computed from the rules
//
// Rules are lines `name = alternative | alternative`. The first rule is the whole text. A line that
// begins with blanks continues the rule above; empty lines and lines that begin with # are skipped.
//
//   3 The <noun> sleeps    weight 3 (a number before a blank; without it 1), the text "The ", an
//                          expansion of the rule `noun`, the text " sleeps"
//   one / two              a line break between "one" and "two": blanks around / are dropped
//
// An alternative with weight w of a rule whose weights sum to W is chosen with probability w / W,
// whatever was chosen before (a probabilistic context-free grammar: Booth and Thompson 1973,
// "Applying probability measures to abstract languages").
//
// An expectation over the expansions of a rule A is a sum over its alternatives a with probability
// p(a), and thus a linear system over all rules:
//
//   x(A) = sum over a of p(a) (cost(a) + sum of x(B) over the rules B in a)
//
// With cost(a) = -ln p(a) it is the entropy of the choices. That is the entropy of the texts if the
// grammar is not ambiguous: if every text has one derivation only.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::text {

class Grammar {
 public:
  // A part of an alternative: a rule or a piece of text.
  struct Symbol {
    int32_t rule = -1;      // the index of the rule, or -1 for text
    std::string text = {};  // empty for a rule
  };
  // What a rule may expand to, chosen with the probability weight / Rule::weights.
  struct Alternative {
    uint64_t weight = 1;               // 1 or more
    std::vector<Symbol> symbols = {};  // in the order of the text
  };
  // A line `name = alternatives` with the lines that continue it.
  struct Rule {
    std::string name;                            // as in <name>
    std::vector<Alternative> alternatives = {};  // at least one
    uint64_t weights = 0;                        // their sum, at most 2^24
  };
  // A text with its probability.
  struct Drawn {
    std::string text;  // in the encoding of the rules
    double nats = 0;   // -ln of the probability of all choices
  };

  // Throws Error(format) for rules that cannot be read, with the number of the line, and for rules
  // whose texts have no finite expected length.
  explicit Grammar(std::string_view rules);

  // Text `index` of a seed: the same on every machine, and independent of all others. Choice i is
  // word i of Philox4x32-10 with the key `seed` in the stream `index`, modulo the sum of the
  // weights; so probabilities are exact to 2^-40.
  Drawn draw(uint64_t seed, uint64_t index) const;

  // The expected nats of the choices of a text.
  double entropy() const;
  // The expected sum of cost(piece) over the pieces of text between the rules. The length in bytes:
  // expected([](std::string_view piece) { return double(piece.size()); }).
  double expected(const std::function<double(std::string_view)>& cost) const;

  // In the order in which they are written; the first is the whole text.
  std::span<const Rule> rules() const { return rules_; }

 private:
  std::vector<double> solve(
      const std::function<double(const Rule&, const Alternative&)>& cost) const;

  std::vector<Rule> rules_;
};

}  // namespace rapt::text
