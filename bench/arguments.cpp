#include "arguments.h"

#include <cstdio>
#include <cstdlib>

#include "rapt/error.h"

namespace bench {
Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--json")
      arguments.json = true;
    else if (word == "--quick")
      arguments.quick = true;
    else if (word == "--filter" && has_value)
      arguments.filter = argv[++i];
    else if (word == "--repetitions" && has_value)
      arguments.repetitions = std::atoi(argv[++i]);
    else
      arguments.rest.push_back(word);
  }
  if (arguments.repetitions < 1)
    throw rapt::Error(rapt::ErrorCode::argument, "--repetitions expects a number from 1");
  if (arguments.quick) arguments.repetitions = 1;
  return arguments;
}

int run_benchmark(int argc, char** argv, const char* usage, bool (*main_of)(const Arguments&),
                  Descriptors descriptors) try {
  Arguments arguments;
  try {
    arguments = parse_arguments(argc, argv);
    for (const std::string& word : arguments.rest)
      if (word.starts_with("-") || descriptors == Descriptors::refused)
        throw rapt::Error(rapt::ErrorCode::argument, "unknown argument " + word);
  } catch (const rapt::Error& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), usage);
    return 2;
  }
  if (main_of(arguments)) return 0;
  // Readers of JSON run several benchmarks, only one of which may have the case.
  if (!arguments.json)
    std::fprintf(stderr, "no case has \"%s\" in its name\n", arguments.filter.c_str());
  return 3;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace bench
