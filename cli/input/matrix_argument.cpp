// Parses numbers between separators, row by row.
#include "cli/input/matrix_argument.h"

#include <algorithm>
#include <vector>

#include "cli/input/arguments.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

constexpr std::string_view kNumberCharacters = "0123456789+-.eE";
constexpr std::string_view kSeparators = " \t,;\n";

}  // namespace

bool is_matrix_text(std::string_view text) {
  const std::string allowed = std::string(kNumberCharacters) + std::string(kSeparators);
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

Tensor parse_matrix(const std::string& option, std::string_view text) {
  std::vector<double> values;
  int64_t rows = 0, columns = 0, in_row = 0;
  const auto end_row = [&] {
    if (in_row == 0) return;
    if (rows > 0 && in_row != columns) {
      throw Failure(Exit::data, option + ": row " + std::to_string(rows) + " has " +
                                    std::to_string(in_row) + " numbers, the rows before it have " +
                                    std::to_string(columns));
    }
    columns = in_row;
    in_row = 0;
    ++rows;
  };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (kSeparators.find(c) != std::string_view::npos) {
      if (c == ';' || c == '\n') end_row();
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    values.push_back(parse_real(option, std::string(text.substr(at, end - at))));
    ++in_row;
    at = end;
  }
  end_row();
  Tensor matrix(DType::f64, {rows, columns});
  std::copy(values.begin(), values.end(), matrix.values<double>().begin());
  return matrix;
}

}  // namespace rapt::cli
