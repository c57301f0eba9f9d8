#pragma once
// What the package tokenizers knows of characters in BertNormalizer and BertPreTokenizer.
#include <cstdint>
#include <span>

namespace rapt::text {

bool is_dropped(char32_t c);      // by clean_text
bool becomes_blank(char32_t c);   // by clean_text
bool is_chinese(char32_t c);      // has blanks around it
bool is_separator(char32_t c);    // ends a word, and belongs to none
bool is_punctuation(char32_t c);  // is a word by itself

// What a character decomposes to, without the marks that are removed.
struct Decomposition {
  char32_t parts[3];
  int count;
};
Decomposition strip_accent(char32_t c);

// Marks that are not removed are sorted by their canonical class. 0: not sorted; else the rank of
// the class.
int mark_rank(char32_t c);
// A mark that is removed, and over which none is sorted.
bool ends_mark_run(char32_t c);

Decomposition lowercase_of(char32_t c);

}  // namespace rapt::text
