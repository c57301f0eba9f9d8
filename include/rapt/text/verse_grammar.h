#pragma once
// Endless verse of a known entropy: rhymed stanzas by a grammar without ambiguity.
//
//   std::string text = write_verse(20'000, seed);          stanzas, each followed by an empty line
//   double best = verse_entropy().per_character();         the lowest loss that a model can reach
//
// Each line has iambic feet, four or three. Rhymes are pairs, and a pair is chosen as a whole:
// couplets (aabb), couplets in each other to any depth (abba, abccba), ballads (xaxa). So the last
// word of a line depends on a word up to many lines above, which is what attention can learn.
//
// No text has two derivations: each word stands in one list, no two kinds of line have the same
// sequence of lists, and the two words of a rhyme come from two lists, as an opening and a closing
// bracket, so that the lines of a stanza can be paired in one way only. So the entropy H of the
// choices of a stanza is the entropy of its text. Stanzas are independent, and a text falls into
// its stanzas at the empty lines. Hence the entropy of endless verse per character is H / L with
// the expected length L of a stanza (renewal reward theorem), and H / W per word.
#include <cstdint>
#include <string>

#include "rapt/text/grammar.h"

namespace rapt::text {

// The rules; a text of this grammar is a stanza and the empty line behind it.
const Grammar& verse_grammar();

// The stanzas 0, 1, 2, ... of a seed until the text has at least `characters` characters (ASCII, so
// they are bytes). Throws Error(argument) for a negative number.
std::string write_verse(int64_t characters, uint64_t seed);

// Of a stanza, expected.
struct VerseEntropy {
  double nats;        // H
  double characters;  // L, with line breaks
  double words;       // W
  // Nats per character of endless verse, H / L.
  double per_character() const { return nats / characters; }
  // Nats per word of endless verse, H / W.
  double per_word() const { return nats / words; }
};
VerseEntropy verse_entropy();

}  // namespace rapt::text
