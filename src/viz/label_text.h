#pragma once
// Labels and titles: untrusted UTF-8 made safe to show, measured and shortened.
#include <functional>
#include <string>
#include <string_view>

namespace rapt::viz {

// What is left of a text that may be shown anywhere: invalid bytes become U+FFFD, white space
// becomes a blank, control and invisible format characters (escape sequences, bidirectional
// overrides) are dropped, and so are combining marks that pile up on one letter.
std::u32string clean_text(std::string_view utf8);

std::string encode_utf8(std::u32string_view text);

// Columns on a terminal: 0, 1 or 2 per character.
int display_width(char32_t character);
int display_width(std::u32string_view text);

// The longest beginning of the text that, with the ellipsis behind it, measures at most `limit`;
// the text itself where it fits.
std::u32string shorten(std::u32string_view text, double limit, char32_t ellipsis,
                       const std::function<double(std::u32string_view)>& measure);

}  // namespace rapt::viz
