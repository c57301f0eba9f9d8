#pragma once
// Chosen rows of an option: a list, 0,5,9, or a range, a:b for a to b - 1.
#include <cstdint>
#include <string>
#include <vector>

namespace rapt::cli {

struct RowsArgument {
  std::vector<int64_t> list;   // in the order given; empty: the range
  int64_t begin = 0, end = 0;  // of the range
};

// Throws usage errors.
RowsArgument parse_rows(const std::string& option, const std::string& text);

// The same of a matrix of `count` rows. Throws Failure(data) for rows that it lacks, too.
RowsArgument rows_within(const std::string& option, const std::string& text, int64_t count);

}  // namespace rapt::cli
