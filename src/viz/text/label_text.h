#pragma once
// Labels and titles: untrusted UTF-8 made safe to show, measured and shortened.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::viz {

// What is left of a text that may be shown anywhere: invalid bytes become U+FFFD, white space
// becomes a blank, control and invisible format characters (escape sequences, bidirectional
// overrides) are dropped, and so are combining marks that pile up on one letter.
std::u32string clean_text(std::string_view utf8);

std::string encode_utf8(std::u32string_view text);

// Columns on a terminal: 0, 1 or 2 per character.
int display_width(char32_t character);
int display_width(std::u32string_view text);

// Characters with the marks that belong to them: combining ones, and the vowel signs of Indic
// scripts that take a column of their own.
std::vector<std::u32string> letters(std::u32string_view text);

// The text with a mark of direction at each end that needs one: what is written from right to left
// keeps its punctuation and its ellipsis on its own side. The marks are invisible; the text stands
// in a line from left to right as before.
std::u32string closed(std::u32string_view text);

// What terminals agree on the width of: no emoji is joined from several, or made wide by a
// selector.
std::u32string with_plain_emoji(std::u32string_view text);

// As closed(); and what stands behind the text in a line, the cells of a terminal, is not turned
// around with it.
std::u32string kept_to_itself(std::u32string_view text);

// The longest beginning of the text that, with the ellipsis behind it, measures at most `limit`;
// the text itself where it fits.
std::u32string shorten(std::u32string_view text, double limit, char32_t ellipsis,
                       const std::function<double(std::u32string_view)>& measure);

}  // namespace rapt::viz
