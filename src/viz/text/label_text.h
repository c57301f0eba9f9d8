#pragma once
// Labels and titles: untrusted UTF-8 made safe to show, measured and shortened.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::viz {

// A text made safe to show: invalid bytes become U+FFFD, and white space becomes a blank. Control
// and invisible format characters (escape sequences, bidirectional overrides) are dropped, and so
// are combining marks beyond the first few of a letter.
std::u32string clean_text(std::string_view utf8);

std::string encode_utf8(std::u32string_view text);

// Columns on a terminal: 0, 1 or 2 per character.
int display_width(char32_t character);
int display_width(std::u32string_view text);

// Splits a text into characters with their marks: combining marks, and vowel signs of Indic scripts
// that take a column of their own.
std::vector<std::u32string> letters(std::u32string_view text);

// The text with a direction mark at each end that needs one, so that text from right to left keeps
// its punctuation and its ellipsis on its own side. The marks are invisible, and the text is still
// placed in a line from left to right.
std::u32string closed(std::u32string_view text);

// The text with only those emoji on whose width terminals agree: none is joined from several, or
// widened by a selector.
std::u32string with_plain_emoji(std::u32string_view text);

// As closed(), but also prevents text after it in the line, the cells of a terminal, from being
// reordered with it.
std::u32string kept_to_itself(std::u32string_view text);

// The longest beginning of the text that measures at most `limit` with the ellipsis after it; the
// text itself if it fits.
std::u32string shorten(std::u32string_view text, double limit, char32_t ellipsis,
                       const std::function<double(std::u32string_view)>& measure);

}  // namespace rapt::viz
