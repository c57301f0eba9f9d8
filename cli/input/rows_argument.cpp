#include "cli/input/rows_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cli/input/arguments.h"
#include "cli/process/failure.h"

namespace rapt::cli {

RowsArgument parse_rows(const std::string& option, const std::string& text) {
  RowsArgument rows;
  if (text.find(':') != std::string::npos) {
    std::tie(rows.begin, rows.end) = parse_range(option, text);
    return rows;
  }
  rows.list = parse_integers(option, text);
  if (std::ranges::any_of(rows.list, [](int64_t row) { return row < 0; }))
    throw usage_error(option + ": expected rows from 0 on, got '" + text + "'");
  return rows;
}

RowsArgument rows_within(const std::string& option, const std::string& text, int64_t count) {
  RowsArgument rows = parse_rows(option, text);
  if (rows.end > count ||
      std::ranges::any_of(rows.list, [count](int64_t row) { return row >= count; }))
    throw Failure(Exit::data, fmt::format("{} {}: there are {} rows", option, text, count));
  return rows;
}

}  // namespace rapt::cli
