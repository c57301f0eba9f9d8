// CSV: lines of numbers with commas between them.
#include <charconv>
#include <system_error>

#include "io/quoted.h"
#include "io/text/number_list.h"
#include "rapt/io/number_text.h"

namespace rapt {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Returns false if the text is no number, or beyond the range of a double.
bool add_number(std::string_view text, NumberList& numbers) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  int64_t whole = 0;
  // "-0" is a float: an integer would lose the sign.
  if (const auto [at, error] = std::from_chars(text.data(), end, whole);
      at == end && error == std::errc{} && !(whole == 0 && text[0] == '-')) {
    numbers.add(whole);
    return true;
  }
  double real = 0;
  const auto [at, error] = std::from_chars(text.data(), end, real);
  if (at != end || error != std::errc{}) return false;
  numbers.add(real);
  return true;
}

}  // namespace

TensorFile open_csv(const std::shared_ptr<const InputFile>& file) {
  const std::string text = text_of(*file);
  NumberList numbers;
  int64_t rows = 0, columns = 0;
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::format,
                path_text(file->name()) + ": line " + std::to_string(rows + 1) + ": " + what);
  };
  for (size_t at = 0; at < text.size(); ++rows) {
    const size_t line_end = std::min(text.find('\n', at), text.size());
    int64_t in_row = 0;
    for (size_t begin = at; begin <= line_end; ++in_row) {
      const size_t end = std::min(text.find(',', begin), line_end);
      const std::string_view cell = trimmed(std::string_view(text).substr(begin, end - begin));
      if (cell.empty() || !add_number(cell, numbers))
        fail("expected numbers with commas between them, got " + in_quotes(cell) +
             (rows == 0 ? "; a line of titles has to go" : ""));
      begin = end + 1;
    }
    if (rows > 0 && in_row != columns)
      fail("expected " + std::to_string(columns) + " numbers as in the lines before, got " +
           std::to_string(in_row));
    columns = in_row;
    at = line_end + 1;
  }
  return std::move(numbers).as_file("csv", file->name(), {rows, columns});
}

}  // namespace rapt
