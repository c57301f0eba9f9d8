#pragma once
// The command line that the benchmarks share.
//
//   [--filter TEXT] [--repetitions N] [--quick] [--json]
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct Arguments {
  std::string filter;    // only cases with this text in their name
  int repetitions = 20;  // of each case, at most; fewer if they would take long
  bool quick = false;    // small problems, one repetition: proves that it runs, measures nothing
  bool json = false;     // one object per line instead of a table
  std::vector<std::string> rest;

  bool wants(std::string_view name) const { return name.find(filter) != std::string_view::npos; }
};

// Throws rapt::Error(argument).
Arguments parse_arguments(int argc, char** argv);

// Words that are no options: descriptors of problems, if a benchmark accepts them.
enum class Descriptors { refused, taken };

// Calls main_of(arguments), which returns whether any case was wanted. The exit status: 0; 1 for an
// error of the library; 2 for wrong arguments; 3 if no case has the filter's text in its name.
int run_benchmark(int argc, char** argv, const char* usage, bool (*main_of)(const Arguments&),
                  Descriptors descriptors = Descriptors::refused);

}  // namespace bench
